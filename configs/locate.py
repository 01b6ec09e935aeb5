"""Find the files that matter to a working directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from configs.document import Json

NAME = ".kode.json"
WritableScope = Literal["user", "project"]


class Places(NamedTuple):
    """The user's own file, the project's, and where a project's could appear."""

    personal: Path
    project: Path
    """The directory of the project's file, else the working directory."""
    project_file: Path | None
    candidates: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.personal, *self.candidates)

    def writable(self, scope: WritableScope) -> Path | None:
        """The file that a new entry goes into; `None` where there can be no project."""
        if scope == "user":
            return self.personal
        # Where there is none yet, at the repository's root: seen from all of the project.
        return self.project_file or (self.candidates[-1] if self.candidates else None)


def find(project: Path | None, *, cwd: Path, home: Path) -> Places:
    """Look for the project's file from the working directory up to the repository's root, or only in `project`."""
    start = _absolute(cwd / project) if project is not None else _absolute(cwd)
    personal = home / NAME
    directories = (start,) if project is not None else _up_to_repository(start)
    candidates = tuple(directory / NAME for directory in directories if not _is_personal(directory, personal))
    found = next((file for file in candidates if os.path.exists(file)), None)  # noqa: PTH110 - Path.exists raises
    return Places(personal, found.parent if found else start, found, candidates)


def kode_project_key(projects: Mapping[str, Json], project: Path) -> str | None:
    """The key under which the Kode file keeps this directory, also where either goes through a link."""
    real = os.path.realpath(project)
    for key in (str(project), real):
        if key in projects:
            return key
    absolute = (key for key in projects if Path(key).is_absolute() and "\0" not in key)
    return next((key for key in absolute if os.path.realpath(key) == real), None)


def _absolute(path: Path) -> Path:
    # Not resolved: people know their directory by the name they went there with.
    return Path(os.path.abspath(path))  # noqa: PTH100


def _up_to_repository(start: Path) -> tuple[Path, ...]:
    above = (start, *start.parents)
    for depth, directory in enumerate(above):
        if os.path.exists(directory / ".git"):  # noqa: PTH110 - Path.exists raises where it may not look
            return above[: depth + 1]
    return (start,)


def _is_personal(directory: Path, personal: Path) -> bool:
    """Whether a candidate is the user's own file, by whatever path or link."""
    same_directory = os.path.realpath(directory) == os.path.realpath(personal.parent)
    return same_directory or os.path.realpath(directory / NAME) == os.path.realpath(personal)
