"""Where the commands that write configuration look and write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path

from configs.document import Document
from configs.locate import Places, WritableScope, find
from configs.models import Config
from configs.store import Standing, Unusable, rewrite
from gateway.cli.usage import Failed, Usage
from gateway.cli.wiring import configure


def looked_up(options: argparse.Namespace) -> tuple[Config, Places]:
    """What is configured and where that stands.

    Raises:
        Failed: a file cannot be read, so nothing should be written.
    """
    config = configure(options)
    if config.broken:
        raise Failed("nothing was changed: correct the file first")
    return config, find(options.project, cwd=Path.cwd(), home=Path.home())


def write(file: Path, change: Callable[[Document], str], *, shared: bool = False) -> None:
    """Change a configuration file.

    Raises:
        Failed: it cannot be.
    """
    try:
        rewrite(file, change, shared=shared)
    except Unusable as fault:
        raise Failed(str(fault)) from fault


def file_of(places: Places, scope: WritableScope) -> Path:
    """The file of a scope.

    Raises:
        Usage: there can be no project here.
    """
    file = places.writable(scope)
    if file is None:
        raise Usage(f"{places.project} is no project: its .kode.json is your own. Use --scope user, or --project DIR.")
    return file


def entries_of(name: str, standing: Mapping[str, tuple[Standing, ...]], *, kimi: bool) -> tuple[Standing, ...]:
    """All entries of a name, lowest layer first.

    Raises:
        Usage: nobody has that name.
    """
    if found := standing.get(name):
        return found
    if name == "kimi" and kimi:
        raise Usage('kimi is built in: "kimi": true or false under "gateway" in ~/.kode.json switches it.')
    near = get_close_matches(name, standing, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(standing)) or 'none'}."
    raise Usage(f"there is no server {name!r} in your files. {hint}")
