"""What the kernel says of processes: the only witness that counts here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from clients import guard
from tests.client import Gateway, until

SERVER = Path(__file__).parent / "server.py"


def server(fault: str = "fine", *more: object, **entry: Any) -> dict[str, Any]:
    """The entry of a small server with this fault."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVER), fault, *map(str, more)], **entry}


def alive(pid: int) -> bool:
    process = guard.look_up(pid)
    return process is not None and not process.zombie


def descendants(pid: int) -> set[int]:
    return {process.pid for process in guard.below(pid, guard.table()) if not process.zombie}


def gone(pids: set[int]) -> None:
    until(lambda: not [pid for pid in pids if alive(pid)], f"the end of {pids}")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names are enough


def memory(pid: int, field: str = "VmRSS") -> int:
    """MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) // 1024
    raise AssertionError(f"no {field}")


def logged(gateway: Gateway, words: str) -> str:
    """The first line on stderr with these words."""

    def look() -> str | None:
        lines = gateway.errors.decode(errors="replace").splitlines()
        return next((line for line in lines if words in line), None)

    return until(look, f"{words!r} in the log") or ""


def pid_of(gateway: Gateway, name: str) -> int:
    """Asks the server itself."""
    return int(gateway.call(f"{name}__pid").text)
