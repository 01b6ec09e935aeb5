"""Follow what a run changes in a project directory, and put it back if need be."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from servers.kimi.activity import Touched

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox", ".cache"}
)
"""Directories of tools, not of authors: neither listed nor put back."""
MOST_FILES = 100_000
MOST_BYTES = 1 << 30
LARGEST = 64 * 1024 * 1024

Version = tuple[int, int, int, int]
"""Inode, mode, size and time of change: what tells one content of a file from the next."""
Tree = dict[str, Version]


def survey(project: Path) -> Tree:
    """Every file and link below a directory, by its relative path."""
    found: Tree = {}
    for path in _walk(project):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                version = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)
                found[str(path.relative_to(project))] = version
    return found


def _walk(project: Path) -> Iterator[Path]:
    count = 0
    for directory, names, files in os.walk(project):
        links = [name for name in names if Path(directory, name).is_symlink()]
        names[:] = [name for name in names if name not in SKIPPED and name not in links]
        for name in (*files, *links):
            count += 1
            if count > MOST_FILES:
                return
            yield Path(directory, name)


@dataclass(slots=True)
class Undone:
    """What putting back came to."""

    restored: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    """Changed by somebody else since, or not to be put back."""

    def __str__(self) -> str:
        if not self.restored and not self.left:
            return "No file was changed."
        parts: list[str] = []
        if self.restored:
            parts.append(f"Files put back as they were: {', '.join(self.restored)}.")
        if self.left:
            parts.append(f"Left as they are, because somebody else changed them since: {', '.join(self.left)}.")
        return " ".join(parts)


class Changes:
    """The changes of one run, as far as they are Kimi's: what its tools may have touched while they ran."""

    def __init__(self, project: Path, backup: Path | None) -> None:
        self._project = project
        self._backup = backup
        self._before = survey(project)
        self._last = self._before
        self._kimis: dict[str, Version | None] = {}
        """Kimi's last version of each file it changed; `None` where it deleted the file."""
        if backup:
            self._keep(backup)

    def tool_ended(self, touched: Touched) -> None:
        """Take what changed since the last look as Kimi's, where the tool can have done it."""
        now = survey(self._project)
        only = self._relative(touched) if touched else touched
        for name in now.keys() | self._last.keys():
            if now.get(name) != self._last.get(name) and only in (None, name):
                self._kimis[name] = now.get(name)
        self._last = now

    def finish(self) -> list[str]:
        """The files Kimi changed, in order of their names."""
        self._last = survey(self._project)
        return sorted(name for name in self._kimis if self._last.get(name) != self._before.get(name))

    def put_back(self) -> Undone:
        """Undo Kimi's changes, but not those of somebody else since."""
        undone = Undone()
        for name in self.finish():
            mine = self._last.get(name) == self._kimis[name]
            (undone.restored if mine and self._restore(name) else undone.left).append(name)
        return undone

    def _relative(self, path: str) -> Touched:
        """A path as the survey names it; one outside is as good as none."""
        absolute = Path(os.path.normpath(self._project / path))
        for candidate in (absolute, Path(os.path.realpath(absolute))):
            if candidate.is_relative_to(self._project):
                return str(candidate.relative_to(self._project))
        return ""

    def _keep(self, backup: Path) -> None:
        kept = 0
        for name, (_, _, size, _) in self._before.items():
            kept += size
            if size > LARGEST or kept > MOST_BYTES:
                continue
            target = backup / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                shutil.copy2(self._project / name, target, follow_symlinks=False)

    def _restore(self, name: str) -> bool:
        path = self._project / name
        saved = self._backup / name if self._backup else None
        try:
            if name not in self._before:
                path.unlink(missing_ok=True)
                self._remove_empty(path.parent)
                return True
            if saved is None or not (saved.exists() or saved.is_symlink()):
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink() or saved.is_symlink():
                path.unlink(missing_ok=True)
            shutil.copy2(saved, path, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _remove_empty(self, directory: Path) -> None:
        """Directories that only the run's own files needed go with them."""
        needed = {str(parent) for name in self._before for parent in Path(name).parents}
        while directory != self._project and str(directory.relative_to(self._project)) not in needed:
            try:
                directory.rmdir()
            except OSError:
                return
            directory = directory.parent
