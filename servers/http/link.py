"""The connection that one HTTP request came on, as ASGI has it, and what uvicorn can do besides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]
Cut = Callable[[], None]
Whole = Callable[[int, Headers, bytes], bool]

CUT, WHOLE = "kimi_gateway.cut", "kimi_gateway.whole"
"""Where in its scope a request has the two functions that ASGI knows nothing of."""


@dataclass(slots=True)
class Link:
    receive: Receive
    send: Send
    cut: Cut
    """Ends the connection at once."""
    whole: Whole
    """Sends status, headers and body in one piece; false if it must be done step by step."""

    @classmethod
    def of(cls, scope: Scope, receive: Receive, send: Send) -> Link:
        return cls(receive, send, scope.get(CUT, _nothing), scope.get(WHOLE, _never))


def _nothing() -> None:
    return


def _never(status: int, headers: Headers, content: bytes) -> bool:
    return False
