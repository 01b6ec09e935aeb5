"""Read the files a caller named, from inside the allowed roots only."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from servers.kimi.failure import Failure


@dataclass(frozen=True, slots=True)
class Source:
    """One file as Kimi will see it."""

    name: str
    text: str


class _Refused(Exception):
    """Why one file is not read, in words for the caller."""


def roots_from(uris: Sequence[str]) -> tuple[Path, ...]:
    """The directories behind a client's `file:` roots; others cannot hold files of ours."""
    found: list[Path] = []
    for uri in uris:
        parts = urlsplit(uri)
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
            found.append(Path(os.path.realpath(unquote(parts.path))))
    return tuple(found)


def read_all(names: Sequence[str], project: Path, roots: Sequence[Path], limit: int) -> tuple[Source, ...]:
    """All files, or none.

    Raises:
        Failure: `invalid_input`, naming each file that cannot be read and why.
    """
    allowed = tuple(roots) or (Path(os.path.realpath(project)),)
    found: list[Source] = []
    refused: list[str] = []
    for name in dict.fromkeys(names):
        try:
            found.append(Source(name, _read(project, name, allowed, limit)))
        except _Refused as reason:
            refused.append(f"{name}: {reason}")
    if refused:
        raise Failure(
            "invalid_input", "; ".join(refused), "Name readable text files inside the project and call again."
        )
    return tuple(found)


def _read(project: Path, name: str, allowed: Sequence[Path], limit: int) -> str:
    path = Path(os.path.realpath(project / name))
    if not any(path == root or root in path.parents for root in allowed):
        raise _Refused(f"outside the allowed directories ({', '.join(map(str, allowed))})")
    try:
        # Links are resolved already: one that appears now is a trick. A pipe must not make us wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise _Refused("missing") from None
    except OSError as error:
        raise _Refused(_why(path, error)) from None
    try:
        return _content(descriptor, limit)
    finally:
        os.close(descriptor)


def _why(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENXIO, errno.ENODEV):
        return "not a regular file"
    return f"unreadable ({error.strerror})"


def _content(descriptor: int, limit: int) -> str:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise _Refused("a directory; name the files in it")
    if not stat.S_ISREG(status.st_mode):
        raise _Refused("not a regular file")
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise _Refused(f"unreadable ({error.strerror})") from None
    if len(data) > limit:
        size = max(status.st_size, len(data))
        raise _Refused(f"too large ({size:,} bytes; the limit is {limit:,}, max_file_size)")
    if b"\0" in data:
        raise _Refused("binary")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _Refused("binary (not UTF-8 text)") from None
