"""Cut a stream of bytes into server-sent events: linear, and bounded by the size of one event."""

from __future__ import annotations

from typing import NamedTuple

ENDS = 256
"""Bytes kept of either end of an event that is over the limit."""


class Event(NamedTuple):
    type: str
    data: bytes


class Overlong(NamedTuple):
    """An event over the limit: dropped, but for its ends, which may tell what it was."""

    head: bytes
    tail: bytes


class Events:
    """The parser of one stream; `last_id` and `retry` outlive it, for the stream that resumes it."""

    def __init__(self, limit: int) -> None:
        self.last_id = ""
        self.retry: float | None = None
        """Seconds the server wants us to wait before we come back."""
        self._limit = limit
        self.restart()

    def restart(self) -> None:
        """Forget the half of an event that a broken stream left."""
        self._first = True
        self._after_return = False
        self._line: list[bytes] = []
        self._clear()

    def _clear(self) -> None:
        self._type = ""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._size = 0
        self._over: tuple[bytes, bytes] | None = None

    def feed(self, chunk: bytes) -> list[Event | Overlong]:
        """The events that this chunk completes."""
        chunk = self._with_plain_ends(chunk)
        found: list[Event | Overlong] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._grow(chunk[start:end])
            line = b"".join(self._line)
            self._line.clear()
            if line:
                self._take(line)
            elif self._over is not None or self._data or self._id is not None:
                found += self._finish()
            else:
                self._clear()
            start = end + 1
        self._grow(chunk[start:])
        return found

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """The chunk with LF as its only line end: CR and CRLF are allowed too, also across chunks."""
        if not chunk:
            return chunk
        if self._first:
            self._first = False
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _grow(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._over is not None:
            head, tail = self._over
            self._over = head, (tail + piece[-ENDS:])[-ENDS:]
            self._line = [b":"]  # any line but an empty one, which ends the event
        elif self._size > self._limit:
            text = b"\n".join([*self._data, _value(b"".join([*self._line, piece]), b"data")])
            self._over = text[:ENDS], text[-ENDS:]
            self._data.clear()
            self._line = [b":"]
        else:
            self._line.append(piece)

    def _take(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(_value(line, b"data"))
        elif line.startswith(b":"):
            self._size -= len(line)
        elif line.startswith(b"event:"):
            self._type = _value(line, b"event").decode(errors="replace")
        elif line.startswith(b"id:"):
            id = _value(line, b"id")
            if b"\0" not in id:
                self._id = id.decode(errors="replace")
        elif line.startswith(b"retry:"):
            digits = _value(line, b"retry")
            if digits.isdigit() and len(digits) < 10:
                self.retry = int(digits) / 1000

    def _finish(self) -> list[Event | Overlong]:
        if self._id is not None:
            self.last_id = self._id
        event: Event | Overlong
        if self._over is not None:
            event = Overlong(*self._over)
        else:
            event = Event(self._type or "message", b"\n".join(self._data))
            if not event.data:
                self._clear()
                return []
        self._clear()
        return [event]


def _value(line: bytes, field: bytes) -> bytes:
    return line.removeprefix(field + b":").removeprefix(b" ")
