"""The gateway's endpoint on stdin and stdout: one client, for as long as it keeps its side open."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Generator, Iterable
from typing import Protocol

from gateway.pipes import Lines, Reader, Writer, own
from gateway.protocol.errors import INVALID_REQUEST
from gateway.protocol.frames import Frame, Malformed, decode

OUTBOX = 64 * 1024 * 1024
"""Bytes a client may leave unread; at half of it we stop reading its requests."""
HALF = OUTBOX // 2


class Talk(Protocol):
    """What a face needs of a conversation."""

    def receive(self, message: Frame | list[Frame | Malformed]) -> None: ...

    def malformed(self, malformed: Malformed) -> None: ...


@contextlib.contextmanager
def claimed_stdio() -> Generator[tuple[int, int]]:
    """Private copies of stdin and stdout; what others print from now on goes to stderr, what they read is empty.

    Who has the originals too, as a shell has its terminal, gets them back as blocking as they were.
    """
    kept = [(os.dup(fd), os.get_blocking(fd)) for fd in (0, 1)]
    copies = own(0), own(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield copies
    finally:
        for fd, blocking in kept:
            os.set_blocking(fd, blocking)
            os.close(fd)


class StdioFace:
    """Lines in, frames to the conversation; frames out, lines to the client."""

    def __init__(self, source: int, sink: int, *, limit: int) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.talk: Talk | None = None
        """Who gets the frames."""
        self._limit = limit
        self._lines = Lines(limit)
        self._source = source
        self._reader: Reader | None = None
        self._writer = Writer(sink, self._broken, self._drained)

    def listen(self, talk: Talk) -> None:
        """Begin to read."""
        self.talk = talk
        self._reader = Reader(self._source, self._arrived)

    def write(self, frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        waiting = self._writer.send(frame)
        if waiting > HALF:
            self._crowded(waiting - len(frame))

    def _crowded(self, before: int) -> None:
        """What was there before counts: one frame, however large, is no sign of a client that does not read."""
        if before > OUTBOX:
            self._end("the client does not read")
        elif self._reader is not None:
            self._reader.pause()

    async def close(self) -> None:
        """Let the client have what is written, if it reads."""
        try:
            async with asyncio.timeout(2.0):
                await self._writer.flushed()
        except TimeoutError:
            pass
        if self._reader is not None:
            self._reader.close()
        self._writer.close()

    def _arrived(self, data: bytes | None) -> None:
        if data is None:
            self._take([self._lines.rest()])
            self._end("the client closed its side")
            return
        lines, over = self._lines.feed(data)
        self._take(lines)
        for _ in over:
            assert self.talk is not None
            size = self._limit // (1024 * 1024)
            self.talk.malformed(Malformed(INVALID_REQUEST, f"Invalid Request: over the size limit of {size} MiB"))

    def _take(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            assert self.talk is not None  # the first line may have it replaced
            try:
                message = decode(line)
            except Malformed as malformed:
                if line.strip():
                    self.talk.malformed(malformed)
            else:
                self.talk.receive(message)

    def _drained(self) -> None:
        if self._reader is not None:
            self._reader.resume()

    def _broken(self, error: OSError) -> None:
        self._end(f"the client is gone ({error.strerror})")

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
