"""The event loop: uvloop with its timers in a descriptor.

The nearest timer of a loop is commonly the timeout of each of its polls. The kernel then sets and cancels it anew for
every frame, and on a virtual machine pays for that with an exit each: a bare relay over stdio takes 42 µs a call beside
one pending timer and 28 without. A timer descriptor is set once, whatever is polled meanwhile.

Until Python 3.13 it takes ctypes to have one, whose import costs a start 1.3 ms of a hundred.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import TypeVarTuple, Unpack

import uvloop

Arguments = TypeVarTuple("Arguments")
FAR = 86_400.0
"""Seconds after which the descriptor rings anyway: no deadline is further than it can be set."""
ROOM = 64
"""Timers among which cancelled ones are not looked for."""
ABSOLUTE = 1  # TFD_TIMER_ABSTIME


def new_loop() -> asyncio.AbstractEventLoop:
    """The best loop this system has."""
    if sys.platform != "linux":
        return uvloop.new_event_loop()
    return Loop(*_alarm())


class Loop(uvloop.Loop):
    """Calls what is due when the descriptor says so."""

    def __init__(self, descriptor: int, wake: Callable[[float], None]) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._wake = wake
        self._awake = inf  # When the descriptor is set for.
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._room = ROOM
        self._numbers = count()
        self.add_reader(descriptor, self._ring)

    def time(self) -> float:
        return time.monotonic()

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(time.monotonic() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if len(self._timers) >= self._room:
            self._forget_cancelled()
        heappush(self._timers, (when, next(self._numbers), timer))
        if when < self._awake:
            self._set(when)
        return timer

    def close(self) -> None:
        if not self.is_closed():
            super().close()  # which it refuses while it runs
            os.close(self._descriptor)
            self._timers.clear()

    def _set(self, when: float) -> None:
        self._awake = max(0.0, min(when, time.monotonic() + FAR))
        self._wake(self._awake)

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # set anew in this very turn, for a time that is over
            os.read(self._descriptor, 8)
        self._awake = inf
        timers, now = self._timers, time.monotonic()
        while timers and (timers[0][0] <= now or timers[0][2].cancelled()):
            self.call_soon(_run, heappop(timers)[2])  # not now: one that sets another for the past would never end
        if timers:
            self._set(timers[0][0])

    def _forget_cancelled(self) -> None:
        self._timers[:] = [timer for timer in self._timers if not timer[2].cancelled()]
        heapify(self._timers)
        self._room = 2 * len(self._timers) + ROOM

    def _timer_handle_cancelled(self, _: asyncio.TimerHandle) -> None:
        """What a timer calls; it is forgotten when its time comes, or room is wanted."""


def _run(timer: asyncio.TimerHandle) -> None:
    if not timer.cancelled():
        timer._run()


def _alarm() -> tuple[int, Callable[[float], None]]:
    """A timer descriptor, and what sets it to a time of the monotonic clock."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    settime, once = libc.timerfd_settime, ctypes.c_long * 4

    def wake(when: float) -> None:
        seconds, nanoseconds = divmod(int(when * 1e9) + 1, 1_000_000_000)
        settime(descriptor, ABSOLUTE, once(0, 0, seconds, nanoseconds), None)

    return descriptor, wake
