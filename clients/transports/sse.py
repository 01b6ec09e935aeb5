"""The HTTP+SSE transport of 2024-11-05 as a channel: one stream of events in, one POST per message out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
from httpx_sse import aconnect_sse
from msgspec import Raw

from clients.causes import GaveUp, Lost
from clients.transports import web
from clients.transports.channel import Noise, Receiver
from clients.transports.events import Event, Events, Overlong
from clients.transports.outbox import Message, Outbox
from configs.models import Server
from gateway.exchange import Exchange
from gateway.protocol import errors, headers, methods
from gateway.protocol.frames import Frame, Malformed, decode

logger = logging.getLogger("kimi_gateway.sse")

ASIDE = 60.0
"""Seconds for a message to be taken: its answer comes elsewhere."""
_BROKEN = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, TimeoutError, web.Undecodable)


class SseChannel:
    """One stream of one server, and the address it gave for what we send."""

    def __init__(self, server: Server, receiver: Receiver, *, limit: int) -> None:
        self.noise = Noise()
        self._server = server
        self._receiver = receiver
        self._limit = limit
        self._version = ""
        self._headers: dict[str, str] = {}
        self._url = server.url
        self._client: httpx.AsyncClient | None = None
        self._outbox = Outbox(f"sse:{server.name}", self._deliver, self._lose)
        self._over = False
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Where to send messages; or why there is no such address."""

    @property
    def pid(self) -> int | None:
        return None

    @property
    def tail(self) -> str:
        return ""

    async def open(self, project: Path) -> None:
        """Open the stream, and wait for the address it gives.

        Raises:
            GaveUp: it cannot be had as configured.
            Lost: not now.
        """
        self._url = web.check_url(self._server)
        self._headers = {**web.check_headers(self._server), "accept-encoding": "gzip"}
        self._client = httpx.AsyncClient(
            verify=web.trust(self._url) or True,
            timeout=httpx.Timeout(None, connect=web.CONNECT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
            trust_env=False,
            proxy=web.proxy_for(self._url),
        )
        self._outbox.start(self._listen(), f"sse:{self._server.name}:listen")
        await asyncio.shield(self._endpoint)

    def negotiated(self, version: str) -> None:
        self._version = version

    def listed(self, tools: Sequence[bytes]) -> Sequence[bytes]:
        return tools

    def send(self, frame: bytes, exchange: Exchange | None = None) -> None:
        if self._over or self._client is None:
            return
        if exchange is not None and exchange.method == methods.DISCOVER:
            # This transport is older than the era it asks for: a server that answers here could not ask back.
            self._outbox.start(self._decline(exchange.upstream_id), f"sse:{self._server.name}")
            return
        self._outbox.send(frame, exchange, most=self._limit)

    async def _decline(self, id: int) -> None:
        words = errors.error_object(errors.METHOD_NOT_FOUND, "not over the SSE transport")
        self._receiver.receive(Frame(jsonrpc="2.0", id=b"%d" % id, error=Raw(words)))

    def withdraw(self, exchange: Exchange) -> bool:
        return self._outbox.withdraw(exchange)

    def is_writing(self, exchange: Exchange) -> bool:
        return False  # half a request costs its own connection only

    async def close(self) -> None:
        self._over = True
        await self._outbox.close()
        if self._client is not None:
            await self._client.aclose()
        if not self._endpoint.done():
            self._endpoint.cancel()
        elif not self._endpoint.cancelled():
            self._endpoint.exception()  # seen, even if nobody waited for it

    # The stream

    async def _listen(self) -> None:
        try:
            for _ in range(web.HOPS):
                if await self._stream():
                    raise Lost("closed its event stream")
            raise GaveUp("redirects in a circle", "Correct `url` in the entry.")
        except (GaveUp, Lost) as cause:
            self._lose(cause)
        except _BROKEN as failure:
            self._lose(self._why(failure))

    async def _stream(self) -> bool:
        """Read the stream to its end; `False` if there is none here, but a redirect."""
        assert self._client is not None
        async with aconnect_sse(self._client, "GET", self._url, headers=_raw(self._headers)) as source:
            response = source.response
            location = response.headers.get("location")
            if response.status_code in web.REDIRECTS and location is not None:
                self._url = web.redirected(self._url, location)
                return False
            if response.status_code != 200:
                raise await self._refusal(response)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                raise Lost(f"does not answer with an event stream at its url (but with {kind or 'nothing'})")
            decoder = web.Decoder(response.headers)
            events = Events(self._limit)
            async for chunk in response.aiter_raw():
                for piece in decoder.feed(chunk):
                    for event in events.feed(piece):
                        self._take(event)
        return True

    async def _refusal(self, response: httpx.Response) -> Lost | GaveUp:
        status = response.status_code
        if status in (401, 403):
            return web.needs_auth(status, response.headers.get("www-authenticate"))
        words = self._said(status, await _excerpt(response))
        return Lost(words, retry_after=web.retry_after(response.headers.get("retry-after")))

    def _take(self, event: Event | Overlong) -> None:
        if isinstance(event, Overlong):
            self.noise.note(event.head)
            self._receiver.oversized(event.head, event.tail, self._limit)
        elif event.type == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._checked(event.data.decode(errors="replace").strip()))
        elif event.type == "message":
            try:
                message = decode(event.data)
            except Malformed:
                self.noise.note(event.data)
                return
            self._receiver.receive(message)

    def _checked(self, endpoint: str) -> str:
        try:
            target = web.joined(self._url, endpoint)
            same, elsewhere = web.origin(target) == web.origin(self._url), web.place(target)
        except ValueError:
            target, same, elsewhere = "", False, "no address"
        if not same:
            raise GaveUp(
                f"wants its messages sent to {elsewhere}, which is another origin than {web.place(self._url)}",
                "If it stands behind a proxy, have it announce a path only.",
            )
        return target

    # One message

    async def _deliver(self, message: Message) -> None:
        try:
            async with asyncio.timeout(ASIDE):
                await self._post(message)
        except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
            self._cut_off(message, self._why(failure))
        except (GaveUp, Lost) as cause:
            self._cut_off(message, cause)
        except _BROKEN as failure:
            self._undelivered(message, self._why(failure).reason, sent=message.begun)

    async def _post(self, message: Message) -> None:
        assert self._client is not None
        target = self._endpoint.result()
        for _ in range(web.HOPS):
            wanted = {**self._headers, "content-type": "application/json", "content-length": str(len(message.frame))}
            if self._version:
                wanted[headers.VERSION.lower()] = self._version
            request = self._client.build_request("POST", target, headers=_raw(wanted), content=_body(message))
            response = await self._client.send(request, stream=True)
            try:
                location = response.headers.get("location")
                if response.status_code in web.REDIRECTS and location is not None:
                    target = web.redirected(target, location)
                    continue
                await self._posted(message, response)
                return
            finally:
                await response.aclose()
        raise GaveUp("redirects in a circle", "Correct `url` in the entry.")

    async def _posted(self, message: Message, response: httpx.Response) -> None:
        status = response.status_code
        body = await _excerpt(response)
        if 200 <= status < 300:
            return
        if status in (401, 403):
            raise web.needs_auth(status, response.headers.get("www-authenticate"))
        if status in (404, 410):
            # The stream lives, but its session does not: only a new stream helps, and the message was not executed.
            self._expire(message)
            return
        try:
            refusal = decode(body)
        except Malformed:
            refusal = None
        if isinstance(refusal, Frame) and refusal.error and message.id is not None:
            refusal.id = b"%d" % message.id
            self._receiver.receive(refusal)
        else:
            self._undelivered(message, self._said(status, body), sent=status >= 500)

    # What becomes of it

    def _said(self, status: int, body: bytes) -> str:
        return self._server.masked(web.status_words(status, body))

    def _why(self, failure: BaseException) -> Lost | GaveUp:
        _, host, port = web.origin(self._url)
        if isinstance(failure, httpx.ConnectTimeout):
            return web.unreachable(TimeoutError(), host, port)
        if isinstance(failure, httpx.ConnectError):
            return _connecting(failure, host, port)
        if isinstance(failure, TimeoutError):
            return Lost(f"did not take a message within {ASIDE:g} s")
        if isinstance(failure, httpx.RemoteProtocolError | httpx.ReadError):
            return Lost("the connection broke")
        return Lost(str(failure) or type(failure).__name__)

    def _undelivered(self, message: Message, reason: str, *, sent: bool, advice: str = "") -> None:
        if message.id is not None:
            self._receiver.undelivered(message.id, reason, sent=sent, advice=advice)

    def _cut_off(self, message: Message, cause: Lost | GaveUp) -> None:
        """The server cannot be reached at all: not for this message, nor for any other."""
        if message.begun:
            # Who refuses us, or sends us elsewhere, has not done what it was asked for.
            refused = isinstance(cause, GaveUp)
            self._undelivered(message, cause.reason, sent=not refused, advice=cause.fix if refused else "")
        self._lose(cause)

    def _expire(self, message: Message) -> None:
        if not self._over:
            self._over = True
            self._receiver.expired(() if message.id is None else (message.id,))

    def _lose(self, cause: Lost | GaveUp) -> None:
        if self._over:
            return
        self._over = True
        if not self._endpoint.done():
            self._endpoint.set_exception(cause)  # whoever opens it hears it there
        else:
            self._receiver.lost(cause.reason, cause)


def _connecting(failure: httpx.ConnectError, host: str, port: int) -> Lost | GaveUp:
    """What stands behind a failed connect, some layers down."""
    cause: BaseException | None = failure
    while cause is not None:
        if type(cause).__name__ == "SSLCertVerificationError":
            return web.untrusted(host, getattr(cause, "verify_message", cause))
        if isinstance(cause, OSError):
            break
        cause = cause.__cause__ or cause.__context__
    if cause is None or "All connection attempts failed" in str(failure):
        refused = ConnectionRefusedError() if "attempts failed" in str(failure) else failure
        return web.unreachable(refused, host, port)
    return web.unreachable(cause, host, port)


async def _body(message: Message) -> AsyncIterator[bytes]:
    message.begun = True
    yield message.frame
    message.waiting = 0


async def _excerpt(response: httpx.Response) -> bytes:
    """The beginning of a body."""
    found = b""
    with suppress(*_BROKEN):
        decoder = web.Decoder(response.headers)
        async with asyncio.timeout(web.CLOSING):
            async for chunk in response.aiter_raw():
                for piece in decoder.feed(chunk):
                    found += piece[: web.EXCERPT]
                    if len(found) >= web.EXCERPT:
                        return found
    return found


def _raw(wanted: Mapping[str, str]) -> httpx.Headers:
    """Headers as the bytes they are: httpx would refuse what is not ASCII."""
    return httpx.Headers([(name.encode(), value.encode()) for name, value in wanted.items()])
