"""Upstreams over SSE and Streamable HTTP behind a real gateway process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator

import pytest
from aiohttp import web

from tests.client import until
from tests.clients.web import Json, Script, event, reply, scripted, sdk, stream
from tests.conftest import Start


@contextlib.contextmanager
def scripted_aside(script: Script) -> Generator[Script]:
    """A scripted server on a thread of its own, for tests that block."""
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with scripted(script):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield script
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
        loop.close()


@pytest.mark.parametrize("mode", ["http", "json", "sse"])
@pytest.mark.parametrize("typed", [True, False])
def test_a_server_with_an_address_is_listed_and_called(start: Start, mode: str, typed: bool) -> None:
    with sdk(mode) as server:
        entry: Json = {"url": server.url}
        if typed:
            entry["type"] = "sse" if mode == "sse" else "http"
        gateway = start(servers={"up": entry}, capabilities={"elicitation": {}})
        gateway.up()
        assert len(gateway.tool_names()) == 7
        assert gateway.call("up__echo", {"text": "zoë"}).text == "zoë"
        assert len(gateway.call("up__big", {"size": 12_000_000}).text) == 12_000_000
        assert gateway.request("resources/read", {"uri": "test://note"}).result["contents"][0]["text"] == "a note"
        if mode == "sse":
            # Over Streamable HTTP this server speaks the stateless era, in which its tool cannot ask.
            gateway.on("elicitation/create", lambda _: {"action": "accept", "content": {"colour": "red"}})
            assert gateway.call("up__ask").text == "accept red"
        if mode != "json":
            gateway.call("up__count", {"to": 3}, _meta={"progressToken": "p"})
            assert [gateway.expect("notifications/progress").params["progress"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["http", "sse"])
def test_a_server_restarted_on_its_port_is_back_without_any_action(start: Start, mode: str) -> None:
    with sdk(mode) as server:
        gateway = start(servers={"up": {"url": server.url, "type": mode}})
        gateway.up()
        assert len(gateway.tool_names()) == 7
        hanging = gateway.begin("up__hang")
        assert gateway.call("up__echo", {"text": "up"}).text == "up"
        server.kill()
        assert "may have been executed" in gateway.answer(hanging).text
        with sdk(mode, server.port):
            while gateway.call("up__echo", {"text": "back"}).text != "back":
                continue


def test_a_session_the_server_forgot_is_begun_again_and_the_call_sent_again(start: Start) -> None:
    script = Script()
    begun: list[str] = []

    async def begin(request: web.Request, body: Json) -> web.StreamResponse:
        begun.append(f"session-{len(begun) + 1}")
        script.session = begun[-1]
        del script.on["initialize"]
        try:
            return await script.handle(request)
        finally:
            script.on["initialize"] = begin

    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        if request.headers["Mcp-Session-Id"] == "session-1":
            return web.Response(status=404)
        return reply(body, {"content": [{"type": "text", "text": request.headers["Mcp-Session-Id"]}]})

    script.on |= {"initialize": begin, "tools/call": work}
    with scripted_aside(script):
        gateway = start(servers={"up": {"url": script.url, "type": "http"}})
        gateway.up()
        assert gateway.tool_names() == ["up__work"]
        assert gateway.call("up__work").text == "session-2"
        assert len(begun) == 2


def test_a_server_that_wants_credentials_is_not_asked_in_a_loop(start: Start) -> None:
    script = Script()

    async def refuse(request: web.Request) -> web.StreamResponse:
        script.requests.append((request.method, request.headers.copy(), {}))
        return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})

    script.respond = refuse
    with scripted_aside(script):
        gateway = start(servers={"up": {"url": script.url}})
        gateway.tools()
        status = gateway.run("status")
        assert "needs auth" in status.stdout
        assert "Authorization" in status.stdout
        assert len(script.requests) <= 4


def test_what_a_stateless_server_lists_after_a_break_in_its_stream_is_noticed(start: Start) -> None:
    script = Script()
    tools = [{"name": "before", "inputSchema": {"type": "object"}}]
    complete: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    noted = event(b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}')

    async def discover(_: web.Request, body: Json) -> web.StreamResponse:
        offers = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
        return reply(body, {**complete, **offers})

    async def listen(request: web.Request, body: Json) -> web.StreamResponse:
        return await stream(request, noted)  # it ends at once, like that of a server that is restarted

    async def list_tools(_: web.Request, body: Json) -> web.StreamResponse:
        return reply(body, {**complete, "tools": tools})

    script.on |= {"server/discover": discover, "subscriptions/listen": listen, "tools/list": list_tools}
    with scripted_aside(script):
        gateway = start(servers={"up": {"url": script.url, "type": "http"}})
        gateway.up()
        assert gateway.tool_names() == ["up__before"]
        tools[0]["name"] = "after"
        gateway.expect("notifications/tools/list_changed")
        assert gateway.tool_names() == ["up__after"]
        until(lambda: len(script.got("tools/list")) > 2, "another look")
        gateway.ping()
        assert not gateway.got("notifications/tools/list_changed")[1:], "said though nothing had changed"
