"""Serve the endpoint on a socket, until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Coroutine

from servers.http.app import Endpoint
from servers.http.connection import Connection

GRACE = 3.0
"""Seconds for responses to end when we do."""
BACKLOG = 2048
"""Connections that may wait to be taken."""


class Server:
    """All connections, and the tasks that send streams on them."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Future[None] | None = None

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        if self._ending is not None:
            connection.conclude()

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if self._ending is not None and not self.connections and not self._ending.done():
            self._ending.set_result(None)

    def run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="stream")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Each client gets the answer it waits for, if it comes in time."""
        self._ending = asyncio.get_running_loop().create_future()
        for connection in list(self.connections):
            connection.conclude()
        if self.connections:
            await asyncio.wait([self._ending], timeout=GRACE)
        for connection in list(self.connections):
            connection.cut()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


@contextlib.asynccontextmanager
async def serving(endpoint: Endpoint, listener: socket.socket) -> AsyncGenerator[Server]:
    """Serve for the length of the block."""
    server = Server()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(endpoint, server), sock=listener, backlog=BACKLOG)
    sweeping = loop.create_task(endpoint.sweep(), name="sweep")
    try:
        yield server
    finally:
        endpoint.close()
        sweeping.cancel()
        listening.close()
        await server.end()


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
    listener.listen(BACKLOG)  # at once: who connects before we serve waits, and is not refused
    listener.setblocking(False)
    return listener
