"""The real SDK's clients against the endpoint: Streamable HTTP of both eras, and HTTP+SSE."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests.client import DEADLINE
from tests.http.inside import Inside
from tests.http.wire import TOKEN
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def a(puppet: Make) -> Puppet:
    one = puppet("a", tools=[tool("work")], resources=[{"uri": "file:///x", "name": "x"}])
    one.on("tools/call", lambda asked: {"result": {"content": [{"type": "text", "text": asked.params["name"]}]}})
    one.on("resources/read", lambda _: {"result": {"contents": [{"uri": "file:///x", "text": "read"}]}})
    return one


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", None)])
def test_its_streamable_client_lists_calls_and_reads(inside: Within, a: Puppet, mode: Any, version: str | None) -> None:
    url = f"http://127.0.0.1:{inside(a).port}/mcp"

    async def run() -> None:
        async with (
            httpx2.AsyncClient(headers=AUTHORIZATION, timeout=DEADLINE) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            assert version is None or client.protocol_version == version
            assert [one.name for one in (await client.list_tools()).tools] == ["a__work"]
            answer: Any = await client.call_tool("a__work", {})
            assert answer.content[0].text == "work"
            read: Any = await client.read_resource("file:///x")
            assert read.contents[0].text == "read"

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_its_sse_client_lists_and_calls(inside: Within, a: Puppet) -> None:
    url = f"http://127.0.0.1:{inside(a).port}/sse"

    async def run() -> None:
        async with (
            sse_client(url, headers=AUTHORIZATION, timeout=DEADLINE) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            assert [one.name for one in (await session.list_tools()).tools] == ["a__work"]
            answer: Any = await session.call_tool("a__work", {})
            assert answer.content[0].text == "work"

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


def test_the_older_pair_carries_progress_and_ends_with_its_stream(inside: Within, a: Puppet) -> None:
    one = inside(a)
    a.forget("tools/call")
    stream = one.site.ask("GET", "/sse")
    first = stream.event()
    assert first is not None
    assert first.kind == "endpoint"

    def post(frame: Any) -> None:
        assert one.site.post({"jsonrpc": "2.0", **frame}, path=first.data).status == 202

    params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    post({"id": 1, "method": "initialize", "params": params})
    assert stream.next().result["protocolVersion"] == "2024-11-05"
    post({"method": "notifications/initialized"})
    post({"id": 2, "method": "tools/call", "params": {"name": "a__work", "_meta": {"progressToken": "p"}}})
    asked = a.expect("tools/call")
    a.tell("notifications/progress", progressToken=asked.params["_meta"]["progressToken"], progress=1)
    assert stream.next().params == {"progressToken": "p", "progress": 1}
    stream.kill()
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    reply = one.site.post({"jsonrpc": "2.0", "id": 3, "method": "ping"}, path=first.data)
    assert reply.status == 404
    assert len(one.endpoint.sessions) == 0
