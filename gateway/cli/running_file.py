"""The note a running HTTP gateway leaves for the commands of the same project: where it is and how to ask it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from configs.files import PRIVATE, data_directory, replace


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that says it is there."""

    pid: int
    url: str
    token: str = field(repr=False)
    """Empty where it wants none."""
    project: str


def place(project: Path, home: Path, environ: Mapping[str, str]) -> Path:
    """The one file for a project, by whatever path or link it is reached."""
    name = hashlib.sha256(os.path.realpath(project).encode("utf-8", "surrogateescape")).hexdigest()
    return data_directory(home, environ) / "running" / f"{name}.json"


@contextlib.contextmanager
def announced(file: Path, project: Path, url: str, token: str) -> Generator[None]:
    """While the gateway serves: the note is there, readable for this user alone."""
    write(file, Running(os.getpid(), url, token, os.path.realpath(project)))
    try:
        yield
    finally:
        remove(file)


def write(file: Path, running: Running) -> None:
    """Leave the note, in place of an older gateway's.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(file, f"{json.dumps(asdict(running))}\n".encode(), mode=PRIVATE)


def remove(file: Path) -> None:
    """Take the note away, unless it is by now a later gateway's."""
    running = _parse(file)
    if running is not None and running.pid == os.getpid():
        with contextlib.suppress(OSError):
            file.unlink()


def read(file: Path, project: Path) -> Running | None:
    """The gateway that runs for a project; `None` if none does, or if others could have written the note."""
    try:
        about = file.stat()
    except OSError:
        return None
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        return None
    running = _parse(file)
    if running is None or running.project != os.path.realpath(project) or not _alive(running.pid):
        return None
    return running


def _parse(file: Path) -> Running | None:
    try:
        found: Any = json.loads(file.read_bytes())
        return Running(int(found["pid"]), str(found["url"]), str(found["token"] or ""), str(found["project"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    return True
