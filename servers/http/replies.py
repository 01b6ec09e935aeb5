"""Answer a request: with a body, or a stream of events that ends when its client goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.protocol import errors
from gateway.protocol.frames import NULL, error
from servers.http.link import Headers, Link, Send
from servers.http.streams import Stream

COMMIT = 5.0
"""Seconds after which a response begins though nothing has come: whoever waits sees that it is alive."""
PING = 15.0
"""Seconds of silence after which an open stream says that it is alive."""

JSON = (b"content-type", b"application/json")
_EVENTS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_CODES: dict[int, int] = {
    errors.PARSE_ERROR: 400,
    errors.INVALID_REQUEST: 400,
    errors.INVALID_PARAMS: 400,
    errors.HEADER_MISMATCH: 400,
    errors.MISSING_CAPABILITY: 400,
    errors.UNSUPPORTED_VERSION: 400,
    errors.METHOD_NOT_FOUND: 404,
}


def status_of(code: int) -> int:
    """The HTTP status that the stateless era gives an error."""
    return _CODES.get(code, 200)


def refuse(
    link: Link, status: int, code: int, message: str, *, id: bytes = NULL, data: object = None, headers: Headers = ()
) -> None:
    """A status with a JSON-RPC error that says why."""
    link.answer(status, (JSON, *headers), error(id, errors.error_object(code, message, data)))


def crowded(link: Link) -> None:
    later = (b"retry-after", b"60")
    refuse(link, 503, errors.INTERNAL_ERROR, "Too many sessions are open", headers=(later,))


class Reply:
    """The answer to one request: a body if nothing but that comes, and in time; else a stream."""

    __slots__ = ("_done", "_events", "_headers", "_link", "_primed", "_status", "_stream")

    def __init__(
        self,
        stream: Stream,
        link: Link,
        done: Callable[[bool], None],
        *,
        status: Callable[[bytes], int] = lambda _: 200,
        headers: Headers = (),
        primed: bool = False,
        events: bool = True,
    ) -> None:
        """`done` hears at the end whether the client was there for all of it."""
        self._stream = stream
        self._link = link
        self._done = done
        self._status = status
        self._headers = headers
        self._primed = primed
        self._events = events

    def begin(self) -> None:
        """Answer now, or as soon as there is something to say."""
        if self._stream.ended or self._stream.waiting:
            self._moved()
        else:
            self._stream.listener = self._moved
            self._link.attend(COMMIT, self._late, self._left)

    def _moved(self) -> None:
        if self._stream.ended:
            frame = self._stream.only_answer(drop=not self._events)
            if frame is not None or not self._events:
                self._whole(frame or b"")
                return
        if self._events:
            self._flow()

    def _late(self) -> None:
        if self._events:
            self._flow()

    def _left(self) -> None:
        self._stream.listener = None
        self._done(False)

    def _whole(self, content: bytes) -> None:
        self._stream.listener = None
        status = self._status(content) if content else 202
        self._link.answer(status, (JSON, *self._headers), content)
        self._done(True)

    def _flow(self) -> None:
        self._stream.listener = None
        follow(self._stream, self._link, self._done, headers=self._headers, primed=self._primed)


def follow(
    stream: Stream,
    link: Link,
    done: Callable[[bool], None],
    *,
    headers: Headers = (),
    primed: bool = False,
    first: Iterable[bytes] = (),
) -> None:
    """Send the stream until its end; `done` hears whether it was not left, nor taken over by another response."""
    reader = stream.claim(link.cut)

    async def work(send: Send) -> None:
        complete = False
        try:
            opening = [*first, *((stream.prime(),) if primed else ())]
            for chunk in opening or (b": here\n\n",):
                await send(chunk)
            while not link.gone and stream.reader is reader:
                chunk = stream.take()
                if chunk is not None:
                    await send(chunk)
                elif stream.ended:
                    break
                else:
                    link.attend(PING, stream.wake, stream.wake)
                    await stream.moved()
                    if not stream.waiting and not stream.ended and not link.gone:
                        await send(b": alive\n\n")
            complete = not link.gone and stream.reader is reader
        finally:
            if stream.reader is reader:
                stream.release()
            done(complete)

    link.stream((*_EVENTS, *headers), work)
