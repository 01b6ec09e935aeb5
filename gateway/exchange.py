"""One request on its way to one upstream, and all that may happen before its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Raw

from gateway.protocol import errors, methods
from gateway.protocol.frames import Frame, Malformed, Object, error, open_object, result, text
from gateway.protocol.versions import Era


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the gateway itself could not bring a request to its answer."""

    server: str
    reason: str
    may_have_executed: bool = False
    retryable: bool = True
    code: int = errors.UPSTREAM
    advice: str = ""

    @property
    def message(self) -> str:
        fate = "was sent and may have been executed" if self.may_have_executed else "was not sent"
        return f"{self.server}: {self.reason}. The call {fate}. {self.advice or self._when}"

    @property
    def _when(self) -> str:
        """When to try again, where nobody knows it better."""
        if not self.retryable:
            return "Trying again does not help."
        return "Try again in a moment." if self.code == errors.SHUTDOWN else "It can be tried again now."

    def as_tool_result(self) -> bytes:
        return errors.tool_error(self.message)

    def as_error(self) -> bytes:
        data = {
            "server": self.server,
            "reason": self.reason,
            "retryable": self.retryable,
            "mayHaveExecuted": self.may_have_executed,
        }
        return errors.error_object(self.code, self.message, data)


class Port(Protocol):
    """One upstream connection, as an exchange sees it."""

    @property
    def name(self) -> str: ...

    def cancel(self, exchange: Exchange, params: Object) -> None:
        """Stop waiting for it, and tell the upstream in these words if it was sent."""
        ...

    def write(self, frame: bytes) -> None:
        """Send a frame that expects no answer here: a notification, or the answer to a question."""
        ...


class Client(msgspec.Struct, frozen=True, gc=False):
    """What whoever asks has said of itself, as JSON text."""

    capabilities: bytes = b"{}"
    level: str | None = None
    """The lowest level of log messages it wants."""

    @property
    def askable(self) -> bool:
        """Whether there is anything it could be asked."""
        return any(capability in open_object(self.capabilities) for capability in methods.ASKS_FOR.values())


NOBODY = Client()
"""The gateway itself, which can be asked for nothing."""


class Caller(Protocol):
    """The side that asked, as an exchange sees it."""

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        """The answer, spelled as this era does."""
        ...

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        """A stateless upstream wants something first; then it is to be asked again."""
        ...

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        """The upstream's own error, spelled as this era does."""
        ...

    def failed(self, exchange: Exchange, failure: Failure) -> None: ...

    def progressed(self, exchange: Exchange, params: Object) -> None: ...

    def asked(self, question: Question, exchange: Exchange | None) -> None:
        """An upstream wants something of whoever asked; the exchange is the call it belongs to, where that is known."""
        ...

    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        """A notification that concerns whoever asked, like a log message."""
        ...


class Exchange(msgspec.Struct, eq=False):
    """A request, opened one level: handed from the client's reader to the upstream's and back, never a task."""

    caller: Caller
    id: bytes
    method: str
    params: Object
    key: bytes = b""
    """What the caller keeps it under: its id, however that was spelled."""
    bare: bool = False
    """It came without params, and goes without."""
    meta: Object | None = None
    token: Raw | None = None
    server: str = ""
    tool: str = ""
    client: Client = NOBODY
    rounds: int = 0
    port: Port | None = None
    resent: bool = False
    """It met the end of its session and was sent once more."""
    upstream_id: int = 0
    started: float = 0.0
    timeout: float | None = None
    deadline: float = float("inf")
    by_our_uri: bool = False
    """Its client asked for a resource under a URI of ours."""
    questions: int = 0
    """Those to the client that are open now."""
    paused_at: float = 0.0
    stood_still: float = 0.0
    """Seconds that questions to the client have taken."""

    def begin(self, now: float, timeout: float) -> None:
        """Start the clock."""
        self.started, self.timeout, self.deadline = now, timeout, now + timeout

    def extend(self, now: float, longest: float) -> None:
        """Progress moves the deadline, but never past `longest` after the start."""
        if self.timeout is not None:
            latest = self.started + max(self.timeout, longest) + self.stood_still
            self.deadline = min(now + self.timeout, latest)

    def pause(self, now: float) -> None:
        """A question to the client is open: its time is not the upstream's."""
        if not self.questions:
            self.paused_at = now
        self.questions += 1

    def resume(self, now: float) -> None:
        if self.questions:
            self.questions -= 1
            if not self.questions:
                waited = now - self.paused_at
                self.deadline += waited
                self.stood_still += waited

    def overdue(self, now: float) -> bool:
        return not self.questions and now >= self.deadline

    def __repr__(self) -> str:
        return f"<Exchange {self.method} {self.tool} {self.id.decode(errors='replace')} as {self.upstream_id}>"


class Question:
    """A request of an upstream's, on its way to the client that is to answer it."""

    __slots__ = ("asked", "done", "id", "method", "params", "port", "token", "withdrawn")

    def __init__(
        self, port: Port, id: bytes, method: str, params: Raw, done: Callable[[Question], None] = lambda _: None
    ) -> None:
        self.port = port
        self.id = id
        self.method = method
        self.params = params
        self.token: Raw | None = None
        self.asked: list[Exchange] = []
        """The calls whose clocks stand still meanwhile."""
        self.done = done
        self.withdrawn: Callable[[Question, Object], None] | None = None
        """Told by whoever holds the question: the upstream no longer wants an answer, in these words."""

    def answered(self, answer: Frame) -> None:
        """The client's answer, back to who asked under the id it asked with."""
        self.done(self)
        if answer.result:
            self.port.write(result(self.id, answer.result))
        else:
            self.port.write(error(self.id, answer.error))

    def refuse(self, code: int, message: str) -> None:
        """An answer of our own, at once."""
        self.answered(Frame(error=Raw(errors.error_object(code, message))))


def refusal(question: Question, capabilities: bytes) -> tuple[int, str] | None:
    """Why a client with these capabilities cannot be asked this, as an error's code and message."""
    needed = methods.ASKS_FOR.get(question.method)
    if needed is None:
        return None
    try:
        declared = open_object(capabilities)
        if needed not in declared:
            return errors.METHOD_NOT_FOUND, f"The client does not support {question.method}"
        details = open_object(declared[needed])
        params = open_object(question.params)
    except Malformed as malformed:
        return malformed.code, malformed.message
    if question.method == methods.ELICITATION and text(params.get("mode")) == "url" and "url" not in details:
        return errors.INVALID_PARAMS, "The client does not support elicitation in url mode"
    if question.method == methods.SAMPLING and "tools" in params and "tools" not in details:
        return errors.INVALID_PARAMS, "The client does not support tools in sampling"
    return None
