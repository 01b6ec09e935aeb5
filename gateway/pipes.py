"""Newline-delimited frames over non-blocking file descriptors: bounded, linear, no threads."""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

CHUNK = 64 * 1024
"""What a pipe holds. A larger buffer would be mapped and unmapped by glibc for every read: 25 µs, not 1."""
PIECE = 4096
"""Bytes below which what comes of a long line is put together at once, so that many small pieces stay small."""
NEWLINE = ord("\n")
EARLY = 8192
"""Bytes that do not wait for the end of a turn: the other side can begin with them meanwhile."""
KEPT = 4096
"""Bytes kept of each end of a line that is over the limit: enough to find the id in it."""


class Lines:
    """Cuts a byte stream into lines, each looked at once, none longer than the limit. Pure."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        """What came since the last newline; of a line over the limit, its head."""
        self._size = 0
        self._tail = b""

    def feed(self, data: bytes) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
        """The lines that end in `data`, and head and tail of those that were too long."""
        if data[-1] == NEWLINE and not self._size and len(data) <= self.limit:
            whole = data.split(b"\n")
            del whole[-1]
            return whole, []
        if NEWLINE not in data:  # first: to split it would copy it
            self._keep(data)
            return [], []
        whole = data.split(b"\n")
        rest = whole.pop()
        over: list[tuple[bytes, bytes]] = []
        if self._size:
            self._keep(whole[0])
            head = b"".join(self._pieces)
            if self._size > self.limit:
                over.append((head, self._tail))
                del whole[0]
            else:
                whole[0] = head
            self._pieces, self._size, self._tail = [], 0, b""
        if len(data) > self.limit:
            over += [(line[:KEPT], line[-KEPT:]) for line in whole if len(line) > self.limit]
            whole = [line for line in whole if len(line) <= self.limit]
        if rest:
            self._keep(rest)
        return whole, over

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"" if self._size > self.limit else b"".join(self._pieces)

    def _keep(self, data: bytes) -> None:
        within = self._size <= self.limit
        self._size += len(data)
        if self._size <= self.limit:
            if self._pieces and len(self._pieces[-1]) < PIECE:
                self._pieces[-1] += data
            else:
                self._pieces.append(data)
            return
        if within:
            line = b"".join(self._pieces)
            self._tail = line[-KEPT:]
            self._pieces = [line[:KEPT]]
        head = self._pieces[0]
        self._pieces[0] = head + data[: KEPT - len(head)]
        self._tail = (self._tail + data[-KEPT:])[-KEPT:]


class Turn:
    """While a reader delivers what it read, writers hold back; then each writes at once all that it has."""

    __slots__ = ("due", "running")

    def __init__(self) -> None:
        self.running = False
        self.due: list[Writer] = []


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = WeakKeyDictionary()
"""One for each loop, as only one reader of a loop can be delivering."""


class Reader:
    """Reads a descriptor as it becomes readable and hands on what came; `None` at its end."""

    def __init__(self, fd: int, deliver: Callable[[bytes | None], None]) -> None:
        self.fd = fd
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._turn = _turns.setdefault(self._loop, Turn())
        self._polled = _pollable(fd)
        self._open = True
        self._paused = True
        self.resume()

    def pause(self) -> None:
        if self._open and not self._paused:
            self._paused = True
            if self._polled:
                self._loop.remove_reader(self.fd)

    def resume(self) -> None:
        if self._open and self._paused:
            self._paused = False
            if self._polled:
                self._loop.add_reader(self.fd, self._ready)
            else:
                self._loop.call_soon(self._ready)

    def close(self) -> None:
        if self._open:
            self.detach()
            os.close(self.fd)

    def detach(self) -> None:
        """Let go of a descriptor that is somebody else's to close, or was closed already."""
        self.pause()  # and for good
        self._open = False

    def _ready(self) -> None:
        if self._paused:
            return
        try:
            data = os.read(self.fd, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._deliver(None)
            return
        turn = self._turn
        turn.running = True
        try:
            self._deliver(data)
        finally:
            turn.running = False
            for writer in turn.due:  # none comes in addition: what is sent from now on has its own turn
                writer.flush()
            turn.due.clear()
        if not self._polled:
            # A regular file is always readable and no selector takes it.
            self._loop.call_soon(self._ready)


class Writer:
    """Writes lines in order; those not begun yet can be taken back."""

    def __init__(self, fd: int, broken: Callable[[OSError], None], drained: Callable[[], None] | None = None) -> None:
        self.fd = fd
        self.queued = 0
        self._broken = broken
        self._drained = drained
        self._loop = asyncio.get_running_loop()
        self._turn = _turns.setdefault(self._loop, Turn())
        self._queue: deque[tuple[object, bytes]] = deque()
        """Lines of which nothing is written, and whose they are."""
        self._rest: tuple[object, memoryview] | None = None
        """What is left of a line that is begun, without its newline, and whose it is."""
        self._unsent: list[object] = []
        """Whose lines were not begun when the descriptor broke."""
        self._unread: list[bytes] = []
        """What stood in the pipe when it broke."""
        self._open = True
        self._waiting = False
        self._scheduled = False
        self._idle: asyncio.Future[None] | None = None

    def send(self, line: bytes, owner: object = None) -> int:
        """Queue one line, without its newline; written when all that was read now is dealt with.

        Returns how many bytes wait now.
        """
        if not self._open:
            self._unsent.append(owner)
            return 0
        self._queue.append((owner, line))
        queued = self.queued = self.queued + len(line) + 1
        if self._waiting:
            return queued
        if queued > EARLY:
            self.flush()
            return self.queued
        if not self._scheduled:
            self._scheduled = True
            turn = self._turn
            if turn.running:
                turn.due.append(self)
            else:
                self._loop.call_soon(self.flush)
        return queued

    def withdraw(self, owner: object) -> bool:
        """Take back a line of this owner's that was not begun; false if it was."""
        for entry in self._queue:
            if entry[0] is owner:
                self._queue.remove(entry)
                self.queued -= len(entry[1]) + 1
                return True
        if owner in self._unsent:
            self._unsent.remove(owner)
            return True
        return False

    def is_writing(self, owner: object) -> bool:
        """Whether a line of this owner's is begun and not finished."""
        return self._rest is not None and self._rest[0] is owner

    def unread(self) -> list[bytes]:
        """The lines that were written and that nobody has read, nor ever will."""
        return _left_in(self.fd) if self._open else self._unread

    async def flushed(self) -> None:
        """Return when all is written or the descriptor is gone."""
        if self._open and self.queued:
            self._idle = self._loop.create_future()
            await self._idle

    def close(self) -> None:
        if self._open:
            self.detach()
            os.close(self.fd)

    def detach(self) -> None:
        """Let go of a descriptor that is somebody else's to close, or was closed already."""
        if self._waiting:
            self._loop.remove_writer(self.fd)
            self._waiting = False
        self._open = False
        self._queue.clear()
        self._rest = None
        self._wake()

    def flush(self) -> None:
        """Write now what can be written."""
        self._scheduled = False
        queue = self._queue
        if len(queue) == 1 and self.queued <= PIECE and not self._waiting and self._idle is None:
            # Nearly every line is alone, small, and written whole.
            try:
                written = os.write(self.fd, queue[0][1] + b"\n")
            except OSError:
                written = 0  # met again below
            if written == self.queued:
                self.queued = 0
                queue.clear()
                return
            self.queued -= written
            self._strike(written)
        if self._open:
            self._flush()

    def _flush(self) -> None:
        try:
            blocked = self._write()
        except OSError as error:
            self._unsent += [owner for owner, _ in self._queue]
            self._unread = self.unread()
            self.close()
            self._broken(error)
            return
        if blocked is not self._waiting:
            self._wait(blocked)
            if not blocked and self._drained is not None:
                self._drained()
        if self._idle is not None and not blocked:
            self._wake()

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _write(self) -> bool:
        """Write what is queued; true if the descriptor takes no more for now."""
        while self.queued:
            try:
                written = os.writev(self.fd, self._gather())
            except BlockingIOError:
                return True
            self.queued -= written
            if not self.queued:
                self._rest = None
                self._queue.clear()
                return False
            self._strike(written)
            if self._rest is not None:
                return True
        return False

    def _gather(self) -> tuple[bytes | memoryview, ...]:
        """What is written next: the rest of a line, or lines as far as a pipe holds them; they stay where they are."""
        if self._rest is not None:
            return self._rest[1], b"\n"
        if self.queued <= CHUNK:
            lines = [line for _, line in self._queue]
        else:
            lines, size = list[bytes](), 0
            for _, line in self._queue:
                size += len(line) + 1
                if lines and size > CHUNK:
                    break
                lines.append(line)
        if len(lines) == 1:
            return lines[0], b"\n"  # not joined: it may be large
        lines.append(b"")
        return (b"\n".join(lines),)

    def _strike(self, written: int) -> None:
        """Take away what is written; a line that is written in part has begun."""
        while written:
            owner, line = self._rest or self._queue.popleft()
            self._rest = None
            if written <= len(line):
                self._rest = owner, memoryview(line)[written:]
                return
            written -= len(line) + 1

    def _wait(self, wait: bool) -> None:
        if wait:
            self._loop.add_writer(self.fd, self.flush)
        else:
            self._loop.remove_writer(self.fd)
        self._waiting = wait


def own(fd: int) -> int:
    """A private, non-blocking, close-on-exec copy of a descriptor."""
    copy = os.dup(fd)
    os.set_blocking(copy, False)
    return copy


def _left_in(fd: int) -> list[bytes]:
    """The whole lines in a pipe of which no reader is left. Where the system does not let us look, none."""
    readers = select.poll()
    readers.register(fd, 0)
    if not any(event & select.POLLERR for _, event in readers.poll(0)):
        return []
    pieces: list[bytes] = []
    try:
        again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        while data := os.read(again, CHUNK):
            pieces.append(data)
    except OSError:
        pass  # empty, and we are its writer still
    finally:
        os.close(again)
    return b"".join(pieces).split(b"\n")[:-1]


def _pollable(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
