"""The ClientManager: one supervisor task per configured server, reconciled when the configuration changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Raw

from clients.catalogue import Catalogue
from clients.connection import Connection
from clients.listening import Listening
from clients.processes import Child, Guard
from clients.transports.channel import Channel
from clients.transports.dial import dial
from clients.transports.stdio import StdioChannel
from clients.upstream import Timing, Upstream
from configs.models import Server
from gateway.audience import Audience
from gateway.exchange import Exchange, Failure, Question
from gateway.protocol import methods
from gateway.protocol.frames import encode, notification
from gateway.registry import Kind, Listing, ToolRegistry

TIMING = Timing()


class ClientManager:
    """Keeps every upstream reachable, and is the way to all of them."""

    def __init__(
        self,
        registry: ToolRegistry,
        audience: Audience,
        *,
        project: Path,
        environ: Mapping[str, str],
        catalogue: Catalogue,
        limit: int,
        timing: Timing = TIMING,
        shared: bool = False,
        shipped: Callable[[Server], Listing | None] = lambda _: None,
    ) -> None:
        """`shipped` is what a server of ours will list, so that it is not started before it is called."""
        self.upstreams: dict[str, Upstream] = {}
        self._registry = registry
        self._audience = audience
        self._project = project
        self._environ = environ
        self._catalogue = catalogue
        self._limit = limit
        self._timing = timing
        self._shared = shared
        """Several clients use the same connections; else there is one, which is meant by whatever comes."""
        self._shipped = shipped
        self._loop = asyncio.get_running_loop()
        self._capabilities: asyncio.Future[bytes] = self._loop.create_future()
        self._guard = Guard()
        self._group = asyncio.TaskGroup()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        """The last end of each removed server, by name: one that comes back waits for it."""
        self._settled = False
        self._waiting: list[Callable[[], None]] = []
        self._level: tuple[int, bytes] | None = None
        """The level of log messages that upstreams have been told, in the words they were told in."""
        self._requested_level: tuple[int, bytes] | None = None
        """The lowest that a single request has asked for: its next may ask for it again."""
        self._greeted = False

    async def __aenter__(self) -> Self:
        await self._guard.__aenter__()
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self._group.__aexit__(None, None, None)
        await self._guard.__aexit__(None, None, None)

    def conclude(self) -> None:
        """We are about to end: every call in flight is answered, and says so."""
        for upstream in self.upstreams.values():
            upstream.conclude()

    def reconcile(self, servers: Mapping[str, Server]) -> None:
        """Supervise exactly these servers; those whose entry did not change keep their process."""
        for name in [name for name in self.upstreams if name not in servers]:
            self._leaving[name] = self._group.create_task(self._retire(self.upstreams.pop(name), self._tasks.pop(name)))
            self._audience.changed(self._registry.withdraw(name))
        for server in servers.values():
            old = self.upstreams.get(server.name)
            if old is not None and old.server.launch == server.launch:
                old.server = server
                old.retry()
            else:
                self._start(server, old)

    def _start(self, server: Server, old: Upstream | None) -> None:
        upstream = Upstream(
            server,
            self._dial,
            self,
            self._catalogue,
            self._capabilities,
            self._timing,
            self._project,
            lazy=self._shipped(server),
            start=self._start_line if self._shared else None,
        )
        self.upstreams[server.name] = upstream
        before = self._tasks.get(server.name)
        self._tasks[server.name] = self._group.create_task(
            self._supervise(upstream, old, before), name=f"upstream:{server.name}"
        )

    def _start_line(self, line: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        return self._group.create_task(line, name=name)

    async def _supervise(self, upstream: Upstream, old: Upstream | None, before: asyncio.Task[None] | None) -> None:
        """A replaced entry is ended first: two processes of one server may be in each other's way."""
        if old is not None and before is not None:
            upstream.adopt(old)
            await self._retire(old, before)
        if (leaving := self._leaving.pop(upstream.name, None)) is not None:
            await asyncio.wait([leaving])
        await upstream.run()

    async def _retire(self, upstream: Upstream, task: asyncio.Task[None]) -> None:
        upstream.ending = "its entry was changed or removed"
        try:
            await upstream.drained()
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _dial(self, server: Server, connection: Connection) -> Channel:
        if server.transport == "stdio":
            return StdioChannel(server, connection, self._spawn, self._end, limit=self._limit, environ=self._environ)
        return dial(server, connection, limit=self._limit)

    async def _spawn(self, command: Sequence[str], env: Mapping[str, str], cwd: str) -> Child:
        return await self._guard.spawn(command, env=env, cwd=cwd)

    async def _end(self, child: Child, close_stdin: Callable[[], None] | None) -> None:
        await self._guard.end(child, close_stdin=close_stdin)

    async def all_tried(self, seconds: float) -> None:
        """Return when every server that is to be started has come up or failed once, or time is over."""
        try:
            async with asyncio.timeout(seconds):
                for upstream in self.upstreams.values():
                    if upstream.server.enabled and not upstream.lazy:
                        await upstream.tried.wait()
        except TimeoutError:
            return

    # The way to the upstreams (what a conversation needs)

    def dispatch(self, server: str, exchange: Exchange) -> None:
        upstream = self.upstreams.get(server)
        if upstream is None:
            exchange.caller.failed(exchange, Failure(server, "is no longer configured", retryable=False))
        else:
            upstream.dispatch(exchange)

    def notify(self, server: str, frame: bytes) -> None:
        upstream = self.upstreams.get(server)
        if upstream is not None:
            upstream.write(frame)

    def roots_changed(self, caller: object, params: bytes) -> None:
        """Only who could have heard this client's roots hears that they changed."""
        frame = notification(methods.ROOTS_CHANGED, params)
        for upstream in self.upstreams.values():
            connection = upstream.connection
            if upstream.lines is not None:
                upstream.lines.tell(caller, frame)
            elif connection is not None and connection.dialect.era == "session":
                connection.write(frame)

    def relevel(self, wanted: str | None = None) -> None:
        if wanted in methods.LEVELS:
            level = methods.LEVELS.index(wanted), encode({"level": wanted})
            self._requested_level = min(level, self._requested_level or level)
        levels = [level for level in (self._audience.level(), self._requested_level) if level is not None]
        if levels and min(levels) != self._level:
            self._level = min(levels)
            for upstream in self.upstreams.values():
                if upstream.connection is not None:
                    self._tell_level(upstream.connection)

    def _tell_level(self, connection: Connection) -> None:
        if self._level is not None and "logging" in connection.capabilities:
            connection.mention(methods.SET_LEVEL, self._level[1])

    def follow(self, server: str, uri: str) -> None:
        upstream = self.upstreams.get(server)
        if upstream is None or upstream.connection is None:
            return
        if upstream.connection.listening is not None:
            upstream.connection.listening.follow(uri)
        else:
            upstream.connection.mention(methods.SUBSCRIBE, encode({"uri": uri}))

    def unfollow(self, server: str, uri: str) -> None:
        upstream = self.upstreams.get(server)
        if upstream is None or upstream.connection is None or self.followed(server, uri):
            return
        if upstream.connection.listening is not None:
            upstream.connection.listening.unfollow(uri)
        else:
            upstream.connection.mention(methods.UNSUBSCRIBE, encode({"uri": uri}))

    def followed(self, server: str, uri: str) -> bool:
        return uri in self._audience.followed(server)

    def forget(self, caller: object) -> None:
        for upstream in self.upstreams.values():
            if upstream.lines is not None:
                upstream.lines.forget(caller)

    def declare(self, capabilities: bytes) -> None:
        """Upstreams held for it may be initialised, as a client that can do this."""
        if not self._capabilities.done():
            self._capabilities.set_result(capabilities)

    def greet(self, capabilities: bytes) -> None:
        self.declare(capabilities)
        if not self._greeted:
            self._greeted = True
            self._loop.call_later(self._timing.first_listing, self._waited_enough)

    def when_settled(self, then: Callable[[], None]) -> None:
        if self._settled or all(upstream.known for upstream in self.upstreams.values()):
            then()
        else:
            self._waiting.append(then)

    def _waited_enough(self) -> None:
        for upstream in self.upstreams.values():
            upstream.remember_silence()
        self._settle()

    def _settle(self) -> None:
        self._settled = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    # What the upstreams report

    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None:
        upstream = self.upstreams.get(connection.name)
        if self._shared and origin is None and upstream is not None:
            upstream.asks()
        self._audience.asked(connection, question, origin)

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None:
        self._audience.told(connection, method, params, origin)

    def published(self, upstream: Upstream, listing: Listing) -> None:
        if self.upstreams.get(upstream.name) is upstream:  # not one that is being replaced
            self._audience.changed(self._registry.publish(upstream.name, listing))

    def withdrawn(self, upstream: Upstream) -> None:
        if self.upstreams.get(upstream.name) is upstream:
            self._audience.changed(self._registry.withdraw(upstream.name))

    def announced(self, upstream: Upstream, kinds: tuple[Kind, ...]) -> None:
        self._audience.announced(upstream.name, kinds)

    def opened(self, upstream: Upstream, connection: Connection) -> None:
        """What the upstream before this connection had been told, it is told again."""
        self._tell_level(connection)
        uris = self._audience.followed(upstream.name)
        if connection.dialect.era == "stateless":
            connection.listening = Listening(connection, uris)
            return
        for uri in sorted(uris):
            connection.mention(methods.SUBSCRIBE, encode({"uri": uri}))

    def settled(self, upstream: Upstream) -> None:
        if self._waiting and all(upstream.known for upstream in self.upstreams.values()):
            self._settle()
