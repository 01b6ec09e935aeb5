"""What processes cost: CPU time and memory, read from /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

PROC = Path("/proc")


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(stat[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


@contextlib.contextmanager
def one_processor() -> Generator[None]:
    """All that starts in the block shares one processor, and so do we: what it costs, apart from where it runs.

    Three processes that take turns on two idle processors are woken on the other one now and then; in a virtual
    machine that costs more than the call itself, and hits whoever takes a microsecond longer.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def wait_for_end(pids: list[int], seconds: float) -> None:
    """Return when none of these processes is there any more; those that stay too long are killed."""
    until = time.monotonic() + seconds
    while alive := [pid for pid in pids if (PROC / str(pid)).exists()]:
        if time.monotonic() > until:
            for pid in alive:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.02)


def between(root: int) -> list[int]:
    """The processes of what stands between client and upstream: a tree without the upstreams themselves."""
    return [pid for pid in tree(root) if not is_upstream(pid)]


def is_upstream(pid: int) -> bool:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word.endswith((b"/upstream.py", b"/web_upstream.py")) for word in words[:4])


def cpu(pids: list[int]) -> float:
    """Seconds of CPU that these processes have used, to the nanosecond where the kernel says so."""
    return sum(_cpu_of(pid) for pid in pids)


def _cpu_of(pid: int) -> float:
    total = 0
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except (OSError, ValueError):
        pass
    if total:
        return total / 1e9
    try:
        stat = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def memory(pids: list[int]) -> tuple[float, float]:
    """Megabytes: resident, each process for itself; and with shared pages divided among who shares them."""
    resident = proportional = 0
    for pid in pids:
        try:
            rollup = (PROC / str(pid) / "smaps_rollup").read_text()
        except OSError:
            continue
        for line in rollup.splitlines():
            if line.startswith("Rss:"):
                resident += int(line.split()[1])
            elif line.startswith("Pss:"):
                proportional += int(line.split()[1])
    return resident / 1024, proportional / 1024
