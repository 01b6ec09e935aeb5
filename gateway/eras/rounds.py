"""A stateless upstream's `input_required`, put to a client of the session era and then retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Raw

from gateway.exchange import Exchange, Question, refusal
from gateway.protocol import errors
from gateway.protocol.frames import NOTHING, Frame, Object, open_object, seal, text
from gateway.questions import Questions

ROUNDS = 10
MOMENT = 0.05
"""Seconds before a request is sent again that only has to wait."""


class Rounds:
    """Asks the client all that an upstream wants to know, and sends the request again under a new id."""

    def __init__(
        self, questions: Questions, retry: Callable[[Exchange], None], refuse: Callable[[Exchange, Raw], None]
    ) -> None:
        self._questions = questions
        self._retry = retry
        self._refuse = refuse

    def begin(self, exchange: Exchange, result: Raw) -> None:
        """One round."""
        exchange.rounds += 1
        if exchange.rounds > ROUNDS:
            self._fail(exchange, errors.INTERNAL_ERROR, f"{exchange.server} asked for input {ROUNDS} times in one call")
            return
        opened = open_object(result)
        params = exchange.params
        params.pop("inputResponses", None)
        params.pop("requestState", None)
        if "requestState" in opened:
            params["requestState"] = opened["requestState"]
        wanted = {key: open_object(raw) for key, raw in open_object(opened.get("inputRequests", b"")).items()}
        if not wanted:
            asyncio.get_running_loop().call_later(MOMENT, self._retry, exchange)
            return
        answers: Object = dict.fromkeys(wanted, NOTHING)
        asked = [_InputRequest(self, exchange, key, request, answers) for key, request in wanted.items()]
        for question in asked:
            if refusal(question, exchange.client.capabilities) is not None:
                message = f"{exchange.server} needs {question.method} of the client"
                self._fail(exchange, errors.MISSING_CAPABILITY, message)
                return
        for question in asked:
            self._questions.ask(question, [], exchange)

    def answered(self, exchange: Exchange, key: str, answers: Object, frame: Frame) -> None:
        if frame.error:
            self._refuse(exchange, frame.error)
            return
        answers[key] = frame.result
        if all(answers.values()):
            exchange.params["inputResponses"] = Raw(seal(answers))
            self._retry(exchange)

    def _fail(self, exchange: Exchange, code: int, message: str) -> None:
        self._refuse(exchange, Raw(errors.error_object(code, message)))


class _InputRequest(Question):
    """One entry of `inputRequests`, put to the client as a request."""

    __slots__ = ("answers", "exchange", "key", "rounds")

    def __init__(self, rounds: Rounds, exchange: Exchange, key: str, wanted: Object, answers: Object) -> None:
        assert exchange.port is not None
        super().__init__(exchange.port, b"", text(wanted.get("method")) or "", wanted.get("params", NOTHING))
        self.rounds = rounds
        self.exchange = exchange
        self.key = key
        self.answers = answers

    def answered(self, answer: Frame) -> None:
        self.rounds.answered(self.exchange, self.key, self.answers, answer)
