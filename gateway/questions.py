"""What upstreams ask of one client, under ids of ours until it answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Protocol

from msgspec import Raw

from gateway.exchange import Exchange, Question
from gateway.protocol import errors, methods
from gateway.protocol.frames import (
    NOTHING,
    Frame,
    Object,
    id_key,
    notification,
    open_object,
    request,
    seal,
)


class Write(Protocol):
    def __call__(self, frame: bytes, about: bytes | None = None) -> None: ...


class Questions:
    """The open questions of one client, by the id it was asked under."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._open: dict[bytes, tuple[Question, bytes | None]] = {}
        self._ids = count(1)

    def ask(self, question: Question, meanwhile: list[Exchange], about: Exchange | None) -> None:
        """Put it to the client; the clocks of the calls it may belong to stand still."""
        key = b"%d" % next(self._ids)
        params = self._under_token(question, key) if question.params else b""
        now = monotonic()
        for exchange in meanwhile:
            exchange.pause(now)
        question.asked = meanwhile
        question.withdrawn = self._withdrawn(key)
        call = about.key if about is not None else None
        self._open[key] = question, call
        self._write(request(key, question.method, params), call)

    def answered(self, frame: Frame) -> None:
        question, _ = self._open.pop(id_key(frame.id), (None, None))
        if question is None:
            return
        _resume(question)
        question.answered(frame)

    def progressed(self, params: Object) -> None:
        """The client's progress on an answer, back under the upstream's own token."""
        question, _ = self._open.get(id_key(params.get("progressToken", NOTHING)), (None, None))
        if question is not None and question.token is not None:
            params["progressToken"] = question.token
            question.port.write(notification(methods.PROGRESS, seal(params)))

    def close(self) -> None:
        """The client is gone: nobody will answer."""
        opened, self._open = self._open, {}
        for question, _ in opened.values():
            _resume(question)
            question.refuse(errors.INTERNAL_ERROR, "The client disconnected before it answered")

    def _withdrawn(self, key: bytes) -> Callable[[Question, Object], None]:
        def withdrawn(question: Question, params: Object) -> None:
            _, call = self._open.pop(key, (None, None))
            _resume(question)
            self._write(notification(methods.CANCELLED, seal({**params, "requestId": Raw(key)})), call)

        return withdrawn

    def _under_token(self, question: Question, key: bytes) -> bytes | Raw:
        opened = open_object(question.params)
        if "_meta" not in opened:
            return question.params
        meta = open_object(opened["_meta"])
        if "progressToken" not in meta:
            return question.params
        question.token = meta["progressToken"]
        meta["progressToken"] = Raw(key)
        opened["_meta"] = Raw(seal(meta))
        return seal(opened)


def _resume(question: Question) -> None:
    now = monotonic()
    for exchange in question.asked:
        exchange.resume(now)
