"""Turn the variables that other tools write in their values into `${VAR}`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

_EDITOR = re.compile(r"\$\{([^}]*)\}")
_OURS = re.compile(r"[A-Za-z_]\w*(?::-.*)?", re.ASCII | re.DOTALL)
_BARE = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)


class Input(NamedTuple):
    """What an editor would ask the user for."""

    description: str = ""
    default: str = ""


class Around(NamedTuple):
    """What variables may stand for."""

    root: str
    """How the project's directory is written here."""
    name: str
    """The name of the project's directory."""
    inputs: Mapping[str, Input]


Convert: TypeAlias = Callable[[str, Around, list[str]], str]
"""A text, what it is written amid, where notes go: the text in our spelling."""


def plain(text: str, around: Around, notes: list[str]) -> str:
    """For tools that write `${VAR}` as we do, or have no variables at all."""
    return text


def dollars(text: str, around: Around, notes: list[str]) -> str:
    """For tools that also write `$VAR`."""
    return _BARE.sub(r"${\1}", text)


def editor(text: str, around: Around, notes: list[str]) -> str:
    """For editors: `${env:VAR}`, `${input:id}`, `${workspaceFolder}` and their like."""

    def replacement(match: re.Match[str]) -> str:
        kind, _, name = match[1].partition(":")
        if kind == "env":
            return f"${{{name}}}"
        if kind == "input":
            return _asked(name, around, notes)
        fixed = {
            "workspaceFolder": around.root,
            "workspaceRoot": around.root,
            "workspaceFolderBasename": around.name,
            "userHome": "${HOME}",
            "pathSeparator": "/",
            "/": "/",
        }
        if match[1] in fixed:
            return fixed[match[1]]
        if not _OURS.fullmatch(match[1]) or kind in ("cwd", "file", "fileDirname", "execPath"):
            notes.append(f"{match[0]} means nothing outside the editor: write what it stands for")
        return match[0]

    return _EDITOR.sub(replacement, text)


def _asked(name: str, around: Around, notes: list[str]) -> str:
    """The variable that stands for what the editor would ask."""
    variable = variable_name(name)
    asked = around.inputs.get(name, Input())
    about = f" ({asked.description})" if asked.description else ""
    usable = bool(asked.default) and "}" not in asked.default
    note = f"${{input:{name}}} became ${{{variable}}}: set the variable {variable}{about}"
    if note not in notes:
        notes.append(note)
    return f"${{{variable}:-{asked.default}}}" if usable else f"${{{variable}}}"


def variable_name(name: str) -> str:
    """A name as variables have it: `github-token` is `GITHUB_TOKEN`."""
    plain_name = re.sub(r"\W", "_", name, flags=re.ASCII).upper()
    return f"_{plain_name}" if not plain_name or plain_name[0].isdigit() else plain_name
