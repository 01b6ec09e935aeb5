"""Find where servers are written, and change those files without a byte too many."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from configs.document import Document, Fault, Json, KeyPath, parse, read
from configs.files import PRIVATE, alone, replace
from configs.load import PROJECTS, SERVERS
from configs.locate import Places, kode_project_key
from configs.models import Scope

SHARED = 0o644
"""The mode of a new file in a project: it is there to be read by others."""


class Unusable(Exception):
    """A configuration file that cannot be read or written: where, why, and what to do."""


class Standing(NamedTuple):
    """One server's entry in one file."""

    name: str
    scope: Scope
    file: Path
    path: KeyPath
    value: Json

    @property
    def is_overlay(self) -> bool:
        """Whether it only changes the server of a layer below."""
        launches = isinstance(self.value, dict) and bool({"command", "url"} & self.value.keys())
        return self.scope != "global" and not launches


def opened(file: Path | None) -> Document:
    """A file's document; an empty one where there is no file.

    Raises:
        Unusable: it is there and cannot be read.
    """
    try:
        return (read(file) if file else None) or parse("")
    except Fault as fault:
        raise Unusable(f"{file}:{fault}") from fault


def standings(places: Places) -> Mapping[str, tuple[Standing, ...]]:
    """All entries by the server's name, those of lower layers first.

    Raises:
        Unusable: a file cannot be read.
    """
    found: dict[str, tuple[Standing, ...]] = {}

    def collect(document: Document, file: Path | None, scope: Scope, path: KeyPath) -> None:
        holder = document.find(path)
        for name, value in (holder.value if holder and isinstance(holder.value, dict) else {}).items():
            assert file is not None
            found[name] = (*found.get(name, ()), Standing(name, scope, file, (*path, name), value))

    personal, shared = opened(places.personal), opened(places.project_file)
    collect(personal, places.personal, "global", (SERVERS,))
    projects = personal.value.get(PROJECTS)
    if isinstance(projects, dict) and (key := kode_project_key(projects, places.project)):
        collect(personal, places.personal, "kode-project", (PROJECTS, key, SERVERS))
    collect(shared, places.project_file, "project", (SERVERS,))
    return found


def rewrite(file: Path, change: Callable[[Document], str], *, shared: bool = False) -> None:
    """Put a changed text in a file's place, the old one beside it as `.bak`.

    Raises:
        Unusable: it cannot be read, changed or written; then it is as it was.
    """
    try:
        with alone(file):
            _rewrite(file, change, shared=shared)
    except OSError as error:
        raise Unusable(f"{file} cannot be written: {(error.strerror or str(error)).lower()}") from error


def _rewrite(file: Path, change: Callable[[Document], str], *, shared: bool) -> None:
    document = opened(file)
    try:
        text = change(document)
        parse(text)
    except Fault as fault:
        raise Unusable(f"{file}:{fault}") from fault
    if text == document.text:
        return
    if file.exists() and not os.access(file, os.W_OK):
        # Its directory may allow to replace it: whoever made it read-only did not mean that.
        raise Unusable(f"{file} is read-only to you. Make it writable first.")
    mode = None if file.exists() else SHARED if shared else PRIVATE
    replace(file, text.encode(), mode=mode, backup=True)
