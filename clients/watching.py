"""Watch a ready connection: its end, its health, its changing lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import NoReturn

from clients.causes import Lost, Refused
from clients.connection import Connection
from configs.models import Health
from gateway.registry import Kind


class Changes:
    """Lists that may have changed since they were read."""

    def __init__(self) -> None:
        self.noticed = asyncio.Event()
        self._kinds: set[Kind] = set()
        self._said: set[Kind] = set()

    def note(self, kinds: Iterable[Kind], *, said: bool) -> None:
        """`said`: by the server itself, whose word is passed on whatever we see."""
        self._kinds.update(kinds)
        if said:
            self._said.update(kinds)
        self.noticed.set()

    def take(self) -> tuple[tuple[Kind, ...], tuple[Kind, ...]]:
        """All of them, and those that the server spoke of; what changes from now on waits for the next turn."""
        self.noticed.clear()
        kinds, self._kinds = self._kinds, set[Kind]()
        said, self._said = self._said, set[Kind]()
        return tuple(sorted(kinds)), tuple(sorted(said))


async def watch(
    connection: Connection,
    health: Callable[[], Health],
    changes: Changes,
    relist: Callable[[Connection], Awaitable[None]],
) -> NoReturn:
    """Stay with it until it is lost.

    Raises:
        Lost: it ended, or it answers no more.
    """
    misses = 0
    while True:
        waiters = [connection.gone, asyncio.ensure_future(changes.noticed.wait())]
        policy = health()
        pause = 0.0 if misses else connection.heard + policy.interval - monotonic()
        if connection.busy:
            pause = policy.interval
        try:
            await asyncio.wait(waiters, timeout=max(0.0, pause), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiters[1].cancel()
        if connection.over:
            raise connection.cause or Lost(connection.gone.result())
        if changes.noticed.is_set():
            await relist(connection)
            continue
        if connection.busy or monotonic() - connection.heard < policy.interval:
            misses = 0
            continue
        misses = 0 if await _answers(connection, policy.timeout) else misses + 1
        if misses >= policy.misses:
            raise Lost(f"stopped answering: {misses} health checks without an answer")


async def _answers(connection: Connection, timeout: float) -> bool:
    before = connection.heard
    try:
        await connection.request(connection.dialect.probe, timeout=timeout)
    except Refused:
        return True
    except Lost:
        return connection.heard > before
    return True
