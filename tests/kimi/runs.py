"""The processes of a Kimi run, seen from outside."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.client import until


def at_work(project: Path, server: int) -> list[int]:
    """Processes in this project but the server itself, in whatever group or session."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != server and (entry / "cwd").readlink() == project:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def left_after(project: Path, server: int, seconds: float) -> list[int]:
    """What is still there after so long; returns as soon as there is nothing."""
    end = time.monotonic() + seconds
    while (left := at_work(project, server)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def ended_by(number: signal.Signals, project: Path, server: int) -> None:
    """A signal for the CLI itself, as somebody else might send it."""

    def cli() -> list[int]:
        parent = f"PPid:\t{server}\n"
        return [pid for pid in at_work(project, server) if parent in Path(f"/proc/{pid}/status").read_text()]

    os.kill(until(cli, "the CLI, a child of the server")[0], number)
