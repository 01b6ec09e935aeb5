"""A connection over HTTP/1.1: has requests answered in turn, and bounds what a client may take of us."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol, cast

from servers.http.app import Endpoint
from servers.http.deadline import Deadline
from servers.http.link import CLOSE, Headers, Send
from servers.http.reading import Reading
from servers.http.request import Request
from servers.http.visit import Visit

LINE = 64
"""Requests that may be sent behind one that is not answered, before we read no further."""
BEHIND = 64 * 1024
"""Bytes of the body of one of those."""
LINGER = 64 * 1024 * 1024
"""Bytes of a body nobody wants that we let a client send, so that it comes to read why."""
_STATUS = {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}

logger = logging.getLogger(__name__)


class Host(Protocol):
    """Who knows all connections."""

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def run(self, work: Coroutine[None, None, None]) -> None:
        """In a task, which is cancelled when there is no time left for it."""
        ...


class Connection(asyncio.Protocol):
    """One client's. It is the `Link` of the request whose turn it is.

    No ASGI server is in between: its scope, its events and its task for each request cost a third of a call's CPU.
    """

    def __init__(self, endpoint: Endpoint, host: Host) -> None:
        self._endpoint = endpoint
        self._host = host
        self._limits = endpoint.limits
        self._reading = Reading(self)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._turn: Request | None = None
        """The one that is being answered, or was answered last."""
        self._line: deque[Request] = deque()
        """Those that wait for their turn."""
        self._visit: Visit | None = None
        """What was let in and waits for its body."""
        self._left: Callable[[], None] | None = None
        """Wants to hear if the client leaves before it has its answer."""
        self._arrival = Deadline(self._loop)
        """For the client to send what is missing: one byte a minute would keep a connection for ever."""
        self._attention = Deadline(self._loop)
        """For us to answer; for the client to ask for more."""
        self._patience: float | None = None
        """Seconds for what is waited for now, if it is the client's to send something."""
        self._turned = False
        """What is waited for has changed: a request that comes in one piece needs no time limit at all."""
        self._unwanted = 0
        """Bytes that came of a body after its request was refused."""
        self._unread = 0
        """Bytes of an answer that its client had not read when we last looked."""
        self._full = False
        """The client does not read as fast as we write."""
        self._drained: asyncio.Future[None] | None = None
        self._paused = False

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return self._turn is not None and not self._turn.responded

    def __repr__(self) -> str:
        return f"<Connection {'busy' if self.busy else 'idle'}, {len(self._line)} in line>"

    # What comes (asyncio's `Protocol`)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own, which is no subclass
        self._host.opened(self)
        self._arrival.set(self._limits.headers, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.closed(self)
        self._transport = None
        self._reading.stop()
        self._arrival.close()
        self._attention.close()
        self._line.clear()
        self._visit = None
        self.resume_writing()
        if self._turn is not None and self.busy:
            self._turn.gone = True
            if self._left is not None:
                left, self._left = self._left, None
                left()

    def data_received(self, data: bytes) -> None:
        if self._reading.over:
            return  # nothing is read behind what could not be
        fault = self._reading.feed(data)
        if fault is not None:
            self._refuse(fault)
        elif self._turned:
            self._turned = False
            if self._patience is None:
                self._arrival.clear()
            else:
                self._arrival.set(self._patience, self._late)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._next()

    # What is in it (the reading's `Taker`)

    def began(self) -> None:
        if not self.busy and not self._line:
            self._attention.clear()
        self._patience, self._turned = self._limits.headers, True

    def headed(self, request: Request) -> None:
        self._patience, self._turned = self._limits.arrival, True
        if self._closing:
            return  # nobody's, like all that comes behind an answer that ends the connection
        if self.busy or self._line or self._full:
            self._line.append(request)
            if self._full:  # it reads what it asked for before, and then gets more
                self._attention.set(self._limits.kept, self._silent)
            if len(self._line) >= LINE or self._full:
                self._pause(True)
        else:
            self._take(request)

    def came(self, request: Request, body: bytes) -> None:
        if request is self._turn and self._visit is None:
            self._unwanted += len(body)
            if self._unwanted > LINGER:
                self._close()
            return
        request.body += body
        if request is not self._turn:
            self._pause(len(request.body) > BEHIND or self._paused)
        elif len(request.body) > self._limits.body:
            self._serve(request)

    def completed(self, request: Request) -> None:
        self._patience, self._turned = None, True
        if request is not self._turn:
            return
        if self._visit is not None:
            self._serve(request)
        elif request.responded:
            self._rest(request)

    # Turns

    def _take(self, request: Request) -> None:
        """Its headers have come, and it is its turn."""
        self._turn, self._unwanted = request, 0
        if request.refused is not None:
            request.responded = request.complete = request.kept = True
            self._refuse(request.refused)
            return
        self._visit = self._guarded(self._endpoint.enter, request, self)
        if self._visit is None:
            return
        if request.complete or len(request.body) > self._limits.body:
            self._serve(request)
        elif request.expects:
            request.expects = False
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _serve(self, request: Request) -> None:
        visit, self._visit = self._visit, None
        body, request.body = bytes(request.body), bytearray()
        if len(body) > self._limits.body:
            self._endpoint.too_large(self)
        else:
            self._guarded(self._endpoint.serve, visit, body)

    def _guarded(self, work: Callable[..., Any], *arguments: object) -> Any:
        try:
            return work(*arguments)
        except Exception:
            logger.exception("A request over HTTP could not be answered")
            self.answer(500, (CLOSE,), b"Internal Server Error")
            return None

    def _responded(self, request: Request) -> None:
        """Its answer has gone out. Whoever closes at once is not heard by who still sends."""
        request.responded = True
        self._left = None
        if request.complete:
            self._rest(request)

    def _rest(self, request: Request) -> None:
        """It has all come, and its answer has gone out."""
        if not request.kept:
            self._close()
            return
        self._attention.set(self._limits.kept, self._silent)
        if self._line:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if self._line and not self.busy and not self._full and not self._closing:
            self._attention.clear()
            self._take(self._line.popleft())
            if self._patience is not None:  # it had as long as what was before it took
                self._arrival.set(self._patience, self._late)
        if len(self._line) < LINE:
            self._pause(False)

    # What goes (the endpoint's `Link`)

    @property
    def gone(self) -> bool:
        return self._turn is None or self._turn.gone

    def answer(self, status: int, headers: Headers, content: bytes = b"") -> None:
        request = self._turn
        if request is None or request.started or request.gone:
            return
        request.started = True
        head = self._head_of(request, status, headers)
        head.append(b"content-length: %d\r\n\r\n" % len(content))
        if request.method != "HEAD":
            head.append(content)
        self._write(b"".join(head))
        self._responded(request)

    def attend(self, seconds: float, late: Callable[[], None], gone: Callable[[], None]) -> None:
        self._left = gone
        self._attention.set(seconds, late)

    def stream(self, headers: Headers, work: Callable[[Send], Coroutine[None, None, None]]) -> None:
        request = self._turn
        if request is None:
            return
        request.started = True
        self._attention.clear()
        self._left = None
        self._host.run(self._streamed(request, headers, work))

    async def _streamed(
        self, request: Request, headers: Headers, work: Callable[[Send], Coroutine[None, None, None]]
    ) -> None:
        chunked = request.version != "1.0"

        async def send(chunk: bytes) -> None:
            while self._full and not request.gone:
                self._drained = self._loop.create_future()
                await self._drained
            if not request.gone:
                self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)

        head = self._head_of(request, 200, headers)
        head.append(b"transfer-encoding: chunked\r\n\r\n" if chunked else b"\r\n")
        if not request.gone:
            self._write(b"".join(head))
        try:
            await work(send)
        except BaseException as error:
            self.cut()  # its end is none: whoever reads it must see that
            if isinstance(error, Exception):
                logger.exception("A stream over HTTP broke off")
                return
            raise
        if not request.gone:
            if chunked:
                self._write(b"0\r\n\r\n")
            self._responded(request)

    def _head_of(self, request: Request, status: int, headers: Headers) -> list[bytes]:
        head = [_STATUS[status], _dated()]
        if request.expects and not request.complete:
            request.kept = False  # it may leave out the body, and what it sends next would be taken for it
        for header in headers:
            if header is CLOSE:
                request.kept = False
            else:
                head += (header[0], b": ", header[1], b"\r\n")
        if not request.kept:
            head.append(b"connection: close\r\n")
        return head

    # Limits

    def _silent(self) -> None:
        """Nothing came for a while: one that reads its last answer slowly has time, one that does not read has none."""
        transport = self._transport
        before, self._unread = self._unread, transport.get_write_buffer_size() if transport is not None else 0
        if not self._unread:
            self._close()
        elif self._unread == before:
            self.cut()  # closing would wait for it to read
        else:
            self._attention.set(self._limits.kept, self._silent)

    def _late(self) -> None:
        if self._waiting and self._patience is not None:  # for us: we may not even read on
            self._arrival.set(self._patience, self._late)
        else:
            self._refuse(408)

    @property
    def _waiting(self) -> bool:
        """Whether something that came before the request that is coming now has no answer yet."""
        return bool(self._line) or (self.busy and self._turn is not self._reading.request)

    def _refuse(self, status: int) -> None:
        """Before there is a request, or while it is still coming."""
        if self._waiting:  # in its turn
            self._reading.stop()
            self._patience = None
            self._arrival.clear()
            refused = self._reading.request
            refused.refused = status
            if refused not in self._line:
                self._line.append(refused)
            return
        request = self._turn
        if not self._closing and (
            self._visit is not None or request is None or (request.responded and request.complete and request.kept)
        ):
            self._write(_STATUS[status] + b"connection: close\r\ncontent-length: 0\r\n\r\n")
        self._close()

    # The transport

    @property
    def _closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _pause(self, paused: bool) -> None:
        if paused is not self._paused and self._transport is not None and not self._closing:
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def conclude(self) -> None:
        """Answer what was asked, and nothing more."""
        if not self.busy:
            self._close()
        else:
            assert self._turn is not None
            self._turn.kept = False

    def _close(self) -> None:
        if self._transport is not None:
            if self._transport.get_write_buffer_size() and not self._closing:
                self._attention.set(self._limits.kept, self._silent)
            self._transport.close()

    def cut(self) -> None:
        """End the connection at once; what its client has not read is kept for it neither here nor in the kernel."""
        if self._transport is not None:
            at_once = struct.pack("ii", 1, 0)
            with contextlib.suppress(OSError):
                self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self._transport.abort()


_date = (0, b"")


def _dated() -> bytes:
    """The header that says when, put together once a second."""
    global _date
    now = int(time.time())
    if now != _date[0]:
        _date = now, b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
    return _date[1]
