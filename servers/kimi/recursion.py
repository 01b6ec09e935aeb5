"""Notice that we run somewhere below a Kimi run of our own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MARK = "KIMI_GATEWAY_INSIDE_KIMI"
"""Set in the environment of every Kimi we start, to an id of that run."""
SERVER = "kimi-mcp-server"
"""What our server calls itself. All it starts is Kimi, and the old CLI wipes its own variables from where they show."""


def name_server() -> None:
    """Give this process the name by which those below it know where they are."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(SERVER)


def below_kimi(environ: Mapping[str, str] | None = None, pid: int | None = None) -> bool:
    """Whether this process or one above it was started by a Kimi run.

    Programs that start MCP servers often hand on only a few variables, so the ancestors are looked at as well.
    """
    if (os.environ if environ is None else environ).get(MARK):
        return True
    current = os.getppid() if pid is None else pid
    for _ in range(64):
        if current <= 1:
            return False
        if run_of(current) or _name(current) == SERVER:
            return True
        current = _parent(current)
    return False


def run_of(pid: int) -> str:
    """The id of the Kimi run that a process belongs to, if any and if it may be read."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{MARK}=".encode()
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("utf-8", "replace")
    return ""


def processes_of(run: str) -> list[int]:
    """Every process of one Kimi run, also those that left its process group."""
    try:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if pid != os.getpid() and run_of(pid) == run]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    # The command's name stands in parentheses and may hold anything, so count from its end.
    return int(status.rpartition(")")[2].split()[1])
