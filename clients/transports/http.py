"""Streamable HTTP of both eras as a channel: one POST per message, answered by a body or by a stream of its own."""

from __future__ import annotations

import asyncio
import logging
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from msgspec import Raw
from multidict import CIMultiDict
from yarl import URL

from clients.causes import GaveUp, Lost
from clients.transports import web
from clients.transports.channel import Noise, Receiver
from clients.transports.events import Events, Overlong
from clients.transports.outbox import INITIALIZED, Message, Outbox
from configs.models import Server
from gateway.exchange import Exchange
from gateway.protocol import errors, headers, methods
from gateway.protocol.frames import Frame, Malformed, decode, error, number, open_object, text
from gateway.protocol.versions import LATEST, STATELESS_VERSIONS

logger = logging.getLogger("kimi_gateway.http")

ANSWERS = "application/json, text/event-stream"
LINGER = 2.0
"""Seconds a stream may stay open after the answer it was for."""
ASIDE = 60.0
"""Seconds for a message that expects no answer to be taken."""
GRACE = 1.0
"""Seconds that requests have to meet the end of a session that one of them met."""
PAUSE = 1.0
SHORTEST_PAUSE = 0.1
"""What a server may ask for; one that asks for none would have us turn in a circle."""
LONGEST_PAUSE = 30.0

_USES = (methods.TOOLS_CALL, methods.PROMPTS_GET, methods.RESOURCES_READ)
"""What may be allowed for one name and not for another."""
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError, web.Undecodable)

Rejected = Callable[[str, bytes, Exchange], Awaitable[None]]
"""Takes over `initialize` where its refusal may mean an older transport."""


class Body(aiohttp.Payload):
    """A frame as a request's body, which notes when it goes out."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.frame, content_type="application/json")
        self._message = message
        self._size = len(message.frame)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._message.frame.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._message.begun = True
        await writer.write(self._message.frame)
        self._message.waiting = 0

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await self.write(writer)


class HttpChannel:
    """One server at one address; in the session era, one session."""

    def __init__(self, server: Server, receiver: Receiver, *, limit: int, rejected: Rejected | None = None) -> None:
        self.noise = Noise()
        self.version = ""
        """What was negotiated; empty until then."""
        self._server = server
        self._receiver = receiver
        self._limit = limit
        self._rejected = rejected
        self._url = server.url
        self._proxy: str | None = None
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._client: aiohttp.ClientSession | None = None
        self._session_id = ""
        self._mirrored: dict[str, headers.Mirrored] = {}
        self._outbox = Outbox(f"http:{server.name}", self._deliver, self._lose)
        self._expired: set[int] | None = None
        """Requests that met the end of the session, while others may still meet it."""
        self._listening = False
        self._unreachable = False
        self._over = False
        self._loop = asyncio.get_running_loop()

    @property
    def pid(self) -> int | None:
        return None

    @property
    def tail(self) -> str:
        return ""

    @property
    def _stateless(self) -> bool:
        return self.version in STATELESS_VERSIONS

    async def open(self, project: Path) -> None:
        """Check what can be checked before the first message.

        Raises:
            GaveUp: it cannot be had as configured.
        """
        self._url = web.check_url(self._server)
        self._headers = CIMultiDict(web.check_headers(self._server))
        if "authorization" in self._headers and URL(self._url, encoded=True).user is not None:
            raise GaveUp("has credentials both in its url and in its headers", "Keep one of the two.", may_pass=False)
        self._headers["Accept-Encoding"] = "gzip"
        self._proxy = web.proxy_for(self._url)
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=web.trust(self._url) or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=web.CONNECT),
            auto_decompress=False,
            trust_env=False,
        )

    def negotiated(self, version: str) -> None:
        self.version = version

    def listed(self, tools: Sequence[bytes]) -> Sequence[bytes]:
        self._mirrored = {}
        return [tool for tool in tools if self._can_call(tool)] if self._stateless else tools

    def _can_call(self, tool: bytes) -> bool:
        """Note the headers a tool wants filled from its arguments; one that wants what no header can be is left out."""
        if headers.ANNOTATION.encode() not in tool:
            return True
        opened = open_object(tool)
        name = text(opened.get("name")) or ""
        wanted = headers.mirrored(opened.get("inputSchema", b""))
        if wanted is None:
            logger.warning("%s: left out %s, whose x-mcp-header is not valid", self._server.name, name)
            return False
        self._mirrored[name] = wanted
        return True

    def send(self, frame: bytes, exchange: Exchange | None = None) -> None:
        if self._over or self._client is None:
            return
        if self._expired is not None:
            if exchange is not None:
                self._expired.add(exchange.upstream_id)
            return
        if self._stateless and exchange is None:
            # Closing its stream is how a call is cancelled in this era; it knows no other message of this kind.
            if (ended := self._outbox.ended_by(frame)) is not None:
                ended.cancel()
            return
        self._outbox.send(frame, exchange, most=self._limit)

    def withdraw(self, exchange: Exchange) -> bool:
        return self._outbox.withdraw(exchange)

    def is_writing(self, exchange: Exchange) -> bool:
        return False  # half a request costs its own connection only

    async def close(self) -> None:
        """End every stream, and the session."""
        self._over = True
        client = self._client
        try:
            await self._outbox.close()
            if client is not None and self._session_id and self._expired is None and not self._unreachable:
                async with asyncio.timeout(web.CLOSING):
                    (await self._ask("DELETE", self._session_headers())).close()
        except (*_BROKEN, GaveUp):
            logger.debug("%s did not take the end of its session", self._server.name)
        finally:
            # Also where we are stopped in the middle of this.
            if client is not None:
                await client.close()

    # One message

    async def _deliver(self, message: Message) -> None:
        try:
            async with asyncio.timeout(ASIDE if message.id is None else None):
                await self._post(message)
        except aiohttp.ClientConnectorError as failure:
            self._cut_off(message, _connecting(failure))
        except aiohttp.ConnectionTimeoutError:
            self._cut_off(message, web.unreachable(TimeoutError(), *web.origin(self._url)[1:]))
        except (GaveUp, Lost) as cause:
            self._cut_off(message, cause)
        except _BROKEN as failure:
            self._undelivered(message, _words(failure), sent=message.begun)

    async def _post(self, message: Message) -> None:
        events = Events(self._limit)
        async with await self._ask("POST", self._headers_for(message), message) as response:
            if not 200 <= response.status < 300:
                await self._refused(message, response)
                return
            if message.method == methods.INITIALIZE:
                self._session_id = response.headers.get(headers.SESSION, "")
            if message.id is None:
                await self._accepted(message, response)
                return
            if response.content_type != "text/event-stream":
                await self._answered(message, response)
                return
            if await self._read_events(response, events, message.id):
                return
        await self._resume(message, events)

    async def _ask(
        self, method: str, wanted: CIMultiDict[str], message: Message | None = None
    ) -> aiohttp.ClientResponse:
        """One request, followed through redirects within its origin.

        Raises:
            GaveUp: it is redirected elsewhere.
        """
        assert self._client is not None
        for _ in range(web.HOPS):
            body = Body(message) if message is not None else None
            response = await self._client.request(
                method,
                URL(self._url, encoded=True),
                headers=wanted,
                data=body,
                allow_redirects=False,
                proxy=self._proxy,
            )
            location = response.headers.get("Location")
            if response.status not in web.REDIRECTS or location is None:
                return response
            response.release()
            self._url = web.redirected(self._url, location)
        raise GaveUp("redirects in a circle", "Correct `url` in the entry.")

    def _headers_for(self, message: Message) -> CIMultiDict[str]:
        wanted = self._session_headers()
        wanted["Accept"] = ANSWERS
        wanted["Content-Type"] = "application/json"
        exchange = message.exchange
        if exchange is not None and (self._stateless or exchange.method == methods.DISCOVER):
            version = self.version or LATEST
            wanted.update(headers.standard(version, exchange.method, exchange.params))
            wanted.update(headers.parameters(self._mirrored.get(exchange.tool, {}), exchange.params))
        return wanted

    def _session_headers(self) -> CIMultiDict[str]:
        wanted = self._headers.copy()
        if self.version:
            wanted[headers.VERSION] = self.version
        if self._session_id:
            wanted[headers.SESSION] = self._session_id
        return wanted

    async def _accepted(self, message: Message, response: aiohttp.ClientResponse) -> None:
        """A message without an answer was taken; after the handshake's last we listen."""
        if message.frame == INITIALIZED and not self._listening and not self._stateless:
            self._listening = True
            self._outbox.start(self._listen(), f"http:{self._server.name}:listen")
        with suppress(*_BROKEN):
            async with asyncio.timeout(LINGER):
                await self._read_body(response, web.EXCERPT)

    async def _answered(self, message: Message, response: aiohttp.ClientResponse) -> None:
        """An answer as one body."""
        assert message.id is not None
        body, whole = await self._read_body(response, self._limit)
        if not whole:
            self._receiver.oversized(body[:256], b"", self._limit, message.id)
        elif not body.strip():
            # It may still come on the stream we listen to: some servers answer there.
            if not self._listening or response.status != 202:
                words = f"took the request ({web.status_words(response.status)}) and gave no answer"
                self._undelivered(message, words, sent=True)
        elif not self._receive(body, message.id):
            words = f"answered with something that is no JSON-RPC answer ({response.content_type})"
            self._undelivered(message, words, sent=True)

    def _receive(self, body: bytes, origin: int | None) -> bool:
        """Pass a message on; whether it holds the answer to the request on whose stream it came."""
        try:
            received = decode(body.removeprefix(BOM_UTF8))
        except Malformed:
            self.noise.note(body)
            return False
        if isinstance(received, Frame) and origin is not None and _is_nobodys(received):
            received.id = b"%d" % origin
        self._receiver.receive(received, origin)
        parts = received if isinstance(received, list) else [received]
        replies = (part for part in parts if isinstance(part, Frame) and part.method is None)
        return origin is not None and any(number(reply.id) == origin for reply in replies)

    async def _refused(self, message: Message, response: aiohttp.ClientResponse) -> None:
        """A status that is no success: whose fault, and what becomes of the request and of the connection."""
        status, id = response.status, message.id
        body, _ = await self._read_body(response, web.EXCERPT)
        refusal = _error_in(body)
        pause = web.retry_after(response.headers.get("Retry-After"))
        if status == 401 or (status == 403 and (not self.version or (refusal is None and message.method not in _USES))):
            raise web.needs_auth(status, response.headers.get("WWW-Authenticate"))
        if self._session_id and _means_expired(status, refusal):
            self._expire(id)
        elif id is None:
            logger.debug("%s: %s to a message without an answer", self._server.name, web.status_words(status))
        elif self._rejected is not None and message.method == methods.INITIALIZE and _hints_at_older(status, refusal):
            await self._fall_back(message, id, self._said(status, body), refusal)
        elif refusal is not None:
            self._receive(error(b"%d" % id, refusal), id)
        elif message.method == methods.DISCOVER and status not in (408, 429) and status < 500:
            words = errors.error_object(errors.METHOD_NOT_FOUND, self._said(status, body))
            self._receive(error(b"%d" % id, words), id)
        elif status in (429, 503) and not self.version:
            self._lose(Lost(self._said(status, body), retry_after=pause))
        elif status == 403:
            advice = "The credentials in its entry do not allow it."
            self._undelivered(message, self._said(status, body), sent=False, advice=advice)
        else:
            advice = f"Try again in {pause:g} s." if pause else ""
            self._undelivered(message, self._said(status, body), sent=status >= 500, advice=advice)

    async def _fall_back(self, message: Message, id: int, words: str, refusal: Raw | None) -> None:
        """Try the older transport; where there is none, a refusal in the protocol's own words counts as the answer."""
        assert message.exchange is not None and self._rejected is not None
        try:
            async with asyncio.timeout(web.CONNECT if refusal is not None else None):
                await self._rejected(words, message.frame, message.exchange)
        except (Lost, TimeoutError):
            if refusal is None:
                raise
            self._receive(error(b"%d" % id, refusal), id)

    # Streams

    async def _read_events(self, response: aiohttp.ClientResponse, events: Events, origin: int | None) -> bool:
        """Pass on what a stream brings, until it ends; whether the answer to its request was among it."""
        answered = False
        decoder = web.Decoder(response.headers)
        try:
            async with asyncio.timeout(None) as patience:
                async for chunk in response.content.iter_any():
                    for piece in decoder.feed(chunk):
                        for event in events.feed(piece):
                            if isinstance(event, Overlong):
                                self._overlong(event, origin)
                            elif event.type == "message" and self._receive(event.data, origin) and not answered:
                                answered = True
                                patience.reschedule(self._loop.time() + LINGER)
        except _BROKEN as failure:
            if not answered:
                logger.debug("%s: a stream broke: %s", self._server.name, _words(failure))
        return answered

    def _overlong(self, event: Overlong, origin: int | None) -> None:
        self.noise.note(event.head)
        told = b'"method"' in event.head[:64]
        self._receiver.oversized(event.head, event.tail, self._limit, None if told else origin)

    async def _resume(self, message: Message, events: Events) -> None:
        """A request's stream ended before its answer: take it up where it broke, if the server numbers its events."""
        if self._stateless or not events.last_id:
            self._undelivered(message, "its answer broke off", sent=True)
            return
        pause = PAUSE
        while message.id in self._outbox.requests:
            await asyncio.sleep(_pause(events, pause))
            events.restart()
            before = events.last_id
            async with await self._ask("GET", self._listening_headers(events)) as response:
                if response.status != 200 or response.content_type != "text/event-stream":
                    words = f"its answer broke off and could not be resumed ({web.status_words(response.status)})"
                    self._undelivered(message, words, sent=True)
                    return
                if await self._read_events(response, events, message.id):
                    return
            pause = PAUSE if events.last_id != before else min(pause * 2, LONGEST_PAUSE)

    def _listening_headers(self, events: Events) -> CIMultiDict[str]:
        wanted = self._session_headers()
        wanted["Accept"] = "text/event-stream"
        if events.last_id:
            wanted[headers.LAST_EVENT] = events.last_id
        return wanted

    async def _listen(self) -> None:
        """The stream of what belongs to no request, for as long as the server has one."""
        events = Events(self._limit)
        worked, pause = False, PAUSE
        while True:
            began, after = self._loop.time(), None
            try:
                async with await self._ask("GET", self._listening_headers(events)) as response:
                    if response.status == 200 and response.content_type == "text/event-stream":
                        worked = True
                        await self._read_events(response, events, None)
                    elif worked and response.status in (400, 404):
                        self._expire(None)
                        return
                    elif response.status < 500 and response.status != 429:
                        break
                    else:
                        after = web.retry_after(response.headers.get("Retry-After"))
            except aiohttp.ClientConnectorError as failure:
                if worked:
                    self._lose(_connecting(failure))
                    return
            except GaveUp:
                break
            except _BROKEN as failure:
                logger.debug("%s: %s", self._server.name, _words(failure))
            pause = PAUSE if self._loop.time() - began > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(after if after is not None else _pause(events, pause / 2))
            events.restart()
        self._listening = False

    async def _read_body(self, response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
        """A body up to a limit that holds for what it decodes to, and whether that was all of it."""
        decoder = web.Decoder(response.headers)
        pieces: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            for piece in decoder.feed(chunk):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    return b"".join(pieces)[:limit], False
        return b"".join(pieces), True

    # What becomes of it

    def _said(self, status: int, body: bytes) -> str:
        return self._server.masked(web.status_words(status, body))

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

    def _expire(self, id: int | None) -> None:
        """The session is over. Requests that meet this were not executed; give the others a moment to meet it too."""
        if self._expired is None:
            self._expired = set()
            self._outbox.start(self._end_session(), f"http:{self._server.name}:expired")
        if id is not None:
            self._expired.add(id)

    async def _end_session(self) -> None:
        others = [message.task for message in self._outbox.requests.values() if message.task is not None]
        if others:
            await asyncio.wait(others, timeout=GRACE)
        if not self._over:
            self._over = True
            self._receiver.expired(self._expired or ())

    def _lose(self, cause: Lost | GaveUp) -> None:
        self._unreachable = True
        if not self._over:
            self._over = True
            self._receiver.lost(cause.reason, cause)


def _pause(events: Events, otherwise: float) -> float:
    """Seconds before a stream is asked for again."""
    return max(events.retry, SHORTEST_PAUSE) if events.retry is not None else otherwise


def _is_nobodys(frame: Frame) -> bool:
    """An error that could not name the request it is for: on that request's own stream it need not."""
    return bool(frame.error) and frame.method is None and frame.id in (b"", b"null")


def _error_in(body: bytes) -> Raw | None:
    """The JSON-RPC error that a body holds, whatever its id: it came as the answer to one request."""
    try:
        frame = decode(body)
    except Malformed:
        return None
    return frame.error if isinstance(frame, Frame) and frame.error else None


def _hints_at_older(status: int, refusal: Raw | None) -> bool:
    """Whether `initialize` may have met a server of the older transport, whose errors may be JSON-RPC too."""
    try:
        code = bytes(open_object(refusal).get("code", b"")) if refusal is not None else b""
    except Malformed:
        code = b""
    return status in (400, 404, 405) and code != b"%d" % errors.UNSUPPORTED_VERSION


def _means_expired(status: int, refusal: Raw | None) -> bool:
    """404 by the book; many servers say 400 with words about the session."""
    try:
        said = open_object(refusal) if refusal is not None else {}
    except Malformed:
        said = {}
    if status == 404:
        return bytes(said.get("code", b"")) != b"%d" % errors.METHOD_NOT_FOUND
    return status == 400 and "session" in (text(said.get("message")) or "").lower()


def _connecting(failure: aiohttp.ClientConnectorError) -> Lost | GaveUp:
    if isinstance(failure, aiohttp.ClientConnectorCertificateError):
        return web.untrusted(failure.host, failure.certificate_error)
    return web.unreachable(failure.os_error, failure.host, failure.port)


def _words(failure: BaseException) -> str:
    if isinstance(failure, aiohttp.ClientResponseError):
        # Its own words go over several lines, and quote what came.
        said = failure.message.partition("\n")[0].rstrip(":")
        return f"what answers at its url does not speak HTTP as we do ({said})"
    if isinstance(failure, aiohttp.ServerDisconnectedError):
        return "the server closed the connection before it answered"
    if isinstance(failure, TimeoutError):
        return "the server did not take the message in time"
    return str(failure) or type(failure).__name__
