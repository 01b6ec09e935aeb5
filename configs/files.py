"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Generator, Mapping
from pathlib import Path

PRIVATE = 0o600


def data_directory(home: Path, environ: Mapping[str, str]) -> Path:
    """Where what we keep for the user lives."""
    base = environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else home / ".local" / "share") / "kimi-gateway"


def replace(file: Path, data: bytes, *, mode: int | None = None, backup: bool = False) -> None:
    """Put these bytes in place of a file's, through links, at once; the old stay beside it as `.bak` on request.

    Raises:
        OSError: it could not be written; the file is as it was.
    """
    target = Path(os.path.realpath(file))
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if mode is None:
        mode = stat.S_IMODE(old.st_mode) if old else PRIVATE
    if old and backup:
        _write(target.with_name(target.name + ".bak"), target.read_bytes(), stat.S_IMODE(old.st_mode), old)
    _write(target, data, mode, old)


@contextlib.contextmanager
def alone(file: Path) -> Generator[None]:
    """Keep others of ours from changing a file between our reading and our writing it.

    Raises:
        OSError: its directory cannot be opened.
    """
    # The directory is locked, as the file itself is replaced by another.
    descriptor = os.open(os.path.dirname(os.path.realpath(file)), os.O_RDONLY)  # noqa: PTH120
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(target: Path, data: bytes, mode: int, like: os.stat_result | None) -> None:
    import tempfile  # It brings five ways to compress with it; a gateway that starts only reads.

    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if like is not None:
                with contextlib.suppress(OSError):  # only root may give a file away
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
