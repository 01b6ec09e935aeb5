"""Send answers over ASGI: a body, or a stream of events that ends when its client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from gateway.protocol import errors
from gateway.protocol.frames import NULL, error
from servers.http.link import Headers, Link, Receive
from servers.http.streams import Stream

QUICK = 0.05
"""Seconds an answer may take before somebody watches whether the client is still there."""
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


async def body(link: Link, status: int, content: bytes = b"", headers: Headers = (JSON,)) -> None:
    headers = (*headers, (b"content-length", b"%d" % len(content)))
    if link.whole(status, headers, content):
        return
    await link.send({"type": "http.response.start", "status": status, "headers": headers})
    await link.send({"type": "http.response.body", "body": content})


async def refuse(
    link: Link, status: int, code: int, message: str, *, id: bytes = NULL, data: object = None, headers: Headers = ()
) -> None:
    """A status with a JSON-RPC error that says why."""
    await body(link, status, error(id, errors.error_object(code, message, data)), (JSON, *headers))


async def dismiss(link: Link, status: int, code: int, message: str, linger: int) -> None:
    """Refuse a request whose body is still coming: who closes at once is not heard by who still sends."""
    content = error(NULL, errors.error_object(code, message))
    headers = [JSON, (b"connection", b"close"), (b"content-length", b"%d" % len(content))]
    await link.send({"type": "http.response.start", "status": status, "headers": headers})
    await link.send({"type": "http.response.body", "body": content, "more_body": True})
    while linger > 0:
        received = await link.receive()
        if not received.get("more_body"):
            break
        linger -= len(received.get("body", b""))
    await link.send({"type": "http.response.body", "body": b""})


async def crowded(link: Link) -> None:
    later = (b"retry-after", b"60")
    await refuse(link, 503, errors.INTERNAL_ERROR, "Too many sessions are open", headers=(later,))


@asynccontextmanager
async def watching(receive: Receive, stream: Stream) -> AsyncGenerator[asyncio.Task[None]]:
    """A task that ends when the client goes, and wakes whoever waits for the stream."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        stream.wake()

    task = asyncio.ensure_future(watch())
    try:
        yield task
    finally:
        task.cancel()


async def answer(
    stream: Stream,
    link: Link,
    *,
    status: Callable[[bytes], int] = lambda _: 200,
    headers: Headers = (),
    primed: bool = False,
    events: bool = True,
) -> bool:
    """A body if nothing but the answer comes, else a stream; false if the client went before its end."""
    if not await stream.ready(QUICK) or not (events or stream.ended):
        async with watching(link.receive, stream) as gone:
            if events:
                await stream.ready(COMMIT)
            else:
                await stream.over(gone)
            if gone.done():
                return False
    frame = stream.only_answer(drop=not events)
    if frame is None and events:
        return await follow(stream, link, headers=headers, primed=primed)
    content = frame if frame is not None else b""
    await body(link, status(content) if content else 202, content, (JSON, *headers))
    return True


async def follow(
    stream: Stream,
    link: Link,
    *,
    headers: Headers = (),
    primed: bool = False,
    first: Iterable[bytes] = (),
) -> bool:
    """Send the stream until its end; false if the client went before, or another response took it over."""
    reader = stream.claim(link.cut)
    await link.send({"type": "http.response.start", "status": 200, "headers": [*_EVENTS, *headers]})
    opening = [*first, *((stream.prime(),) if primed else ())]
    async with watching(link.receive, stream) as gone:
        for chunk in opening or (b": here\n\n",):
            await link.send({"type": "http.response.body", "body": chunk, "more_body": True})
        while not gone.done() and stream.reader is reader:
            chunk = stream.take()
            if chunk is None:
                if stream.ended:
                    break
                chunk = b"" if await stream.ready(PING) else b": alive\n\n"
            if chunk:
                await link.send({"type": "http.response.body", "body": chunk, "more_body": True})
        complete = not gone.done() and stream.reader is reader
    if stream.reader is reader:
        stream.release()
    await link.send({"type": "http.response.body", "body": b""})
    return complete
