"""What a connection needs of any transport, and what it tells it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from clients.causes import GaveUp, Lost
from gateway.exchange import Exchange
from gateway.protocol.frames import Frame, Malformed


@dataclass(slots=True)
class Noise:
    """What a server emitted that was no frame: counted, the last few kept for people."""

    count: int = 0
    last: deque[str] = field(default_factory=lambda: deque[str](maxlen=5))

    def note(self, line: bytes) -> None:
        self.count += 1
        self.last.append(line[:200].decode(errors="replace"))


class Receiver(Protocol):
    """The connection, as its transport sees it."""

    def receive(self, message: Frame | list[Frame | Malformed], origin: int | None = None) -> None:
        """A message came; `origin` is the request on whose own stream it came, where there are such."""
        ...

    def oversized(self, head: bytes, tail: bytes, size: int, origin: int | None = None) -> None:
        """A message over the limit was dropped; its ends or its stream may tell whose answer it was."""
        ...

    def garbled(self, line: bytes) -> None:
        """A line came that is no frame."""
        ...

    def lost(self, reason: str, cause: Lost | GaveUp | None = None) -> None: ...

    def expired(self, ids: Iterable[int]) -> None:
        """The session is over; these requests met that, and were not executed."""
        ...

    def undelivered(self, id: int, reason: str, *, sent: bool, advice: str = "") -> None:
        """One request could not be brought to its answer, though the connection lives; `advice` is for a next try."""
        ...


class Channel(Protocol):
    """One way to one server, opened once and closed once."""

    @property
    def noise(self) -> Noise: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def tail(self) -> str:
        """What the server said last, besides frames."""
        ...

    async def open(self, project: Path) -> None:
        """Start or dial it.

        Raises:
            GaveUp: it cannot be had as configured.
            Lost: not now.
        """
        ...

    def negotiated(self, version: str) -> None:
        """From now on this version is spoken."""
        ...

    def listed(self, tools: Sequence[bytes]) -> Sequence[bytes]:
        """Take note of the tools it will be asked to call; those that it can be."""
        ...

    def send(self, frame: bytes, exchange: Exchange | None = None) -> None: ...

    def withdraw(self, exchange: Exchange) -> bool:
        """Take a request back that was not begun to be written."""
        ...

    def is_writing(self, exchange: Exchange) -> bool:
        """Whether a request is half written: then only the connection's end is left."""
        ...

    async def close(self) -> None: ...
