"""Calls of stateless clients that wait, unanswered upstream, for what only the client can say."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Protocol

from msgspec import Raw

from gateway.exchange import Caller, Exchange, Failure, Port, Question, refusal
from gateway.protocol import errors
from gateway.protocol.frames import Frame, Malformed, Object, encode, quote, seal
from gateway.protocol.versions import Era

OURS = "kimi-gateway."
"""How each `requestState` of ours begins, for whoever reads a log; a gateway behind this one issues its own."""
PATIENCE = 600.0
"""Seconds a client has for its retry."""
LIMIT = 10_000
RETRY = ("inputResponses", "requestState", "_meta")
"""Parameters that differ between a request and its retry."""


class Timer(Protocol):
    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]


class Parked:
    """One call between `input_required` and its retry; meanwhile it is the caller, and keeps what comes."""

    def __init__(self, exchange: Exchange, party: Hashable) -> None:
        self.exchange = exchange
        self.party = party
        self.digest = digest(exchange.params)
        self.timer: Timer | None = None
        self.asked_for: dict[str, Question] = {}
        """What the client was asked, by the key it answers under."""
        self.waiting: list[Question] = []
        """What was asked after that: it waits for the retry."""
        self._outcome: Callable[[Caller], None] | None = None

    def put(self, question: Question) -> None:
        """One more thing to ask at the next chance."""
        question.withdrawn = self._withdrawn
        self.waiting.append(question)

    def ask_all(self) -> bytes:
        """The `inputRequests` of all that waits."""
        requests: Object = {}
        for question in self.waiting:
            key = f"{len(self.asked_for) + 1}"
            self.asked_for[key] = question
            wanted = {"method": quote(question.method)}
            if question.params:
                wanted["params"] = question.params
            requests[key] = Raw(seal(wanted))
        self.waiting = []
        return seal(requests)

    def resume(self, retry: Exchange, responses: Object) -> None:
        """The client is back under a new id: hand it what has happened, and the upstream what it says."""
        exchange = self.exchange
        exchange.caller, exchange.id, exchange.key, exchange.token = retry.caller, retry.id, retry.key, retry.token
        exchange.resume(monotonic())
        if self._outcome is not None:
            self._outcome(retry.caller)
            return
        questions = [*self.waiting]
        for name, question in self.asked_for.items():
            if name in responses:
                question.answered(Frame(result=responses[name]))
            else:
                questions.append(question)
        for question in questions:
            # Whoever holds the call by then: the first question may have parked it again.
            exchange.caller.asked(question, exchange)

    def drop(self, reason: str) -> None:
        """Nobody will come back for it."""
        for question in (*self.asked_for.values(), *self.waiting):
            question.refuse(errors.INTERNAL_ERROR, reason)
        if self.exchange.port is not None and self._outcome is None:
            self.exchange.port.cancel(self.exchange, {"reason": quote(reason)})

    def _withdrawn(self, question: Question, params: Object) -> None:
        self.asked_for = {key: kept for key, kept in self.asked_for.items() if kept is not question}
        if question in self.waiting:
            self.waiting.remove(question)

    # What the upstream says meanwhile (the exchange's caller)

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        self._outcome = lambda caller: caller.finished(exchange, result, era)

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        self._outcome = lambda caller: caller.input_required(exchange, result)

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        self._outcome = lambda caller: caller.refused(exchange, error, era)

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        self._outcome = lambda caller: caller.failed(exchange, failure)

    def progressed(self, exchange: Exchange, params: Object) -> None:
        return

    def asked(self, question: Question, exchange: Exchange | None) -> None:
        refused = refusal(question, self.exchange.client.capabilities)
        if refused is not None:
            question.refuse(*refused)
        else:
            self.put(question)

    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        return


class Parking:
    """The one table of parked calls, by a key that only the client who got it can know."""

    def __init__(self, later: Later, *, patience: float = PATIENCE) -> None:
        self._later = later
        self._patience = patience
        self._parked: dict[str, Parked] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, exchange: Exchange, party: Hashable, question: Question) -> bytes | None:
        """Keep the call; the result its client gets for now, or `None` where there is no room."""
        if len(self._parked) >= LIMIT:
            return None
        parked = Parked(exchange, party)
        parked.put(question)
        asked = parked.ask_all()
        exchange.caller = parked
        exchange.pause(monotonic())
        state = OURS + secrets.token_urlsafe(32)
        self._parked[state] = parked
        parked.timer = self._later(self._patience, lambda: self._expire(state))
        return encode({"resultType": "input_required", "inputRequests": Raw(asked), "requestState": state})

    def holds(self, state: str) -> bool:
        """Whether this state is one of ours: any other is an upstream's and none of our business."""
        return state in self._parked

    def claim(self, state: str, party: Hashable, server: str, method: str, params: Object) -> Parked | None:
        """The call a retry is about, once; `None` for any other caller, method or arguments."""
        parked = self._parked.get(state)
        if parked is None or parked.party != party or parked.exchange.server != server:
            return None
        if parked.exchange.method != method or parked.digest != digest(params):
            return None
        del self._parked[state]
        if parked.timer is not None:
            parked.timer.cancel()
        return parked

    def leave(self, party: Hashable) -> None:
        """A client is gone, and with it all that waited for it."""
        for state in [state for state, parked in self._parked.items() if parked.party == party]:
            self._drop(state, "the client disconnected")

    def _expire(self, state: str) -> None:
        self._drop(state, f"the client did not answer within {self._patience:g} s")

    def _drop(self, state: str, reason: str) -> None:
        parked = self._parked.pop(state, None)
        if parked is not None:
            if parked.timer is not None:
                parked.timer.cancel()
            parked.drop(reason)


def unknown_state() -> Malformed:
    """What a retry of a call gets that waits nowhere, or not for this client."""
    return Malformed(errors.INVALID_PARAMS, "Invalid params: requestState is unknown or has expired")


def digest(params: Object) -> bytes:
    """What a request and its retry share, however each is spelled."""
    hashed = hashlib.sha256()
    for key in sorted(params):
        if key not in RETRY:
            hashed.update(json.dumps([key, _canonical(bytes(params[key]))], sort_keys=True).encode())
    return hashed.digest()


def _canonical(raw: bytes) -> object:
    def number(spelled: str) -> list[str]:
        return ["number", spelled]

    try:
        return json.loads(raw, parse_int=number, parse_float=number)
    except (ValueError, RecursionError):
        return raw.decode(errors="replace")
