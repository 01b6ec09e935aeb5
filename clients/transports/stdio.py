"""A child process's stdin and stdout as a channel of frames, its stderr as a tail for people."""

from __future__ import annotations

import asyncio
import shlex
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from clients.causes import GaveUp, Lost
from clients.processes import Child
from clients.transports.channel import Noise, Receiver
from configs.models import Server
from gateway.exchange import Exchange
from gateway.pipes import Lines, Reader, Writer
from gateway.protocol.frames import Frame, Malformed, decode

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
STDERR_KEPT = 8192
OUTBOX = 64 * 1024 * 1024
"""Bytes that may wait for a child that does not read, before it counts as lost."""

LINGER = 0.5
"""Seconds between a child's exit and the end of its output, or the other way round."""

Spawn = Callable[[Sequence[str], Mapping[str, str], str], Awaitable[Child]]
End = Callable[[Child, Callable[[], None] | None], Awaitable[None]]


def child_environment(declared: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """What a child sees of our environment: the few names any program needs, and what its entry declares."""
    kept = {name: environ[name] for name in INHERITED if name in environ and not environ[name].startswith("()")}
    return {**kept, **declared}


class StdioChannel:
    """One child process, from spawn to reaping."""

    def __init__(
        self, server: Server, receiver: Receiver, spawn: Spawn, end: End, *, limit: int, environ: Mapping[str, str]
    ) -> None:
        self.noise = Noise()
        self._server = server
        self._receiver = receiver
        self._spawn = spawn
        self._end = end
        self._limit = limit
        self._environ = environ
        self._lines = Lines(limit)
        self._stderr = b""
        self._child: Child | None = None
        self._reader: Reader | None = None
        self._errors: Reader | None = None
        self._writer: Writer | None = None
        self._unread: set[bytes] = set()
        """Requests, by id, that it was sent and ended without having read."""
        self._silent = False
        self._over = False
        self._loop = asyncio.get_running_loop()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def tail(self) -> str:
        return self._stderr.decode(errors="replace").strip()

    async def open(self, project: Path) -> None:
        """Start the child.

        Raises:
            GaveUp: it cannot be started as configured.
            Lost: it could not be started now.
        """
        server = self._server
        cwd = str(server.cwd or project)
        environment = child_environment(server.env, self._environ)
        try:
            child = await self._spawn((server.command, *server.args), environment, cwd)
        except FileNotFoundError as error:
            raise self._missing(cwd) from error
        except (PermissionError, NotADirectoryError) as error:
            where = error.filename or server.command
            raise GaveUp(
                f"{where}: {error.strerror}", "Check its permissions and the entry's command and cwd."
            ) from error
        except OSError as error:
            raise Lost(f"could not start {server.command}: {error.strerror or error}") from error
        self._child = child
        child.exited.add_done_callback(lambda _: self._ended())
        self._reader = Reader(child.stdout, self._arrived)
        self._errors = Reader(child.stderr, self._complained)
        self._writer = Writer(child.stdin, self._broken)

    def _missing(self, cwd: str) -> GaveUp:
        if not Path(cwd).is_dir():
            return GaveUp(f"its working directory {cwd} does not exist", "Create it, or correct `cwd` in the entry.")
        command = self._server.command
        return GaveUp(
            f"command not found: {command}", f"Install {shlex.quote(command)}, or correct `command` in the entry."
        )

    def negotiated(self, version: str) -> None:
        return

    def listed(self, tools: Sequence[bytes]) -> Sequence[bytes]:
        return tools

    def send(self, frame: bytes, exchange: Exchange | None = None) -> None:
        writer = self._writer
        if writer is None or self._over:
            return
        waiting = writer.send(frame, exchange)
        # What was there before counts: one frame, however large, is no sign of a child that does not read.
        if waiting - len(frame) > OUTBOX:
            self._lose("stopped reading: its input is full")

    def withdraw(self, exchange: Exchange) -> bool:
        if self._writer is None:
            return False
        return self._writer.withdraw(exchange) or b"%d" % exchange.upstream_id in self._unread

    def is_writing(self, exchange: Exchange) -> bool:
        return self._writer is not None and self._writer.is_writing(exchange)

    async def close(self) -> None:
        """End the child and all it started."""
        self._over = True
        child = self._child
        if child is None:
            return
        try:
            await self._end(child, self._writer.close if self._writer is not None else None)
        finally:
            # The descriptors are closed by now; their numbers may mean something else at the next turn.
            for end in (self._reader, self._errors, self._writer):
                if end is not None:
                    end.detach()

    def _arrived(self, data: bytes | None) -> None:
        if data is None:
            self._silent = True
            self._ended()
            return
        lines, over = self._lines.feed(data)
        for line in lines:
            try:
                message = decode(line.removeprefix(BOM_UTF8))
            except Malformed:
                if line.strip():
                    self.noise.note(line)
                    self._receiver.garbled(line)
                continue
            self._receiver.receive(message)
        for head, tail in over:
            self.noise.note(head)
            self._receiver.oversized(head, tail, self._limit)

    def _complained(self, data: bytes | None) -> None:
        if data is not None:
            self._stderr = (self._stderr + data)[-STDERR_KEPT:]

    def _broken(self, error: OSError) -> None:
        """It takes no more input: it is ending, as its exit will say if it comes soon, or of no more use."""
        self._loop.call_later(LINGER, self._give_up, f"closed its input ({error.strerror})")

    def _ended(self) -> None:
        """Its output is closed, or it has exited: the one says what the other means, if it comes soon."""
        child = self._child
        if child is None or self._over:
            return
        if child.exited.done() and self._silent:
            self._lose(exit_words(child.exited.result()))
        else:
            self._loop.call_later(LINGER, self._give_up, "closed its output")

    def _give_up(self, reason: str) -> None:
        child = self._child
        if child is not None:
            self._lose(exit_words(child.exited.result()) if child.exited.done() else reason)

    def _lose(self, reason: str) -> None:
        if not self._over:
            self._over = True
            if self._writer is not None:
                self._unread = set(_requests(self._writer.unread()))
            self._receiver.lost(reason)


def _requests(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The ids of the requests among these lines; the first may be the end of one only, which is no frame."""
    for line in lines:
        try:
            frame = decode(line)
        except Malformed:
            continue
        if isinstance(frame, Frame) and frame.method is not None and frame.id:
            yield bytes(frame.id)


def exit_words(code: int) -> str:
    """An exit code as people say it."""
    if code < 0:
        return f"was ended by signal {-code}"
    return f"exited with code {code}"
