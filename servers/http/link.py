"""The connection that a request came on, as those who answer it see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Protocol

Headers = Iterable[tuple[bytes, bytes]]
Send = Callable[[bytes], Awaitable[None]]

CLOSE = (b"connection", b"close")


class Link(Protocol):
    """Takes the answer to one request. Nothing but a stream ever waits."""

    @property
    def gone(self) -> bool:
        """Whether the client has left before its answer was whole."""
        ...

    def answer(self, status: int, headers: Headers, content: bytes = b"") -> None:
        """All of it in one piece."""
        ...

    def attend(self, seconds: float, late: Callable[[], None], gone: Callable[[], None]) -> None:
        """The answer takes time: call back when it has taken so long, and when the client leaves."""
        ...

    def stream(self, headers: Headers, work: Callable[[Send], Coroutine[None, None, None]]) -> None:
        """Answer piece by piece, in a task; the answer ends with it."""
        ...

    def cut(self) -> None:
        """End the connection at once, whatever the client has not read."""
        ...
