"""Run the endpoint on uvicorn, with the limits of time that it lacks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncGenerator, Generator
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from servers.http.app import Endpoint
from servers.http.link import CUT, WHOLE, Headers
from servers.http.sessions import Limits

HEAD = 64 * 1024
"""Bytes that the headers of a request may have."""
GRACE = 3
"""Seconds for responses to end when we do."""
_LATE = b"408 Request Timeout"
_LARGE = b"431 Request Header Fields Too Large"


class Punctual(HttpToolsProtocol):
    """A connection whose requests must be whole in time: one byte a minute would keep it for ever."""

    _deadline: asyncio.TimerHandle | None = None
    _patience: float | None = None
    """Seconds for what is waited for now, if it is the client's to send something."""
    _turned = False
    """What is waited for has changed: a request that comes in one piece needs no timer at all."""
    _running: RequestResponseCycle | None = None
    _unread = 0
    """Bytes of an answer that its client had not read when we last looked."""
    _head: int | None = 0
    """Bytes of a request's headers so far; `None` when they are complete."""

    def __init__(self, limits: Limits, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._limits = limits

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set(self._limits.headers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set(None)
        super().connection_lost(exc)
        # The request that is being answered is not the last one, if the client has sent others behind it.
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._turned:
            self._turned = False
            self._set(self._patience)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD:
                self._refuse(_LARGE)

    def on_message_begin(self) -> None:
        self._head = 0
        self._patience, self._turned = self._limits.headers, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        self._patience, self._turned = self._limits.arrival, True
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        scope = cast("dict[str, Any]", cycle.scope)
        # Methods of the connection's own: a function that knew the request would keep it alive in a circle.
        scope[CUT], scope[WHOLE] = self._cut, self._whole
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        self._patience, self._turned = None, True
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came for a while: one that reads its last answer slowly has time, one that does not read has none."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        if not self._unread:
            super().timeout_keep_alive_handler()
        elif self._unread == before:
            self._cut()  # closing would wait for it to read
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _whole(self, status: int, headers: Headers, content: bytes) -> bool:
        """What uvicorn's `send` does in two steps and with two regular expressions a header: a sixth of a call's CPU.

        Only the plain case: a connection that is kept, to a client that reads.
        """
        cycle = self._running  # there is one at a time
        if cycle is None:
            return False
        plain = cycle.keep_alive and status < 300 and cycle.scope["method"] != "HEAD"
        if not plain or cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        head = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            head += (name, b": ", value, b"\r\n")
        self.transport.write(b"".join((*head, b"\r\n", content)))
        cycle.waiting_for_100_continue = False
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()
        return True

    def _set(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._late)

    def _cut(self) -> None:
        """End the connection at once; what its client has not read is kept for it neither here nor in the kernel."""
        if not self.transport.is_closing():
            at_once = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.transport.abort()

    def _late(self) -> None:
        self._refuse(_LATE)

    def _refuse(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._running is None or self._running.response_complete:
            self.transport.write(b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status)
        self.transport.close()


class Server(uvicorn.Server):
    """Leaves the signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(endpoint: Endpoint, listener: socket.socket) -> AsyncGenerator[None]:
    """Serve for the length of the block."""
    config = uvicorn.Config(
        endpoint,  # type: ignore[arg-type]
        http=cast("type[asyncio.Protocol]", partial(Punctual, endpoint.limits)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=cast("int", endpoint.limits.kept),
        timeout_graceful_shutdown=GRACE,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what it says when it starts and ends, we say ourselves
    server = Server(config)
    async with asyncio.TaskGroup() as group:
        sweeping = group.create_task(endpoint.sweep(), name="sweep")
        group.create_task(server.serve(sockets=[listener]), name="http")
        try:
            yield
        finally:
            endpoint.close()
            server.should_exit = True
            sweeping.cancel()


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
