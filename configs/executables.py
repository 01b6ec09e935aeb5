"""Find the program a command means, as the helper that starts it will."""

from __future__ import annotations

import os
from pathlib import Path

from configs.variables import names


def find(command: str, *, path: str | None, directory: Path) -> str:
    """Its absolute path, links not resolved; empty where there is none, or only a variable can tell."""
    if not command or names(command) or "\0" in command:
        return ""
    if "/" in command:
        return _runnable(directory / command)
    if path is not None and names(path):
        return ""
    folders = (path if path is not None else os.defpath).split(os.pathsep)
    return next((found for folder in folders if (found := _runnable(directory / folder / command))), "")


def _runnable(file: Path) -> str:
    try:
        good = os.access(file, os.X_OK) and not os.path.isdir(file)  # noqa: PTH112 - Path.is_dir raises
    except ValueError:
        return ""
    return os.path.normpath(file) if good else ""
