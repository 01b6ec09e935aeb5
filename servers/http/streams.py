"""One response as a stream of frames: what waits to be sent, and what was sent and may be asked for again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

KEPT = 1024 * 1024
"""Bytes of sent events that are kept for a client that lost its connection."""


class Memory:
    """The events of one client that were sent and may be asked for again: the latest, over all its streams."""

    def __init__(self) -> None:
        self._sent: deque[tuple[Stream, int]] = deque()
        self._size = 0

    def add(self, stream: Stream, size: int) -> None:
        self._sent.append((stream, size))
        self._size += size
        while self._size > KEPT and len(self._sent) > 1:  # one event, however large, can always be had again
            oldest, gone = self._sent.popleft()
            oldest.forget()
            self._size -= gone


class Stream:
    """Frames for one response, in order. Whoever writes never waits; whoever sends does."""

    def __init__(
        self, number: int = 0, *, moved: Callable[[int], None] = lambda _: None, memory: Memory | None = None
    ) -> None:
        """`moved` hears how many bytes more, or less, wait to be sent; with a `memory` a client may come back."""
        self.number = number
        self.ended = False
        """The last frame is in."""
        self.reader: object = None
        """The response that sends it now: a newer one takes it over."""
        self.cut: Callable[[], None] = lambda: None
        """Ends the connection of that response at once, whatever it still has to send."""
        self.marked = False
        """A client has seen where it is, and may come back for the rest."""
        self.bare = False
        """Its client takes the answer and no stream: whatever else there is goes elsewhere."""
        self.keys: tuple[bytes, ...] = ()
        """The requests it answers."""
        self.size = 0
        """Bytes that wait to be sent."""
        self._queue: deque[bytes] = deque()
        self._sent: deque[tuple[int, bytes]] = deque()
        self._sequence = 0
        self._moved = moved
        self._memory = memory
        self.listener: Callable[[], None] | None = None
        """Hears of all that happens to it: whoever answers with it, or sends it now."""

    def put(self, frame: bytes, last: bool = False) -> None:
        if self.ended:
            return
        self._queue.append(frame)
        self._move(len(frame))
        self.ended = last
        self.wake()

    def end(self) -> None:
        """There will be no more."""
        self.ended = True
        self.wake()

    def discard(self) -> None:
        """Nobody will ask for what waits."""
        self.ended = True
        self._move(-self.size)
        self._queue.clear()
        self._sent.clear()
        self.wake()

    def trim(self, limit: int) -> None:
        """Let go of the oldest that waits, beyond so many bytes: nobody listens."""
        while self._queue and self.size > limit:
            self._pop()

    def claim(self, cut: Callable[[], None]) -> object:
        """Be the response that sends it from now on; whichever was ends."""
        self.reader = object()
        self.cut = cut
        self.wake()
        return self.reader

    def release(self) -> None:
        """Nobody sends it now."""
        self.reader = None
        self.cut = lambda: None

    def wake(self) -> None:
        if self.listener is not None:
            self.listener()

    async def moved(self) -> None:
        """Return when something has happened to it."""
        waiter = asyncio.get_running_loop().create_future()
        self.listener = listener = partial(_done, waiter)
        try:
            await waiter
        finally:
            if self.listener is listener:
                self.listener = None

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._queue)

    def only_answer(self, *, drop: bool = False) -> bytes | None:
        """The answer, if nothing came before it, or if that is to be dropped: then it needs no stream."""
        if not self.ended or not self._queue:
            return None
        while drop and len(self._queue) > 1:
            self._pop()
        return self._pop() if len(self._queue) == 1 else None

    def take(self) -> bytes | None:
        """The next frame as an event, kept for who loses it on the way."""
        if not self._queue:
            return None
        frame = self._pop()
        if self._memory is None:
            return event(frame)
        self.marked = True
        self._sequence += 1
        sent = event(frame, b"%d-%d" % (self.number, self._sequence))
        self._sent.append((self._sequence, sent))
        self._memory.add(self, len(sent))
        return sent

    def forget(self) -> None:
        """The oldest that was sent cannot be asked for any more."""
        if self._sent:
            self._sent.popleft()

    def _pop(self) -> bytes:
        frame = self._queue.popleft()
        self._move(-len(frame))
        return frame

    def _move(self, bytes: int) -> None:
        self.size += bytes
        self._moved(bytes)

    def prime(self) -> bytes:
        """An event with nothing but a place to come back to."""
        self.marked = True
        return b"id: %d-%d\nretry: 1000\ndata: \n\n" % (self.number, self._sequence)

    def since(self, sequence: int) -> list[bytes]:
        """What was sent after this place."""
        return [sent for number, sent in self._sent if number > sequence]


def _done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def event(frame: bytes, id: bytes = b"", kind: bytes = b"message") -> bytes:
    """A frame, which holds no line break, as a server-sent event."""
    place = b"id: %b\n" % id if id else b""
    return b"event: %b\n%bdata: %b\n\n" % (kind, place, frame)


def place(last_event_id: str) -> tuple[int, int] | None:
    """Stream and place there of a `Last-Event-ID` of ours."""
    number, _, sequence = last_event_id.partition("-")
    if number.isascii() and number.isdigit() and sequence.isascii() and sequence.isdigit() and len(last_event_id) < 40:
        return int(number), int(sequence)
    return None
