"""Run the endpoint on uvicorn's connections, with the limits of time and size that they lack."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from servers.http.app import Endpoint
from servers.http.deadline import Deadline
from servers.http.link import CLOSE, Headers, Send
from servers.http.visit import Visit

HEAD = 64 * 1024
"""Bytes that the headers of a request may have."""
LINGER = 64 * 1024 * 1024
"""Bytes of a body nobody wants that we let a client send, so that it comes to read why."""
GRACE = 3
"""Seconds for responses to end when we do."""
_LATE = b"408 Request Timeout"
_LARGE = b"431 Request Header Fields Too Large"
_FAILED = b"Internal Server Error"

logger = logging.getLogger(__name__)


class Connection(HttpToolsProtocol):
    """A connection: uvicorn reads its requests and sends its streams, the endpoint hears of a request and answers.

    There is no ASGI in between, nor a task for an answer that comes in one piece: they cost a quarter of a call. Its
    requests must be whole in time: one byte a minute would keep it for ever.
    """

    _running: RequestResponseCycle | None = None
    """The request whose turn it is; answered, as long as there is no other."""
    _visit: Visit | None = None
    """What was let in and waits for its body."""
    _left: Callable[[], None] | None = None
    """Wants to hear if the client leaves before it has its answer."""
    _patience: float | None = None
    """Seconds for what is waited for now, if it is the client's to send something."""
    _turned = False
    """What is waited for has changed: a request that comes in one piece needs no time limit at all."""
    _unread = 0
    """Bytes of an answer that its client had not read when we last looked."""
    _head: int | None = 0
    """Bytes of a request's headers so far; `None` when they are complete."""
    _unwanted = 0
    """Bytes that came of a body after the request was refused."""

    def __init__(self, endpoint: Endpoint, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._endpoint = endpoint
        self._limits = endpoint.limits
        self._arrival = Deadline(self.loop)
        """Of the client, to send what is missing."""
        self._attention = Deadline(self.loop)
        """Of ours, to answer; of the client again, to ask for more."""

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return self._running is not None and not self._running.response_complete

    # What comes

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arrival.set(self._limits.headers, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrival.close()
        self._attention.close()
        super().connection_lost(exc)
        # The request that is being answered is not the last one, if the client has sent others behind it.
        self.pipeline.clear()
        self._visit = None
        if self._running is not None and self.busy:
            self._running.disconnected = True
            if self._left is not None:
                left, self._left = self._left, None
                left()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._turned:
            self._turned = False
            if self._patience is None:
                self._arrival.clear()
            else:
                self._arrival.set(self._patience, self._late)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD:
                self._refuse(_LARGE)

    def on_message_begin(self) -> None:
        if not self.busy:
            self._attention.clear()
        self._head = 0
        self._patience, self._turned = self._limits.headers, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        self._patience, self._turned = self._limits.arrival, True
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """A request's headers have come, and it is its turn: what uvicorn gives a task, we look at."""
        if self.flow.write_paused:
            self.pipeline.append((cycle, app))  # it reads what it asked for before, and then gets more
            self.flow.pause_reading()
            self._attention.set(self._limits.kept, self.timeout_keep_alive_handler)
            return
        self._running, self._unwanted = cycle, 0
        self._visit = self._guarded(self._endpoint.enter, cycle.scope, self)
        if self._visit is None:
            return
        if not cycle.more_body:
            self._serve(cycle)
            return
        self.flow.resume_reading()
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle is not self._running:
            super().on_body(body)  # one in the line, which uvicorn keeps short
        elif self._visit is None:
            self._unwanted += len(body)
            if self._unwanted > LINGER:
                self.transport.close()
        else:
            cycle.body += body
            if len(cycle.body) > self._limits.body:
                self._serve(cycle)

    def on_message_complete(self) -> None:
        self._patience, self._turned = None, True
        super().on_message_complete()
        cycle = self.cycle
        cycle.more_body = False
        if cycle is not self._running:
            return
        if self._visit is not None:
            self._serve(cycle)
        elif not self.busy:
            self._rest(cycle)

    def _serve(self, cycle: RequestResponseCycle) -> None:
        visit, self._visit = self._visit, None
        body, cycle.body = bytes(cycle.body), bytearray()
        if len(body) > self._limits.body:
            self._endpoint.too_large(self)
        else:
            self._guarded(self._endpoint.serve, visit, body)

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except Exception:
            logger.exception("A request over HTTP could not be answered")
            self.answer(500, (CLOSE,), _FAILED)
            return None

    # What goes (the endpoint's `Link`)

    @property
    def gone(self) -> bool:
        return self._running is None or self._running.disconnected

    def answer(self, status: int, headers: Headers, content: bytes = b"") -> None:
        """What uvicorn's `send` does in two steps, with two regular expressions a header: a sixth of a call's CPU."""
        cycle = self._running
        if cycle is None or cycle.response_started or cycle.disconnected:
            return
        head = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            head += (name, b": ", value, b"\r\n")
        closing = CLOSE in headers
        if not closing and not cycle.keep_alive:
            closing = True
            head.append(b"connection: close\r\n")
        head.append(b"content-length: %d\r\n\r\n" % len(content))
        if cycle.scope["method"] != "HEAD":
            head.append(content)
        self.transport.write(b"".join(head))
        cycle.response_started = cycle.response_complete = True
        if closing:
            cycle.keep_alive = False
        self.on_response_complete()

    def attend(self, seconds: float, late: Callable[[], None], gone: Callable[[], None]) -> None:
        self._left = gone
        self._attention.set(seconds, late)
        self.flow.resume_reading()  # who has requests in the line is not heard leaving otherwise

    def stream(self, headers: Headers, work: Callable[[Send], Coroutine[None, None, None]]) -> None:
        cycle = self._running
        if cycle is None:
            return
        self._attention.clear()

        async def send(chunk: bytes) -> None:
            await cycle.send({"type": "http.response.body", "body": chunk, "more_body": True})

        async def answer(*_: object) -> None:
            await cycle.send({"type": "http.response.start", "status": 200, "headers": headers})
            await work(send)
            await cycle.send({"type": "http.response.body", "body": b"", "more_body": False})

        super()._start_asgi_task(cycle, answer)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._left = None
        cycle = self._running
        if cycle is not None and not cycle.more_body:  # whoever closes at once is not heard by who still sends
            self._rest(cycle)

    def _rest(self, cycle: RequestResponseCycle) -> None:
        """A request has come and its answer has gone out."""
        if self.transport.is_closing():
            return
        if not cycle.keep_alive:
            self.transport.close()
            return
        self.flow.resume_reading()
        self._attention.set(self._limits.kept, self.timeout_keep_alive_handler)
        if self.pipeline:
            self.loop.call_soon(self._next)

    def _next(self) -> None:
        if self.pipeline and not self.busy and not self.transport.is_closing():
            self._attention.clear()
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._next()

    # Limits

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came for a while: one that reads its last answer slowly has time, one that does not read has none."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        if not self._unread:
            super().timeout_keep_alive_handler()
        elif self._unread == before:
            self.cut()  # closing would wait for it to read
        else:
            self._attention.set(self._limits.kept, self.timeout_keep_alive_handler)

    def cut(self) -> None:
        """End the connection at once; what its client has not read is kept for it neither here nor in the kernel."""
        if not self.transport.is_closing():
            at_once = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.transport.abort()

    def _late(self) -> None:
        self._refuse(_LATE)

    def _refuse(self, status: bytes) -> None:
        """Before there is a request, or while it is still coming."""
        if self.transport.is_closing():
            return
        cycle = self._running
        if self._visit is not None or cycle is None or (cycle.response_complete and cycle.keep_alive):
            self.transport.write(b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status)
        self.transport.close()


class Server(uvicorn.Server):
    """Leaves the signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(endpoint: Endpoint, listener: socket.socket) -> AsyncGenerator[Server]:
    """Serve for the length of the block."""
    config = uvicorn.Config(
        _nothing,
        http=cast("type[asyncio.Protocol]", partial(Connection, endpoint)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what it says when it starts and ends, we say ourselves
    server = Server(config)
    async with asyncio.TaskGroup() as group:
        sweeping = group.create_task(endpoint.sweep(), name="sweep")
        group.create_task(server.serve(sockets=[listener]), name="http")
        try:
            yield server
        finally:
            endpoint.close()
            server.should_exit = True
            sweeping.cancel()


async def _nothing(scope: object, receive: object, send: object) -> None:
    """In the place of an ASGI application: connections ask the endpoint."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        OSError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    listener.listen(2048)  # at once: who connects before we serve waits, and is not refused
    listener.setblocking(False)
    return listener
