"""Messages on their way out over HTTP: each is a request of its own, and so a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import cast

from clients.causes import Lost
from gateway.exchange import Exchange
from gateway.protocol import methods
from gateway.protocol.frames import Frame, Malformed, decode, notification, open_object

logger = logging.getLogger("kimi_gateway.web")

WAITING = 64 * 1024 * 1024
"""Bytes that may wait for a server that does not read, before it counts as lost."""

INITIALIZED = notification(methods.INITIALIZED)
_CANCELLED = notification(methods.CANCELLED)[:-1]


class Message:
    """One frame on its way out."""

    __slots__ = ("begun", "exchange", "frame", "id", "task", "waiting")

    def __init__(self, frame: bytes, exchange: Exchange | None) -> None:
        self.frame = frame
        self.exchange = exchange
        self.id = exchange.upstream_id if exchange is not None else None
        self.begun = False
        """Some of it may have reached the server."""
        self.waiting = len(frame)
        self.task: asyncio.Task[None] | None = None

    @property
    def method(self) -> str:
        return self.exchange.method if self.exchange is not None else ""

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Outbox:
    """The tasks of one channel: whatever it starts, `close` ends and awaits."""

    def __init__(self, name: str, deliver: Callable[[Message], Awaitable[None]], lose: Callable[[Lost], None]) -> None:
        self.requests: dict[int, Message] = {}
        """Those that wait for an answer, by our id."""
        self._name = name
        self._deliver = deliver
        self._lose = lose
        self._messages: set[Message] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._initialized: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def send(self, frame: bytes, exchange: Exchange | None, *, most: int) -> None:
        """Start a message on its way."""
        if len(frame) + sum(message.waiting for message in self._messages) > max(WAITING, most):
            self._lose(Lost("stopped reading: too much waits to be sent to it"))
            return
        message = Message(frame, exchange)
        self._messages.add(message)
        if message.id is not None:
            self.requests[message.id] = message
        message.task = self.start(self._run(message), self._name)
        if frame == INITIALIZED:
            self._initialized = message.task

    def withdraw(self, exchange: Exchange) -> bool:
        message = self.requests.get(exchange.upstream_id)
        if message is None or message.begun:
            return False
        message.cancel()
        return True

    def ended_by(self, frame: bytes) -> Message | None:
        """The request that this message, if it is a cancellation, ends."""
        if not frame.startswith(_CANCELLED):
            return None
        try:
            params = open_object(cast(Frame, decode(frame)).params)
            return self.requests.get(int(bytes(params["requestId"])))
        except (Malformed, KeyError, ValueError):
            return None

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def close(self) -> None:
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, message: Message) -> None:
        ended = self.ended_by(message.frame)
        try:
            if self._initialized is not None and self._initialized is not message.task:
                await asyncio.wait([self._initialized])  # nothing may overtake the end of the handshake
            await self._deliver(message)
        finally:
            self._messages.discard(message)
            if message.id is not None:
                self.requests.pop(message.id, None)
            if ended is not None:
                ended.cancel()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("%s: a fault of ours", self._name, exc_info=failure)
            self._lose(Lost(f"internal error: {type(failure).__name__}"))
