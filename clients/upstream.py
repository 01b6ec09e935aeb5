"""One configured server under supervision: its state, its connection, and the calls that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import tenacity
from msgspec import Raw

from clients.backoff import pauses, was_healthy
from clients.catalogue import Catalogue, Memory
from clients.causes import DiedOnProbe, GaveUp, Lost
from clients.connection import Connection
from clients.lines import Line, Lines
from clients.negotiation import Introduction, introduce, read_list, read_listing
from clients.state import Event, State, advance
from clients.transports.channel import Channel
from clients.waiting import Waiting
from clients.watching import Changes, watch
from configs.models import Server
from gateway.eras import stateless
from gateway.exchange import Exchange, Failure, Question
from gateway.protocol import errors, methods
from gateway.protocol.versions import Era
from gateway.registry import KINDS, Kind, Listing

logger = logging.getLogger("kimi_gateway.upstream")

ASKING = frozenset((methods.TOOLS_CALL, methods.PROMPTS_GET, methods.RESOURCES_READ, methods.COMPLETE))
"""Requests during which a server may ask its client something."""
READY = State.READY
"""Every call asks for it, and an enum looks its members up anew each time."""
KIND_OF: dict[str, tuple[Kind, ...]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/prompts/list_changed": ("prompts",),
    "notifications/resources/list_changed": ("resources", "templates"),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """How long we wait for what, in seconds."""

    connect: float = 60.0
    listing: float = 60.0
    patience: float = 10.0
    """How long a call waits for an upstream that is coming back."""
    drain: float = 5.0
    base: float = 1.0
    cap: float = 60.0
    healthy: float = 10.0
    """Health after which the next loss counts as the first."""
    first_listing: float = 2.0
    """How long the first listing waits for servers never seen before."""


class Events(Protocol):
    """Who is told what happens to an upstream."""

    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None: ...

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None: ...

    def published(self, upstream: Upstream, listing: Listing) -> None: ...

    def withdrawn(self, upstream: Upstream) -> None: ...

    def announced(self, upstream: Upstream, kinds: tuple[Kind, ...]) -> None: ...

    def opened(self, upstream: Upstream, connection: Connection) -> None: ...

    def settled(self, upstream: Upstream) -> None: ...


class Upstream:
    """A supervisor and what it supervises."""

    def __init__(
        self,
        server: Server,
        dial: Callable[[Server, Connection], Channel],
        events: Events,
        catalogue: Catalogue,
        capabilities: asyncio.Future[bytes],
        timing: Timing,
        project: Path,
        *,
        lazy: Listing | None = None,
        start: Callable[[Coroutine[None, None, None], str], asyncio.Task[None]] | None = None,
    ) -> None:
        """With `start`, which runs a task, clients that may be asked can have connections of their own."""
        self.server = server
        self.state = State.IDLE if server.enabled else State.DISABLED
        self.cause = ""
        self.fix = ""
        self.ending = "the gateway is shutting down"
        """Why it is closed, when it is."""
        self.activity = ""
        """What it is waited for, while it is connecting."""
        self.restarts = 0
        self.next_try: float | None = None
        self.introduction: Introduction | None = None
        self.connection: Connection | None = None
        self.channel: Channel | None = None
        recalled = catalogue.recall(server.fingerprint)
        self.memory = recalled or Memory()
        self.listing: Listing | None = lazy or (self.memory.listing if self.memory.listed else None)
        self.known = not server.enabled or bool(server.problem) or lazy is not None or recalled is not None
        """Nothing is gained by waiting for its first listing."""
        self.tried = asyncio.Event()
        """Its first attempt has ended, well or not."""
        self._dial = dial
        self._events = events
        self._catalogue = catalogue
        self._capabilities = capabilities
        self._timing = timing
        self._project = project
        self._lazy = lazy
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._changes = Changes()
        self._waiting = Waiting(self.name, self._failure)
        self._ready_since: float | None = None
        self._retry_after = 0.0
        """Seconds that the server itself asked for before the next try."""
        self._not_before = 0.0
        """When those are over."""
        self._keep = False
        """Calls that wait came while a connection was ending: the next try is for them."""
        self._lies_in_the_entry = bool(server.problem)
        """It failed, and no try can help before its entry is changed."""
        self._era: Era | None = self.memory.era
        """The era it is spoken to in, where that is known."""
        self._legacy = False
        """It died when asked for the newer era, and is not asked again."""
        self._newest: Connection | None = None
        """The connection that is open or being opened."""
        self.lines = (
            Lines(self.name, events, self._open_line, start, self.dispatch, connect=timing.connect) if start else None
        )

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def lazy(self) -> bool:
        """It is started by its first call: what it lists is known without."""
        return self._lazy is not None

    @property
    def resting(self) -> bool:
        """Not started because nobody has called it yet."""
        return self.lazy and self.state is State.IDLE

    def next_try_at(self, now: float) -> float | None:
        """The next attempt in the time of `now`."""
        if self.next_try is None or self.state is not State.WAITING:
            return None
        return now + max(0.0, self.next_try - self._loop.time())

    @property
    def latency(self) -> float | None:
        """Seconds, at the median of recent calls."""
        latencies = sorted(self.connection.latencies) if self.connection else []
        return latencies[len(latencies) // 2] if latencies else None

    def __repr__(self) -> str:
        tools = f" {len(self.listing.tools)} tools" if self.listing else ""
        return f"<Upstream {self.name} {self.state.value}{tools}>"

    # Calls

    def dispatch(self, exchange: Exchange) -> None:
        """Send it now, or as soon as the server is there, or say why not."""
        connection = self.connection
        if connection is not None and self.state is READY and not connection.over:
            timeout = self.server.timeouts.get(exchange.tool, self.server.timeout)
            line = self._line_for(exchange) if self.lines is not None and self.memory.asks else None
            if line is not None:
                line.send(exchange, timeout)
            else:
                connection.send(exchange, timeout)
            return
        if self._lies_in_the_entry or self.state in (State.DISABLED, State.CLOSED, State.DRAINING):
            exchange.caller.failed(exchange, self._failure())
            return
        # One that was up and is gone counts as lost before its loss is noted: its connection is closed first.
        first = self.restarts == 0 and self._ready_since is None
        wait = self._timing.connect if first else self._timing.patience
        timeout = min(wait, self.server.timeout)
        if self.state is State.WAITING and self._not_before > self._loop.time() + timeout:
            exchange.caller.failed(exchange, self._failure())
            return
        self._waiting.add(exchange, timeout)
        self._wake.set()

    def _line_for(self, exchange: Exchange) -> Line | None:
        """A connection of its own for a client that this server may ask something."""
        connection = self.connection
        if connection is None or connection.dialect.era != "session" or exchange.method not in ASKING:
            return None
        return self.lines.line_for(exchange) if self.lines is not None and exchange.client.askable else None

    def write(self, frame: bytes) -> None:
        if self.connection is not None and self.state is State.READY:
            self.connection.write(frame)

    def _release(self) -> None:
        """Whoever waited is served, or told why not."""
        for exchange in self._waiting.take():
            if self.state is State.READY:
                self.dispatch(exchange)
            else:
                exchange.caller.failed(exchange, self._failure())

    def _failure(self) -> Failure:
        reason, advice = self.describe()
        return Failure(self.name, reason, advice=advice, retryable=self.state not in (State.FAILED, State.DISABLED))

    def describe(self) -> tuple[str, str]:
        """Why it cannot be called now, and what comes next."""
        if self.state is State.DISABLED:
            return "is disabled", f"Run `kimi-gateway enable {self.name}` to use it."
        if self.state is State.WAITING:
            left = max(0.0, (self.next_try or 0) - self._loop.time())
            return f'is reconnecting after "{self.cause}"', f"Next try in {left:.0f} s."
        if self.state is State.FAILED:
            return f"failed: {self.cause}", self.fix
        if self.state is State.CONNECTING:
            after = f' after "{self.cause}"' if self.cause else ""
            return f"is still starting{after}: {self.activity}", "Try again in a moment."
        if self.state is State.READY and self._newest is not None and self._newest.over:
            why = self.server.masked(self._newest.gone.result())
            return f'is being ended after "{why}"', "Try again in a moment."
        return f"is {self.state.value}", "Try again in a moment."

    # Supervision

    async def run(self) -> None:
        """Keep it connected until cancelled."""
        if self.state is State.DISABLED:
            self._events.withdrawn(self)
            return
        try:
            if self.listing is not None:
                self._events.published(self, self.listing)
            if self.server.problem:
                self._give_up(GaveUp(self.server.problem, "", may_pass=False))
                await self._loop.create_future()  # until the entry changes
            if self.lazy:
                await self._wake.wait()
            while self.state is not State.CLOSED:
                await self._attempts()
        finally:
            if self.lines is not None:
                self.lines.close()
            if self.state is not State.CLOSED:
                self._move(Event.CLOSE)
            self._release()

    def retry(self) -> None:
        """Something has changed: one that failed may try again."""
        if self.state is State.FAILED and not self._lies_in_the_entry:
            self._wake.set()

    def conclude(self) -> None:
        """We are about to end: whoever waits for an answer is told so, while there is a way to tell."""
        if self._newest is not None:
            self._newest.fail_all(self.ending, errors.SHUTDOWN)
        if self.lines is not None:
            self.lines.conclude(self.ending)
        for exchange in self._waiting.take():
            exchange.caller.failed(exchange, Failure(self.name, self.ending, code=errors.SHUTDOWN))

    async def drained(self) -> None:
        """Take no new calls, and return when those in flight are answered or have had their time."""
        in_use = self.lines.connections if self.lines is not None else []
        if self.state is State.READY and self.connection is not None:
            self._move(Event.RETIRE)
            in_use.append(self.connection)
        until = self._loop.time() + self._timing.drain
        for connection in in_use:
            await connection.finished_within(max(0.0, until - self._loop.time()))

    def adopt(self, other: Upstream) -> None:
        """Take over the calls that wait for another upstream, which this one replaces."""
        for exchange in other._waiting.take():
            self.dispatch(exchange)

    async def _attempts(self) -> None:
        """Try, with growing pauses, until a connection was healthy for long enough to start counting anew."""
        retrying = tenacity.AsyncRetrying(
            wait=pauses(self._timing.base, self._timing.cap),
            sleep=self._pause,
            retry=tenacity.retry_if_exception_type(Lost),
        )
        async for attempt in retrying:
            with attempt:
                self._ready_since = None
                try:
                    await self._live()
                except GaveUp as cause:
                    self._give_up(cause)
                    self._wake.clear()  # who called before has been told
                    await self._wake.wait()
                    return
                except Exception as error:
                    # The one broad net: a bug met by one server must not end the others.
                    cause = error if isinstance(error, Lost) else self._unexpected(error)
                    self._lose(cause)
                    if self.state is State.CLOSED:
                        return
                    if was_healthy(self._ready_since, self._loop.time(), self._timing.healthy):
                        return
                    raise cause from error

    def _unexpected(self, error: Exception) -> Lost:
        logger.error("%s met a bug of ours", self.name, exc_info=error)
        return Lost(f"the gateway failed: {type(error).__name__}: {error}")

    async def _pause(self, seconds: float) -> None:
        """Wait for the next try, or until somebody calls; but no less than the server itself asked for."""
        now = self._loop.time()
        self._not_before = now + self._retry_after
        seconds = max(seconds, self._retry_after)
        self.next_try = now + seconds
        if seconds <= 0 or (self._waiting and self._keep and not self._retry_after):
            return
        self._release()  # only now: whoever waited is told when the next try comes
        logger.info("%s waits %.1f s", self.name, seconds)
        self._wake.clear()
        await asyncio.sleep(self._retry_after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self.next_try):
                await self._wake.wait()

    async def _live(self) -> None:
        """One connection from open to close.

        Raises:
            Lost: it ended and may come back.
            GaveUp: it cannot be had as things are.
        """
        self._wake.clear()
        self._changes = Changes()
        self._move(Event.START)
        connection = self._newest = Connection(self.name, self)
        self.channel = channel = self._dial(self.server, connection)
        connection.channel = channel
        try:
            await self._open(connection, channel)
            await watch(connection, lambda: self.server.health, self._changes, self._relist)
        except asyncio.CancelledError:
            connection.fail_all(self.ending, errors.SHUTDOWN)
            raise
        except Lost as cause:
            connection.lost(self.server.masked(cause.reason))
            raise
        finally:
            self.connection = None
            connection.lost(self.cause or "closed")
            await channel.close()

    async def _open(self, connection: Connection, channel: Channel) -> None:
        try:
            self.activity = "it is being started"
            async with asyncio.timeout(self._timing.connect):
                await channel.open(self._project)
            if not self._capabilities.done():
                self._move(Event.HOLD)
                await asyncio.wait([connection.gone, self._capabilities], return_when=asyncio.FIRST_COMPLETED)
                self._move(Event.INTRODUCED)
            if connection.over:
                raise connection.cause or Lost(connection.gone.result())
            self.activity = "it has not answered initialize yet"
            info = await self._introduce(connection)
            self.activity = "it has not answered its listings yet"
            listing = await read_listing(connection, info, timeout=self._timing.listing)
        except TimeoutError:
            raise Lost(f"did not start within {self._timing.connect:g} s") from None
        except Lost as cause:
            if connection.cause is not None:
                raise connection.cause from cause
            if isinstance(cause, DiedOnProbe) and self.memory.era != "session":  # else it ends whatever it is asked
                raise Lost(self._with_stderr(cause.reason), keep=True) from cause
            raise Lost(
                self._with_stderr(cause.reason), retry_after=cause.retry_after, withdraw=cause.withdraw
            ) from cause
        self.introduction = info
        self.connection = connection
        self.memory = self.memory.of_era(info.era)
        self._publish(listing)
        self._move(Event.OPENED)
        self.cause = ""
        self.next_try = None
        self._ready_since = self._loop.time()
        self._events.opened(self, connection)
        self._settle()
        self._release()

    async def _introduce(self, connection: Connection) -> Introduction:
        """Shake hands in the era it is known to speak, which may be known no more where that ends badly.

        Raises:
            GaveUp, Lost: as `introduce` has it.
        """
        try:
            info = await introduce(connection, self._capabilities.result(), self._era, timeout=self._timing.connect)
        except DiedOnProbe:
            self._era, self._legacy = "session", True
            raise
        except Lost:
            # A server that was never reached says nothing of its era; nor does one that dies of the other question.
            if connection.cause is None and not self._legacy:
                self._era = None
            raise
        self._era = info.era
        return info

    async def _open_line(self, connection: Connection) -> Channel:
        connection.channel = channel = self._dial(self.server, connection)
        await channel.open(self._project)
        return channel

    def asks(self) -> None:
        """It was heard asking where several clients could have been meant: from now on each gets its own connection."""
        if not self.memory.asks:
            self._remember(self.memory.as_asking())

    def _with_stderr(self, reason: str) -> str:
        """A failed start shows what the server said last."""
        tail = self.channel.tail if self.channel else ""
        lines = [line.strip() for line in tail.splitlines() if line.strip()][-6:]
        return self.server.masked(f"{reason}; it said: {' | '.join(lines)}" if lines else reason)

    async def _relist(self, connection: Connection) -> None:
        """Read the lists again that may have changed; what changes meanwhile waits for the next turn."""
        kinds, said = self._changes.take()
        assert self.listing is not None
        fresh: dict[str, tuple[bytes, ...]] = {}
        for kind in kinds:
            fresh[kind] = await read_list(connection, kind, timeout=self._timing.listing)
        self._publish(replace(self.listing, **fresh))
        self._events.announced(self, said)

    def _publish(self, listing: Listing) -> None:
        self.listing = listing
        self._events.published(self, listing)
        self._remember(self.memory.with_listing(listing))

    def _remember(self, memory: Memory) -> None:
        self.memory = memory
        self._catalogue.remember(self.server.fingerprint, memory)

    def _lose(self, cause: Lost) -> None:
        self.cause = self.server.masked(cause.reason)
        self._retry_after = cause.retry_after or 0.0
        self._keep = cause.keep or self._ready_since is not None
        self.restarts += 1
        if cause.withdraw:
            self.listing = None
        self._remember(self.memory)  # that it gave nothing, if it is the first time
        self._move(Event.LOST)
        if cause.keep:
            return  # the next try comes at once and is part of this one
        self._settle()

    def _give_up(self, cause: GaveUp) -> None:
        self.cause = self.server.masked(cause.reason)
        self.fix = cause.fix
        self._lies_in_the_entry = not cause.may_pass
        self._move(Event.GAVE_UP)
        self._settle()
        self._release()

    def remember_silence(self) -> None:
        """It was waited for once; the next start need not."""
        if not self.known:
            self.known = True
            self._remember(self.memory)

    def _settle(self) -> None:
        if self.listing is None:
            self._events.withdrawn(self)
        self.known = True
        self.tried.set()
        self._events.settled(self)

    def _move(self, event: Event) -> None:
        before, self.state = self.state, advance(self.state, event)
        if before is not self.state:
            detail = f": {self.cause}" if self.cause and self.state in (State.WAITING, State.FAILED) else ""
            logger.info("%s %s → %s%s", self.name, before.value, self.state.value, detail)

    # What the connection hears that belongs to no call

    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None:
        self._events.asked(connection, question, origin)

    def returned(self, exchange: Exchange) -> None:
        self._waiting.add(exchange, self._timing.patience)

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None:
        kinds = KIND_OF.get(method)
        if method == methods.ACKNOWLEDGED:  # our own stream
            if connection.listening is not None and connection.listening.acknowledged():
                self._changes.note(KINDS, said=False)
        elif kinds is None:
            self._events.told(connection, method, stateless.unmarked(params), origin)
        elif connection is self._newest:
            self._changes.note(kinds, said=True)
