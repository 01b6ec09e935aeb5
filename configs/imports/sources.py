"""Find other tools' files on this machine and read them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from configs.document import Fault, Json, Place, read
from configs.imports.reading import Found, Tool, Values, Where
from configs.imports.tools import TOOLS
from configs.load import SERVERS
from configs.locate import WritableScope

_START = Place(1, 1)


class Source(NamedTuple):
    """One file of one tool."""

    tool: Tool
    file: Path
    scope: WritableScope
    """Whose it is: the user's, or the project's."""


class Reading(NamedTuple):
    """What was found in one file."""

    source: Source
    found: tuple[Found, ...] = ()
    fault: str = ""
    """Why it could not be read."""


def by_name(name: str) -> Tool | None:
    """The tool somebody means."""
    wanted = name.lower().replace(" ", "-")
    return next((tool for tool in TOOLS if wanted in (tool.name, *tool.aliases)), None)


def on_this_machine(home: Path, directories: Iterable[Path], tools: Iterable[Tool] = TOOLS) -> list[Source]:
    """Every file of these tools that is there; of a project's the one nearest to the working directory."""
    found: list[Source] = []
    folders = tuple(directories)
    for tool in tools:
        own = (home / name for name in tool.personal)
        found += [Source(tool, file, "user") for file in own if _is_file(file)]
        for name in tool.shared:
            near = (directory / name for directory in folders)
            file = next((file for file in near if _is_file(file)), None)
            if file is not None and file not in [source.file for source in found]:
                found.append(Source(tool, file, "project"))
    return found


def of_file(file: Path, home: Path, directories: Sequence[Path]) -> Source:
    """A file somebody names: whose it is by its path, else by what it holds.

    Raises:
        Fault: it cannot be read.
    """
    absolute = Path(os.path.abspath(file))  # noqa: PTH100 - links are not resolved: the name tells the tool
    for source in on_this_machine(home, directories):
        if source.file == absolute:
            return source
    inside = any(absolute.is_relative_to(directory) for directory in directories)
    for tool in TOOLS:
        if any(map(absolute.match, tool.shared)):
            return Source(tool, absolute, "project" if inside else "user")
        if any(map(absolute.match, tool.personal)):
            return Source(tool, absolute, "user")
    return Source(_by_content(absolute), absolute, "user")


def read_source(source: Source, where: Where) -> Reading:
    """All servers of a file; a file that cannot be read says why."""
    try:
        return Reading(source, tuple(source.tool.read(_values(source.file), where)))
    except Fault as fault:
        return Reading(source, fault=f"{source.file}:{fault}")


def _by_content(file: Path) -> Tool:
    values = _values(file)
    for key, name in (("mcp_servers", "codex"), ("servers", "vscode"), ("mcp", "vscode"), (SERVERS, "claude")):
        if key in values and (tool := by_name(name)):
            return tool
    return TOOLS[0]


def _values(file: Path) -> Values:
    if file.suffix == ".toml":
        return _toml(file)
    document = read(file)
    if document is None:
        raise Fault(_START, "there is no such file", "Check its name.")
    return document.value


def _toml(file: Path) -> Values:
    try:
        return cast("dict[str, Json]", tomllib.loads(file.read_bytes().decode()))
    except (OSError, ValueError) as error:
        raise Fault(_START, f"cannot be read: {error}", "Correct it.") from error


def _is_file(file: Path) -> bool:
    return os.path.isfile(file)  # noqa: PTH113 - Path.is_file raises where it may not look
