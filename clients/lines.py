"""Connections that serve one client alone, to a server that asks its clients: opened for a call, closed when idle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Protocol

from msgspec import Raw

from clients.causes import GaveUp, Lost
from clients.connection import Connection
from clients.negotiation import introduce
from clients.transports.channel import Channel
from gateway.eras.session import SessionConversation
from gateway.exchange import Caller, Exchange, Failure, Question
from gateway.protocol import errors, methods
from gateway.protocol.frames import Object

LIMIT = 32
"""Lines to one server; whoever comes after that shares the common connection."""
IDLE = 60.0
"""Seconds without a call after which a line is closed."""


class Listener(Protocol):
    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None: ...

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None: ...


class Line:
    """One connection of one client's. As a port it holds the calls that wait for it to open."""

    def __init__(self, name: str, owner: Caller | None, capabilities: bytes, listener: Listener) -> None:
        self.name = name
        self.owner = owner
        """The client of the session era it belongs to; one of the other era has it for the length of a call."""
        self.capabilities = capabilities
        self.spoiled = False
        """It has heard somebody's roots, so nobody else may have it."""
        self.connection = Connection(name, self, owner)
        self.used = monotonic()
        self.task: asyncio.Task[None] | None = None
        self._listener = listener
        self._ready = False
        self._waiting: dict[Exchange, float] = {}
        self.returns: list[Exchange] = []
        """Calls that met the end of its session and were not executed."""

    @property
    def free(self) -> bool:
        return not self._waiting and not self.connection.busy and not self.connection.over

    def serves(self, owner: Caller | None, capabilities: bytes) -> bool:
        """Whether this client may have it now."""
        if self.owner is not owner or self.connection.over:
            return False
        return owner is not None or (self.free and not self.spoiled and self.capabilities == capabilities)

    def send(self, exchange: Exchange, timeout: float) -> None:
        self.used = monotonic()
        if self._ready:
            self.connection.send(exchange, timeout)
        else:
            exchange.port = self
            self._waiting[exchange] = timeout

    def cancel(self, exchange: Exchange, params: Object) -> None:
        self._waiting.pop(exchange, None)
        if exchange in self.returns:
            self.returns.remove(exchange)

    def write(self, frame: bytes) -> None:
        if self._ready:
            self.connection.write(frame)

    def opened(self) -> None:
        self._ready = True
        waiting, self._waiting = self._waiting, {}
        for exchange, timeout in waiting.items():
            self.connection.send(exchange, timeout)

    def fail(self, reason: str) -> None:
        waiting, self._waiting = [*self._waiting, *self.returns], {}
        self.returns = []
        for exchange in waiting:
            exchange.caller.failed(exchange, Failure(self.name, reason))

    # What its connection hears

    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None:
        self.spoiled = self.spoiled or question.method == methods.ROOTS_LIST
        self._listener.asked(connection, question, origin)

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None:
        if method not in methods.CHANGED.values() and method != methods.UPDATED:  # the common connection says those
            self._listener.told(connection, method, params, origin)

    def returned(self, exchange: Exchange) -> None:
        exchange.port = self
        self.returns.append(exchange)


class Lines:
    """The lines to one server, bounded in number."""

    def __init__(
        self,
        name: str,
        listener: Listener,
        open: Callable[[Connection], Coroutine[None, None, Channel]],
        start: Callable[[Coroutine[None, None, None], str], asyncio.Task[None]],
        again: Callable[[Exchange], None],
        *,
        connect: float,
        idle: float = IDLE,
    ) -> None:
        self._name = name
        self._listener = listener
        self._open = open
        self._start = start
        self._again = again
        """Takes a call that a line gave back."""
        self._connect = connect
        self._idle = idle
        self._lines: list[Line] = []

    def __len__(self) -> int:
        return len(self._lines)

    def line_for(self, exchange: Exchange) -> Line | None:
        """The line of whoever asks, a new one if need be; `None` if there are too many."""
        caller = exchange.caller
        owner = caller if isinstance(caller, SessionConversation) else None
        for line in self._lines:
            if line.serves(owner, exchange.client.capabilities):
                return line
        if len(self._lines) >= LIMIT and not self._make_room():
            return None
        line = Line(self._name, owner, exchange.client.capabilities, self._listener)
        self._lines.append(line)
        line.task = self._start(self._run(line), f"line:{self._name}")
        return line

    def tell(self, owner: object, frame: bytes) -> None:
        """Tell the server on a client's own line."""
        for line in self._lines:
            if line.owner is owner:
                line.write(frame)

    def forget(self, owner: object) -> None:
        """A client is gone."""
        for line in [line for line in self._lines if line.owner is owner]:
            self._end(line)

    def conclude(self, reason: str) -> None:
        """We are about to end: whoever waits for an answer is told so."""
        for line in self._lines:
            line.fail(reason)
            line.connection.fail_all(reason, errors.SHUTDOWN)

    @property
    def connections(self) -> list[Connection]:
        return [line.connection for line in self._lines]

    def close(self) -> None:
        for line in list(self._lines):
            self._end(line)

    def _end(self, line: Line) -> None:
        if line in self._lines:
            self._lines.remove(line)
        if line.task is not None:
            line.task.cancel()

    def _make_room(self) -> bool:
        idle = min((line for line in self._lines if line.free), key=lambda line: line.used, default=None)
        if idle is not None:
            self._end(idle)
        return idle is not None

    async def _run(self, line: Line) -> None:
        connection = line.connection
        channel: Channel | None = None
        try:
            async with asyncio.timeout(self._connect):
                channel = await self._open(connection)
            await introduce(connection, line.capabilities, "session", timeout=self._connect)
            line.opened()
            await self._until_idle(line)
        except (Lost, GaveUp) as cause:
            line.fail(cause.reason)
        except TimeoutError:
            line.fail(f"did not start within {self._connect:g} s")
        finally:
            if line in self._lines:
                self._lines.remove(line)
            connection.lost("its connection was closed")
            returns, line.returns = line.returns, []
            line.fail("its connection was closed")
            for exchange in returns:
                self._again(exchange)
            if channel is not None:
                await channel.close()

    async def _until_idle(self, line: Line) -> None:
        connection = line.connection
        while not connection.over:
            if line.free and line.spoiled and line.owner is None:
                return
            left = self._idle - (monotonic() - max(line.used, connection.heard))
            if line.free and left <= 0:
                return
            # A spoiled line is looked at often: it is not to stand idle.
            pause = 1.0 if line.spoiled and line.owner is None else max(left, 1.0)
            await asyncio.wait([connection.gone], timeout=pause)
