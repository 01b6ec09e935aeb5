"""Let calls that read run side by side and calls that write run alone, in the order they came."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(eq=False)
class _Waiting:
    writes: bool
    admitted: anyio.Event = field(default_factory=anyio.Event)


class Turns:
    """A queue at one door: a write waits for all before it and holds all after it."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._queue: deque[_Waiting] = deque()
        self._reading = 0
        self._writing = False

    def __repr__(self) -> str:
        return f"<Turns {self._reading} reading, {int(self._writing)} writing, {len(self._queue)} waiting>"

    @asynccontextmanager
    async def turn(self, *, writes: bool) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
        """A place in the queue, taken at once; what it gives returns when it is this call's turn."""
        waiting = _Waiting(writes)
        self._queue.append(waiting)
        self._admit()
        try:
            yield waiting.admitted.wait
        finally:
            if waiting.admitted.is_set():
                self._leave(writes)
            else:
                self._queue.remove(waiting)
                self._admit()

    def _admit(self) -> None:
        while self._queue and self._may_enter(self._queue[0]):
            waiting = self._queue.popleft()
            if waiting.writes:
                self._writing = True
            else:
                self._reading += 1
            waiting.admitted.set()

    def _may_enter(self, waiting: _Waiting) -> bool:
        if self._writing:
            return False
        return self._reading == 0 if waiting.writes else self._reading < self._concurrency

    def _leave(self, writes: bool) -> None:
        if writes:
            self._writing = False
        else:
            self._reading -= 1
        self._admit()
