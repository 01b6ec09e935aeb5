"""What tests of the transports over HTTP share: a connection to drive, and servers to drive it against."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Raw

from clients.connection import Connection
from clients.negotiation import Introduction, introduce
from clients.transports.channel import Channel
from clients.transports.dial import dial
from configs.models import Server, Source, Transport
from gateway.exchange import Exchange, Failure, Port, Question
from gateway.protocol.frames import Object, open_object
from gateway.protocol.versions import Era

Json = dict[str, Any]
DEADLINE = 60.0
LIMIT = 64 * 1024 * 1024
SDK = Path(__file__).parents[1] / "upstreams" / "sdk_web.py"
INTRODUCTION: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "scripted", "version": "1"},
}


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE):
            await scenario()

    asyncio.run(main())


class Heard:
    """Who hears what belongs to no call."""

    def __init__(self) -> None:
        self.questions: asyncio.Queue[tuple[Question, Exchange | None]] = asyncio.Queue()
        self.notices: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.returns: list[Exchange] = []

    def asked(self, connection: Connection, question: Question, origin: Exchange | None) -> None:
        self.questions.put_nowait((question, origin))

    def told(self, connection: Connection, method: str, params: Raw, origin: Exchange | None) -> None:
        self.notices.put_nowait((method, bytes(params)))

    def returned(self, exchange: Exchange) -> None:
        self.returns.append(exchange)


class Call:
    """A caller that remembers what it was told."""

    def __init__(self) -> None:
        self.result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.progress: list[Object] = []
        self.exchange: Exchange | None = None

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        self.result.set_result(bytes(result))

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        self.result.set_result(b"input_required")

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        self.result.set_exception(Error(bytes(error)))

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        self.result.set_exception(Failed(failure))

    def progressed(self, exchange: Exchange, params: Object) -> None:
        self.progress.append(params)

    def asked(self, question: Question, exchange: Exchange | None) -> None:
        raise AssertionError("questions go to the listener")

    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        raise AssertionError("notifications go to the listener")


class Error(Exception):
    """The upstream's own error."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.raw = raw


class Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Link:
    """A connection under test."""

    def __init__(self, server: Server, limit: int) -> None:
        self.heard = Heard()
        self.connection = Connection(server.name, self.heard)
        self.channel: Channel = dial(server, self.connection, limit=limit)
        self.connection.channel = self.channel
        self.info: Introduction | None = None

    async def introduce(self, era: Era | None = "session", capabilities: bytes = b"{}") -> Introduction:
        self.info = await introduce(self.connection, capabilities, era, timeout=DEADLINE, probe=DEADLINE)
        return self.info

    def begin(self, method: str, params: bytes, *, timeout: float = DEADLINE, tool: str = "") -> Call:
        call = Call()
        opened = open_object(params)
        call.exchange = Exchange(call, b"1", method, opened, meta={}, token=Raw(b"1"), tool=tool)
        self.connection.send(call.exchange, timeout)
        return call

    def call(self, tool: str, **arguments: Any) -> Call:
        return self.begin("tools/call", json.dumps({"name": tool, "arguments": arguments}).encode(), tool=tool)

    async def text(self, tool: str, **arguments: Any) -> str:
        return json.loads(await self.call(tool, **arguments).result)["content"][0]["text"]


@contextlib.asynccontextmanager
async def linked(
    url: str,
    transport: Transport = "http",
    *,
    era: Era | None = "session",
    limit: int = LIMIT,
    capabilities: bytes = b"{}",
    headers: dict[str, str] | None = None,
    introduced: bool = True,
    secrets: frozenset[str] = frozenset(),
) -> AsyncGenerator[Link]:
    server = Server("up", transport, Source(None, "builtin"), url=url, headers=headers or {}, secrets=secrets)
    link = Link(server, limit)
    try:
        await link.channel.open(Path.cwd())
        if introduced:
            await link.introduce(era, capabilities)
        yield link
    finally:
        await link.channel.close()
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert not [name for name in names if name.startswith(("http:up", "sse:up"))], names


Respond = Callable[[web.Request, Json], Awaitable[web.StreamResponse]]


class Script:
    """A server whose every answer a test may replace."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any, Json]] = []
        """HTTP method, headers and body of each request, in order."""
        self.on: dict[str, Respond] = {}
        """By JSON-RPC method; `GET`, `DELETE` and `answer` are the others."""
        self.session = "session-1"
        self.url = ""
        self.respond: Callable[[web.Request], Awaitable[web.StreamResponse]] = self.handle
        """Replaces all of it."""

    def got(self, method: str) -> list[tuple[Any, Json]]:
        return [(headers, body) for verb, headers, body in self.requests if method in (verb, body.get("method"))]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body: Json = json.loads(await request.read()) if request.method == "POST" else {}
        self.requests.append((request.method, request.headers.copy(), body))
        name = body.get("method", "answer") if request.method == "POST" else request.method
        respond = self.on.get(name)
        if respond is not None:
            return await respond(request, body)
        if name == "initialize":
            return reply(body, INTRODUCTION, headers={"Mcp-Session-Id": self.session} if self.session else {})
        if name == "tools/list":
            return reply(body, {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
        if name == "ping":
            return reply(body, {})
        if request.method == "POST" and "id" in body and "method" in body:
            return web.json_response(
                {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "Method not found"}}
            )
        return web.Response(status=202 if request.method == "POST" else 405)


def reply(body: Json, result: Any, *, headers: dict[str, str] | None = None) -> web.Response:
    payload = result if isinstance(result, bytes) else json.dumps(result).encode()
    return web.Response(body=answer(body, payload), content_type="application/json", headers=headers)


def answer(body: Json, payload: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (body["id"], payload)


async def stream(request: web.Request, *events: bytes, headers: dict[str, str] | None = None) -> web.StreamResponse:
    """Begin an event stream with these events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **(headers or {})})
    await response.prepare(request)
    for event in events:
        await response.write(event)
    return response


def event(data: bytes, id: str | None = None) -> bytes:
    return (b"id: %b\n" % id.encode() if id else b"") + b"event: message\ndata: %b\n\n" % data


@contextlib.asynccontextmanager
async def scripted(script: Script | None = None, port: int = 0) -> AsyncGenerator[Script]:
    script = script or Script()
    app = web.Application(client_max_size=LIMIT)

    async def respond(request: web.Request) -> web.StreamResponse:
        return await script.respond(request)

    app.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
    await site.start()
    script.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    try:
        yield script
    finally:
        await runner.cleanup()


class Sdk:
    """An SDK server as a process of its own."""

    def __init__(self, mode: str, port: int = 0) -> None:
        self.mode = mode
        self.process = subprocess.Popen([sys.executable, str(SDK), mode, str(port)], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/{'sse' if mode == 'sse' else 'mcp'}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def sdk(mode: str, port: int = 0) -> Generator[Sdk]:
    server = Sdk(mode, port)
    try:
        yield server
    finally:
        server.kill()
