"""One connection to one upstream: ids, deadlines, and whose each incoming frame is."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from time import monotonic
from typing import Protocol

from msgspec import Raw

from clients.causes import GaveUp, Lost, Refused
from clients.transports.channel import Channel
from gateway.eras import Dialect
from gateway.eras.session import SessionDialect
from gateway.exchange import Caller, Exchange, Failure, Port, Question
from gateway.protocol import errors, methods
from gateway.protocol.frames import (
    NOTHING,
    Frame,
    Malformed,
    Object,
    id_key,
    notification,
    number,
    open_object,
    quote,
    result,
    seal,
)
from gateway.protocol.versions import Era

LONGEST = 600.0
"""Seconds that progress may stretch a call to."""
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"')
_REPLY = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"')
_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class Listener(Protocol):
    """Who hears what belongs to no exchange."""

    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None: ...

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None: ...

    def returned(self, exchange: Exchange) -> None:
        """A call of which nothing was executed, to be sent again as soon as can be."""
        ...


class Listening(Protocol):
    def takes(self, exchange: Exchange) -> bool: ...

    def follow(self, uri: str) -> None: ...

    def unfollow(self, uri: str) -> None: ...

    def acknowledged(self) -> bool: ...


class Unheard:
    """The gateway itself as caller: it does not care for the answer."""

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        return

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        return

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        return

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        return

    def progressed(self, exchange: Exchange, params: Object) -> None:
        return

    def asked(self, question: Question, exchange: Exchange | None) -> None:
        question.refuse(errors.METHOD_NOT_FOUND, f"The gateway itself does not answer {question.method}")

    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        return


class Inquiry(Unheard):
    """The gateway itself as caller, which waits for the answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        if not self.answer.done():
            self.answer.set_exception(Lost(f"wants input before it answers {exchange.method}"))

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        if not self.answer.done():
            self.answer.set_exception(Refused(exchange.method, bytes(error)))

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        if not self.answer.done():
            self.answer.set_exception(Lost(failure.reason))


class Connection:
    """A live connection. Its reader finishes exchanges; nothing here waits."""

    def __init__(self, name: str, listener: Listener, owner: Caller | None = None) -> None:
        self.name = name
        self.owner = owner
        """The one client it serves, if it serves only one."""
        self.channel: Channel | None = None
        self.dialect: Dialect = SessionDialect()
        self.capabilities: Object = {}
        self.listening: Listening | None = None
        """Takes subscriptions where the era has no request for them."""
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Resolved with the reason when the other side is no longer there."""
        self.over = False
        """Whether that has happened: every call asks."""
        self.cause: Lost | GaveUp | None = None
        """What the transport says this means, where it knows."""
        self.heard = 0.0
        self.latencies: deque[float] = deque(maxlen=128)
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._ids = count(1)
        self._pending: dict[int, Exchange] = {}
        self._questions: dict[bytes, Question] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._idle: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.name} {'gone' if self.over else 'open'}, {len(self._pending)} in flight>"

    @property
    def busy(self) -> bool:
        """Whether somebody's call is in flight."""
        return any(not isinstance(exchange.caller, Unheard) for exchange in self._pending.values())

    async def finished_within(self, seconds: float) -> None:
        """Return when no call is in flight any more, or time is over."""
        if self.busy:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=seconds)

    def callers(self) -> set[Caller]:
        return {exchange.caller for exchange in self._pending.values() if not isinstance(exchange.caller, Unheard)}

    # Towards the upstream

    def later(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.call_later(seconds, then)

    def send(self, exchange: Exchange, timeout: float) -> None:
        """Put a request on the wire under an id of ours, with its time running."""
        if self.listening is not None and self.listening.takes(exchange):
            return
        id = exchange.upstream_id = next(self._ids)
        exchange.port = self
        exchange.begin(monotonic(), timeout)
        channel = self.channel
        if channel is None or self.over:
            exchange.caller.failed(exchange, Failure(self.name, self.gone.result() if self.over else "not open"))
            return
        try:
            frame = self.dialect.frame(exchange, id)
        except Malformed as malformed:
            refused = errors.error_object(malformed.code, malformed.message, malformed.data)
            exchange.caller.refused(exchange, Raw(refused), self.dialect.era)
            return
        self._pending[id] = exchange
        if exchange.deadline < self._alarm_at:
            self._watch(exchange.deadline)
        channel.send(frame, exchange)

    async def request(self, method: str, params: bytes = b"", *, timeout: float) -> Raw:
        """A request of the gateway's own.

        Raises:
            Refused: the upstream answered with an error.
            Lost: no answer in time, or the connection is gone.
        """
        inquiry = Inquiry()
        exchange = Exchange(inquiry, b"", method, open_object(params), bare=not params)
        self.send(exchange, timeout)
        try:
            return await inquiry.answer
        finally:
            self._pending.pop(exchange.upstream_id, None)

    def mention(self, method: str, params: bytes) -> None:
        """A request of the gateway's own whose answer changes nothing."""
        if self.dialect.era == "session":
            self.send(Exchange(Unheard(), b"", method, open_object(params)), LONGEST)

    def write(self, frame: bytes) -> None:
        if self.channel is not None and not self.over:
            self.channel.send(frame)

    def cancel(self, exchange: Exchange, params: Object) -> None:
        """Stop waiting; what was sent is cancelled upstream under the upstream's own id."""
        if self._pending.pop(exchange.upstream_id, None) is None or self.channel is None:
            return
        if not self.channel.withdraw(exchange):
            words = {**params, "requestId": Raw(b"%d" % exchange.upstream_id)}
            self.write(notification(methods.CANCELLED, seal(words)))

    # From the upstream

    def receive(self, message: Frame | list[Frame | Malformed], origin: int | None = None) -> None:
        self.heard = monotonic()
        if isinstance(message, list):
            for part in message:
                if isinstance(part, Frame):
                    self.receive(part, origin)
        elif message.method is None:
            self._answered(message)
        elif message.id:
            self._asked(message, origin)
        else:
            self._told(message, origin)

    def _answered(self, frame: Frame) -> None:
        exchange = self._pending.pop(number(frame.id), None)
        if exchange is None:
            return  # late: it was cancelled or timed out
        self.latencies.append(self.heard - exchange.started)
        try:
            if frame.result:
                self.dialect.answered(exchange, frame.result)
            else:
                exchange.caller.refused(exchange, frame.error, self.dialect.era)
        except Malformed:
            failure = Failure(self.name, "its answer is none that the protocol knows", may_have_executed=True)
            exchange.caller.failed(exchange, failure)
        if self._idle is not None and not self.busy and not self._idle.done():
            self._idle.set_result(None)

    def _asked(self, frame: Frame, origin: int | None) -> None:
        id = frame.id
        if frame.method == methods.PING:
            self.write(result(id, b"{}"))
            return
        question = Question(self, id, frame.method or "", frame.params, self._settled)
        self._questions[id_key(id)] = question
        try:
            self._listener.asked(self, question, self._call(origin))
        except Malformed as malformed:
            question.refuse(malformed.code, malformed.message)

    def _settled(self, question: Question) -> None:
        self._questions.pop(id_key(question.id), None)

    def _call(self, origin: int | None) -> Exchange | None:
        """The client's call on whose stream something came."""
        exchange = self._pending.get(origin) if origin is not None else None
        return None if exchange is None or isinstance(exchange.caller, Unheard) else exchange

    def _told(self, frame: Frame, origin: int | None) -> None:
        try:
            if frame.method == methods.PROGRESS:
                self._progressed(open_object(frame.params))
            elif frame.method == methods.CANCELLED:
                params = open_object(frame.params)
                self._withdraw(self._questions.pop(id_key(params.get("requestId", NOTHING)), None), params)
            else:
                self._listener.told(self, frame.method or "", frame.params, self._call(origin))
        except Malformed:
            return  # a notification has no answer

    def _withdraw(self, question: Question | None, params: Object) -> None:
        if question is not None and question.withdrawn is not None:
            question.withdrawn(question, params)

    def _progressed(self, params: Object) -> None:
        exchange = self._pending.get(number(bytes(params.get("progressToken", b""))))
        if exchange is not None:
            exchange.extend(self.heard, LONGEST)
            exchange.caller.progressed(exchange, params)

    def oversized(self, head: bytes, tail: bytes, size: int, origin: int | None = None) -> None:
        exchange = self._pending.pop(_whose(head, tail) if origin is None else origin, None)
        if exchange is not None:
            reason = f"its answer was over the size limit of {size // (1024 * 1024)} MiB"
            failure = Failure(self.name, reason, may_have_executed=True, retryable=False, code=errors.TOO_LARGE)
            exchange.caller.failed(exchange, failure)

    def garbled(self, line: bytes) -> None:
        """A line that is no frame: if it was to be an answer, its caller need not wait for another."""
        self.undelivered(_whose(line[:4096], line[-4096:]), "its answer was not valid JSON-RPC", sent=True)

    def undelivered(self, id: int, reason: str, *, sent: bool, advice: str = "") -> None:
        exchange = self._pending.pop(id, None)
        if exchange is not None:
            exchange.caller.failed(exchange, Failure(self.name, reason, may_have_executed=sent, advice=advice))

    def expired(self, ids: Iterable[int]) -> None:
        """The session is over: what met that was not executed, and is sent once more in the next one."""
        reason = "its session had expired"
        for exchange in [self._pending.pop(id) for id in ids if id in self._pending]:
            if not self._give_back(exchange):
                exchange.caller.failed(exchange, Failure(self.name, reason))
        self.lost(reason, Lost(reason, keep=True))

    def lost(self, reason: str, cause: Lost | GaveUp | None = None) -> None:
        """The other side is gone: every call in flight gets to know; what was not begun to be written may try again."""
        if not self.over:
            self.over = True
            self.cause = cause
            self.gone.set_result(reason)
            self.fail_all(reason, give_back=True)
            questions, self._questions = self._questions, {}
            for question in questions.values():
                self._withdraw(question, {"reason": quote(f"{self.name} is gone")})

    def fail_all(self, reason: str, code: int = errors.UPSTREAM, *, give_back: bool = False) -> None:
        pending, self._pending = self._pending, {}
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, float("inf")
        for exchange in pending.values():
            sent = self.channel is None or not self.channel.withdraw(exchange)
            if sent or not give_back or not self._give_back(exchange):
                exchange.caller.failed(exchange, Failure(self.name, reason, may_have_executed=sent, code=code))

    def _give_back(self, exchange: Exchange) -> bool:
        """Have a call sent again in the next connection, once."""
        if exchange.resent or isinstance(exchange.caller, Unheard):
            return False
        exchange.resent = True
        self._listener.returned(exchange)
        return True

    # Deadlines: one timer, set for the earliest

    def _watch(self, deadline: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        self._alarm, self._alarm_at = None, float("inf")
        now = monotonic()
        for exchange in [exchange for exchange in self._pending.values() if exchange.overdue(now)]:
            self._expire(exchange)
        # A paused call has no deadline now; look again before long.
        rest = [max(exchange.deadline, now + 0.05) for exchange in self._pending.values()]
        if rest:
            self._watch(min(rest))

    def _expire(self, exchange: Exchange) -> None:
        if self._pending.pop(exchange.upstream_id, None) is None:
            return  # one that was due at the same moment has ended the connection, and this call with it
        channel = self.channel
        what = f" to {exchange.method}" if isinstance(exchange.caller, Unheard) else ""
        reason = f"no answer{what} within {exchange.timeout:g} s"
        if channel is None or channel.withdraw(exchange):
            exchange.caller.failed(exchange, Failure(self.name, f"{reason}: it does not read its input"))
            return
        failure = Failure(
            self.name,
            reason,
            may_have_executed=True,
            advice='It can be tried again now; a longer "timeout" in its entry gives it more time.',
        )
        if channel.is_writing(exchange):
            exchange.caller.failed(exchange, failure)
            self.lost("stopped reading in the middle of a request")
            return
        if exchange.method != methods.INITIALIZE:  # the one request that may not be cancelled
            words = {"requestId": Raw(b"%d" % exchange.upstream_id), "reason": quote(reason)}
            self.write(notification(methods.CANCELLED, seal(words)))
        exchange.caller.failed(exchange, failure)


def _whose(head: bytes, tail: bytes) -> int:
    """The id of the request a message answers, as far as its ends tell; 0 is nobody's."""
    found = _FIRST.match(head) or (_LAST.search(tail) if _REPLY.match(head) else None)
    return int(found[1]) if found else 0
