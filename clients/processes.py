"""Start and end the processes of upstreams, through the guard."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from clients import guard

T = TypeVar("T")

logger = logging.getLogger(__name__)

STARTING_AT_ONCE = 64
"""Spawns on their way to the helper; each holds descriptors there, of which it has few."""
LAST_PATIENCE = 5.0
"""Seconds in which what was killed must be gone before we stop waiting for it."""
ANSWERS = 256 * 1024
"""Bytes a child may write before somebody must read: a tenth off the CPU of a 1 MB answer. Linux lets a user without
privileges have 64 MiB in all pipes together, which is 250 children."""
KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", guard.MARKER.decode())
"""Of our environment, what Python itself may need to start, and whose child we are ourselves."""


@dataclass(frozen=True, eq=False)
class Child:
    """A process of an upstream, and our ends of its pipes.

    The descriptors are the caller's to read, write and close; `Guard.end` closes those that are still open.
    """

    pid: int
    stdin: int
    stdout: int
    stderr: int
    exited: asyncio.Future[int]
    key: bytes = field(repr=False)
    helper: _Helper = field(repr=False)
    pipes: Mapping[int, tuple[int, int]] = field(repr=False)
    gone: asyncio.Future[None] = field(repr=False)

    def close(self, *files: int) -> None:
        """Close descriptors, unless they were closed already and their numbers mean something else by now."""
        loop = asyncio.get_running_loop()
        for file in files:
            if _identity(file) == self.pipes[file]:
                loop.remove_reader(file)
                loop.remove_writer(file)
                os.close(file)


class Guard:
    """The parent of every upstream's process. No child outlives it, nor the gateway."""

    def __init__(self) -> None:
        self._helper: _Helper | None = None
        self._helpers: set[_Helper] = set()
        self._starting = asyncio.Semaphore(STARTING_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for helper in list(self._helpers):
            await helper.close()

    @property
    def pid(self) -> int | None:
        """The helper's process id while there is one."""
        return self._helper.process.pid if self._helper is not None else None

    async def spawn(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str) -> Child:
        """Start a command, found by the PATH in `env`, in exactly this environment and directory.

        Raises:
            OSError: it could not be started; `filename` is the command or the directory, whichever is at fault.
            ValueError: an argument, a variable or the directory holds what no process can be given.
        """
        fields = _spawn_fields(command, env, cwd)
        async with self._starting:
            if self._helper is None:
                self._helper = _Helper(self._forget, self._helpers.discard)
                self._helpers.add(self._helper)
            return await self._helper.spawn(fields)

    def signal(self, child: Child, signum: int) -> None:
        """Signal the child's whole process group, if it is still there."""
        child.helper.send(b"signal", child.key, b"%d" % signum)

    async def end(self, child: Child, *, patience: float = 2.0, close_stdin: Callable[[], None] | None = None) -> None:
        """Close stdin, wait, SIGTERM the group, wait, SIGKILL it and all that descends from it.

        Needed once for every child, also for one that exited. Cancelled, it kills at once.
        """
        try:
            await child.helper.note(child.key, patience)
            (close_stdin or (lambda: child.close(child.stdin)))()
            if not await _within(patience, child.exited):
                child.helper.send(b"note", child.key)
                self.signal(child, signal.SIGTERM)
                self.signal(child, signal.SIGCONT)  # A stopped process hears no SIGTERM.
                await _within(patience, child.exited)
        finally:
            child.helper.send(b"finish", child.key)
            child.close(child.stdin)
            try:
                if not await _within(LAST_PATIENCE, child.gone):
                    logger.warning("process %d or a descendant of it survives SIGKILL", child.pid)
            finally:
                child.close(child.stdout, child.stderr)

    def _forget(self, helper: _Helper) -> None:
        if self._helper is helper:
            self._helper = None


@dataclass(eq=False)
class _Record:
    """What is known of one child on our side."""

    started: asyncio.Future[int]
    noted: asyncio.Future[None]
    exited: asyncio.Future[int]
    gone: asyncio.Future[None]
    pid: int = 0
    start: int = 0


class _Helper:
    """One run of the helper process."""

    _last_key = 0

    def __init__(self, lost: Callable[[_Helper], None], over: Callable[[_Helper], None]) -> None:
        self._lost = lost
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._token = os.urandom(8).hex()
        self._records: dict[bytes, _Record] = {}
        self._outbox: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._buffer = bytearray()
        self._open = True
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._socket.setblocking(False)
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, self._token],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
                process_group=0,  # The terminal's signals are for the gateway.
            )
        self._loop.add_reader(self._socket.fileno(), self._readable)

    async def spawn(self, fields: list[bytes]) -> Child:
        """Make the pipes, hand over the child's ends, and wait for how it went."""
        ours, theirs = _pipes()
        pipes = {file: _identity(file) for file in ours}
        _Helper._last_key += 1
        key = b"%d" % _Helper._last_key
        future = self._loop.create_future
        record = self._records[key] = _Record(future(), future(), future(), future())
        self.send(b"spawn", key, *fields, files=theirs)
        try:
            pid = await record.started
        except BaseException as error:
            for file in ours:
                os.close(file)
            if not isinstance(error, OSError):
                self.send(b"finish", key)
            raise
        return Child(pid, *ours, record.exited, key, self, pipes, record.gone)

    async def note(self, key: bytes, patience: float) -> None:
        """Have the helper remember the child's descendants before they can become orphans."""
        record = self._records.get(key)
        if self._open and record is not None:
            self.send(b"note", key)
            await _within(patience, record.noted)

    def send(self, *fields: bytes, files: tuple[int, ...] = ()) -> None:
        """Queue a request and write what can be written; the files are closed when they are sent."""
        self._outbox.append((guard.pack(*fields), files))
        if len(self._outbox) == 1:
            self._flush()

    async def close(self) -> None:
        """Let go of the helper, which ends all its children, and wait until it has."""
        if self._open:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        await _within(guard.GIVE_UP + LAST_PATIENCE, self.ended)

    def _flush(self) -> None:
        while self._outbox:
            data, files = self._outbox[0]
            try:
                sent = socket.send_fds(self._socket, [data], files) if files else self._socket.send(data)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.ETOOMANYREFS):
                    self._loop.add_writer(self._socket.fileno(), self._flush)
                    return
                sent = len(data)  # The helper is gone: its end is about to be read.
            _close(files)
            if sent < len(data):
                self._outbox[0] = (data[sent:], ())
            else:
                self._outbox.popleft()
        if self._open:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._buffer += data
        for kind, key, *rest in guard.unpack(self._buffer):
            self._heard(kind, key, rest)

    def _heard(self, kind: bytes, key: bytes, rest: list[bytes]) -> None:
        record = self._records.get(key)
        if record is None:  # It failed to start while we let go of it.
            return
        if kind == b"started":
            record.pid, record.start = int(rest[0]), int(rest[1])
            _resolve(record.started, record.pid)
        elif kind == b"failed":
            code = int(rest[0])
            if not record.started.done():
                record.started.set_exception(OSError(code, os.strerror(code), os.fsdecode(rest[1])))
            del self._records[key]
        elif kind == b"noted":
            _resolve(record.noted, None)
        elif kind == b"exited":
            _resolve(record.exited, int(rest[0]))
        elif kind == b"gone":
            _resolve(record.exited, -signal.SIGKILL)
            _resolve(record.gone, None)
            del self._records[key]

    def _end(self) -> None:
        """The helper is gone. Orderly, it has left nothing; killed, its children are ours to end."""
        self._open = False
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._lost(self)
        for _, files in self._outbox:
            _close(files)
        self._outbox.clear()
        self.process.kill()
        if self.process.wait() == 0:  # It closed its socket by ending: this takes no time.
            self._settle()
            return
        logger.warning("the guard %d was killed; ending its children", self.process.pid)
        known = {record.pid: record.start for record in self._records.values() if record.pid}
        work = self._loop.run_in_executor(None, take_over, os.fsencode(self._token), known)
        work.add_done_callback(lambda _: self._settle())

    def _settle(self) -> None:
        for record in self._records.values():
            if not record.started.done():
                record.started.set_exception(ConnectionResetError("the guard ended while it started this"))
            _resolve(record.noted, None)
            _resolve(record.exited, -signal.SIGKILL)
            _resolve(record.gone, None)
        self._records.clear()
        _resolve(self.ended, None)
        self._over(self)


def take_over(token: bytes, known: Mapping[int, int]) -> None:
    """End what a killed helper left: the groups of its children (pid and start time) and all that bear its token."""
    until = time.monotonic() + LAST_PATIENCE
    while time.monotonic() < until:
        left = _left_by(token, known, guard.table())
        alive = [process for process in left if guard.kill(process)]
        for process in left:
            with contextlib.suppress(ChildProcessError):  # Ours to reap only where we are the init of a container.
                os.waitpid(process.pid, os.WNOHANG)
        if not alive:
            return
        time.sleep(0.01)


def _left_by(token: bytes, known: Mapping[int, int], processes: dict[int, guard.Process]) -> list[guard.Process]:
    # A number held by a group is not given away; only a leader of another age shows that the group is another's.
    groups = {pid for pid, start in known.items() if pid not in processes or processes[pid].start == start}
    roots = [
        process
        for process in processes.values()
        if process.group in groups or any(mark.startswith(token + b".") for mark in guard.marks(process.pid))
    ]
    found = {process.pid: process for root in roots for process in guard.below(root.pid, processes)}
    return [*roots, *(process for process in found.values() if process not in roots)]


def _spawn_fields(command: Sequence[str], env: Mapping[str, str], cwd: str) -> list[bytes]:
    if not command or not command[0]:
        raise ValueError("a command needs at least the name of a program")
    for name in env:
        if not name or "=" in name:
            raise ValueError(f"{name!r} is not the name of a variable")
    variables = [f"{name}={value}" for name, value in env.items()]
    fields = [str(Path.cwd() / cwd), str(len(command)), *command, *variables]
    if any("\0" in one for one in fields):
        raise ValueError("no argument, variable or directory can hold a NUL character")
    return [os.fsencode(one) for one in fields]


def _pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends, non-blocking, and the child's."""
    made: list[int] = []
    try:
        for _ in range(3):
            made += os.pipe()
    except OSError:
        _close(made)
        raise
    to_read, stdin, stdout, to_write, stderr, to_write_errors = made
    ours = (stdin, stdout, stderr)
    for file in ours:
        os.set_blocking(file, False)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # the user has no more to give
            fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, ANSWERS)
    return ours, (to_read, to_write, to_write_errors)


def _identity(file: int) -> tuple[int, int]:
    """What a descriptor stands for: numbers are used again, pipes are not."""
    try:
        status = os.fstat(file)
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)


def _resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


async def _within(patience: float, future: asyncio.Future[T]) -> bool:
    """Wait for a future without ending it; false if it takes longer."""
    await asyncio.wait([future], timeout=patience)
    return future.done()
