"""Run one Kimi process in a group of its own and leave nothing of it behind."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from servers.kimi.failure import Failure
from servers.kimi.recursion import MARK, processes_of
from servers.kimi.tasks import beside

LINE_LIMIT = 64 * 1024 * 1024
TAIL = 64 * 1024
GRACE = 0.5
"""Seconds a process has to end by itself once it was told to."""


@dataclass(slots=True)
class Kimi:
    """A running Kimi and what it says on stderr."""

    process: Process
    run: str
    errors: bytearray = field(default_factory=bytearray)
    silent: anyio.Event = field(default_factory=anyio.Event)
    """Set once stderr has come to its end."""

    def stderr(self) -> str:
        return self.errors.decode("utf-8", "replace")


@asynccontextmanager
async def started(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> AsyncGenerator[Kimi]:
    """A Kimi process with pipes; whatever happens, its whole group is gone afterwards."""
    run = uuid.uuid4().hex
    try:
        process = await anyio.open_process(
            list(argv), cwd=cwd, env={**env, MARK: run}, start_new_session=True, stdin=subprocess.PIPE
        )
    except OSError as error:
        raise Failure("cli_unsupported", f"{argv[0]} cannot be started: {error.strerror}") from None
    kimi = Kimi(process, run)
    try:
        async with beside() as group:
            group.start_soon(_drain, kimi)
            yield kimi
    finally:
        with anyio.CancelScope(shield=True):
            await _end(kimi)


async def lines(stream: ByteReceiveStream, on_line: Callable[[bytes], None]) -> None:
    """Hand on each line of a stream until it ends."""
    parts: list[bytes] = []
    size = 0
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            chunk = await stream.receive(1 << 16)
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                on_line(b"".join((*parts, line)))
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > LINE_LIMIT:
                raise Failure("failed", "Kimi's answer is larger than 64 MB")
    if any(parts):
        on_line(b"".join(parts))


async def finish(kimi: Kimi, on_line: Callable[[bytes], None], stdin: bytes = b"") -> int:
    """Feed it, read it to its end, and return its exit code."""
    code = -1
    async with beside() as group:
        group.start_soon(feed, kimi, stdin)
        read = anyio.Event()

        async def read_all() -> None:
            assert kimi.process.stdout is not None
            await lines(kimi.process.stdout, on_line)
            read.set()

        group.start_soon(read_all)
        code = await kimi.process.wait()
        # Something it left running may hold the pipes open: what matters was written before the exit.
        with anyio.move_on_after(2):
            await read.wait()
            await kimi.silent.wait()
    return code


async def feed(kimi: Kimi, data: bytes) -> None:
    """Write all of stdin and close it."""
    assert kimi.process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if data:
            await kimi.process.stdin.send(data)
        await kimi.process.stdin.aclose()


async def _drain(kimi: Kimi) -> None:
    assert kimi.process.stderr is not None
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            kimi.errors += await kimi.process.stderr.receive(1 << 16)
            del kimi.errors[:-TAIL]
    kimi.silent.set()


async def _end(kimi: Kimi) -> None:
    group = kimi.process.pid
    if kimi.process.returncode is None:
        _signal_group(group, signal.SIGTERM)
        with anyio.move_on_after(GRACE):
            await kimi.process.wait()
    _signal_group(group, signal.SIGKILL)
    # A shell with a session of its own is in no group of ours; it still carries the mark of this run.
    quiet = 0
    for _ in range(20):
        left = processes_of(kimi.run)
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # Two looks: a process shows no variables in the moment it turns into another program.
        quiet = 0 if left or kimi.process.returncode is None else quiet + 1
        if quiet == 2:
            break
        with anyio.move_on_after(0.05):
            await kimi.process.wait()
            await anyio.sleep(0.05)
    await kimi.process.aclose()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
