"""A time limit that is moved with every request and hardly ever reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """Calls back when its time has come. To move it costs no timer: whichever was set looks again when it rings."""

    __slots__ = ("_at", "_loop", "_then", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at = inf
        self._then: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, then: Callable[[], None]) -> None:
        self._then = then
        self._at = at = self._loop.time() + seconds
        timer = self._timer
        if timer is None:
            self._timer = self._loop.call_at(at, self._ring)
        elif at < timer.when():
            timer.cancel()
            self._timer = self._loop.call_at(at, self._ring)

    def clear(self) -> None:
        self._at = inf

    def close(self) -> None:
        """Never call back again."""
        self._at, self._then = inf, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._at > self._loop.time():
            if self._at < inf:
                self._timer = self._loop.call_at(self._at, self._ring)
        elif self._then is not None:
            self._at = inf
            self._then()
