"""Calls that wait for their server to be there, each for its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.exchange import Exchange, Failure
from gateway.protocol.frames import Object


class Waiting:
    """As a port it holds calls of which nothing was sent yet."""

    def __init__(self, name: str, why: Callable[[], Failure]) -> None:
        """`why` says why the server is not there, to who has waited long enough."""
        self.name = name
        self._why = why
        self._timers: dict[Exchange, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, exchange: Exchange, seconds: float) -> None:
        exchange.port = self
        self._timers[exchange] = self._loop.call_later(seconds, self._overdue, exchange)

    def take(self) -> list[Exchange]:
        """All of them, in the order they came; they are the taker's now."""
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            timer.cancel()
        return list(timers)

    def cancel(self, exchange: Exchange, params: Object) -> None:
        timer = self._timers.pop(exchange, None)
        if timer is not None:
            timer.cancel()

    def write(self, frame: bytes) -> None:
        return  # nobody is there to read it

    def _overdue(self, exchange: Exchange) -> None:
        if self._timers.pop(exchange, None) is not None:
            exchange.caller.failed(exchange, self._why())
