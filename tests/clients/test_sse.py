"""The HTTP+SSE transport against real sockets: an SDK server, and scripted ones for what goes wrong."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from clients.causes import GaveUp, Lost
from clients.negotiation import read_listing
from gateway.protocol.frames import result
from tests.clients.web import (
    DEADLINE,
    INTRODUCTION,
    Failed,
    Json,
    Script,
    answer,
    event,
    linked,
    run,
    scripted,
    sdk,
    stream,
)

FAITHFUL = (
    b'{"zeta":1.00,"content":[],"big":' + b"7" * 70 + b',"half":"\\ud83d","exp":1E+2,"_meta":{"x/y":[]},"alpha":null}'
)


class Events:
    """A scripted SSE server: one stream at a time, answers on it."""

    def __init__(self, script: Script, endpoint: str = "/messages?s=1") -> None:
        self.endpoint = endpoint
        self.response: web.StreamResponse | None = None
        self.over = asyncio.Event()
        self.script = script
        self.results: dict[str, bytes] = {
            "initialize": json.dumps(INTRODUCTION).encode(),
            "tools/list": b'{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}',
        }
        self.status = 202
        script.respond = self.handle

    async def get(self, request: web.Request) -> web.StreamResponse:
        self.over.clear()
        announced = b"event: endpoint\ndata: %b\n\n" % self.endpoint.encode()
        self.response = await stream(request, announced)
        await self.over.wait()
        return self.response

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return await self.get(request)
        body: Json = json.loads(await request.read())
        self.script.requests.append((request.method, request.headers.copy(), body))
        method = body.get("method", "")
        if self.status != 202 and method not in self.results:
            return web.Response(status=self.status, text="so sorry")
        if method in self.results:
            await self.say(event(answer(body, self.results[method])))
        return web.Response(status=202, text="Accepted")

    async def say(self, data: bytes) -> None:
        assert self.response is not None
        await self.response.write(data)


@pytest.mark.parametrize("transport", ["sse", "auto"])
def test_an_sdk_server_lists_and_answers(transport: Any) -> None:
    async def scenario() -> None:
        async with linked(server.url, transport, era=None, capabilities=b'{"elicitation":{}}') as link:
            assert link.info is not None
            listing = await read_listing(link.connection, link.info, timeout=DEADLINE)
            assert link.info.era == "session"
            assert (len(listing.tools), len(listing.prompts), len(listing.resources)) == (7, 1, 1)
            assert await link.text("echo", text="zoë") == "zoë"
            assert len(await link.text("big", size=12_000_000)) == 12_000_000
            call = link.call("count", to=5)
            await call.result
            assert len(call.progress) == 5

    with sdk("sse") as server:
        run(scenario)


def test_a_question_reaches_us_and_its_answer_the_server() -> None:
    async def scenario() -> None:
        async with linked(server.url, "sse", capabilities=b'{"elicitation":{}}') as link:
            call = link.call("ask")
            question, origin = await link.heard.questions.get()
            assert (question.method, origin) == ("elicitation/create", None)
            link.connection.write(result(question.id, b'{"action":"accept","content":{"colour":"red"}}'))
            assert b"accept red" in await call.result

    with sdk("sse") as server:
        run(scenario)


def test_a_cancelled_call_is_cancelled_upstream() -> None:
    async def scenario() -> None:
        async with linked(server.url, "sse") as link:
            call = link.call("hang")
            await link.text("echo", text="later")  # the call has arrived by now, or is on its way
            assert call.exchange is not None
            link.connection.cancel(call.exchange, {})
            while await link.text("cancellations") != "1":
                await asyncio.sleep(0.05)

    with sdk("sse") as server:
        run(scenario)


def test_what_the_server_says_arrives_as_it_was_spelled() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            server = Events(script)
            server.results["tools/call"] = FAITHFUL
            async with linked(script.url, "sse") as link:
                assert await link.call("work").result == FAITHFUL

    run(scenario)


def test_nothing_overtakes_the_end_of_the_handshake() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            Events(script)
            async with linked(script.url, "sse") as link:
                assert link.info is not None
                await read_listing(link.connection, link.info, timeout=DEADLINE)
                methods = [body["method"] for _, _, body in script.requests]
                assert methods == ["initialize", "notifications/initialized", "tools/list"]

    run(scenario)


def test_headers_of_the_entry_go_with_every_request() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            Events(script)
            async with linked(script.url, "sse", headers={"Authorization": "Bearer zoë"}) as link:
                await link.connection.request("tools/list", timeout=DEADLINE)
            assert all(headers["Authorization"] == "Bearer zoë" for _, headers, _ in script.requests)
            assert script.requests[-1][1]["MCP-Protocol-Version"] == "2025-11-25"

    run(scenario)


def test_an_endpoint_at_another_origin_gets_nothing() -> None:
    async def scenario() -> None:
        async with scripted() as script, scripted() as other:
            Events(script, endpoint=other.url)
            with pytest.raises(GaveUp, match="another origin"):
                async with linked(script.url, "sse"):
                    pass
            assert other.requests == []

    run(scenario)


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_credentials_says_so(status: int) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"WWW-Authenticate": "Bearer realm=x"})

    async def scenario() -> None:
        async with scripted() as script:
            script.respond = refuse
            with pytest.raises(GaveUp, match="needs auth") as raised:
                async with linked(script.url, "sse"):
                    pass
            assert "Authorization" in raised.value.fix

    run(scenario)


def test_retry_after_is_carried() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=503, headers={"Retry-After": "7"})

    async def scenario() -> None:
        async with scripted() as script:
            script.respond = refuse
            with pytest.raises(Lost) as raised:
                async with linked(script.url, "sse"):
                    pass
            assert raised.value.retry_after == 7

    run(scenario)


def test_a_redirect_is_followed_within_the_origin_only() -> None:
    async def scenario() -> None:
        async with scripted() as script, scripted() as other:
            server = Events(script)
            where = "/elsewhere"

            async def redirect(request: web.Request) -> web.StreamResponse:
                if request.path == "/mcp":
                    raise web.HTTPTemporaryRedirect(where)
                return await server.handle(request)

            script.respond = redirect
            async with linked(script.url, "sse"):
                pass
            where = other.url
            with pytest.raises(GaveUp, match="another origin"):
                async with linked(script.url, "sse", headers={"Authorization": "secret"}):
                    pass
            assert other.requests == []

    run(scenario)


def test_credentials_in_the_url_go_along_with_a_redirect_and_to_the_endpoint() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            server = Events(script, endpoint=script.url.replace("/mcp", "/messages"))
            seen: set[str | None] = set()

            async def redirect(request: web.Request) -> web.StreamResponse:
                seen.add(request.headers.get("Authorization"))
                if request.path == "/mcp":
                    raise web.HTTPTemporaryRedirect(script.url.replace("/mcp", "/there"))
                return await server.handle(request)

            script.respond = redirect
            async with linked(script.url.replace("//", "//me:p%40ss@"), "sse"):
                pass
            assert seen == {"Basic bWU6cEBzcw=="}

    run(scenario)


def test_a_call_that_met_a_refusal_of_its_credentials_was_not_executed() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            server = Events(script)
            async with linked(script.url, "sse") as link:
                await link.connection.request("tools/list", timeout=DEADLINE)  # the handshake is over
                server.status = 401
                with pytest.raises(Failed) as failed:
                    await link.call("work").result
                assert not failed.value.failure.may_have_executed
                assert "Authorization" in failed.value.failure.advice
                assert isinstance(link.connection.cause, GaveUp)

    run(scenario)


def test_a_server_that_is_not_there_is_named() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            pass
        with pytest.raises(Lost, match=r"connection refused by 127.0.0.1:\d+"):
            async with linked(script.url, "sse"):
                pass

    run(scenario)


def test_a_message_that_is_not_taken_fails_alone() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            server = Events(script)
            async with linked(script.url, "sse") as link:
                server.status = 500
                with pytest.raises(Failed) as failed:
                    await link.call("work").result
                assert failed.value.failure.may_have_executed
                assert "HTTP 500" in failed.value.failure.reason
                await link.connection.request("tools/list", timeout=DEADLINE)

    run(scenario)


@pytest.mark.parametrize("status", [404, 410])
def test_a_call_that_meets_the_end_of_its_session_is_given_back_once(status: int) -> None:
    async def scenario() -> None:
        async with scripted() as script:
            events = Events(script)
            async with linked(script.url, "sse") as link:
                await link.connection.request("tools/list", timeout=DEADLINE)
                events.status = status
                call = link.call("work")
                assert "session" in await link.connection.gone
                assert [exchange.tool for exchange in link.heard.returns] == ["work"]
                assert not call.result.done()
            events.over.set()
            assert len(script.got("tools/call")) == 1

    run(scenario)


REFUSAL = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Method not allowed."}}'


@pytest.mark.parametrize("status", [400, 404, 405])
def test_an_older_server_may_refuse_the_newer_transport_in_json_rpc(status: int) -> None:
    async def scenario() -> None:
        async with scripted() as script:
            events = Events(script)

            async def respond(request: web.Request) -> web.StreamResponse:
                if request.method == "POST" and request.path == "/mcp":
                    return web.Response(status=status, body=REFUSAL, content_type="application/json")
                return await events.handle(request)

            script.respond = respond
            async with linked(script.url, "auto", era=None) as link:
                assert link.info is not None
                assert link.info.era == "session"
            events.over.set()

    run(scenario)


def test_a_refusal_in_json_rpc_counts_where_there_is_no_older_transport_either() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.Response(status=405)
        return web.Response(status=400, body=REFUSAL, content_type="application/json")

    async def scenario() -> None:
        async with scripted() as script:
            script.respond = refuse
            async with linked(script.url, "auto", introduced=False) as link:
                with pytest.raises(Lost, match=r"initialize was refused.*not allowed"):
                    await link.introduce(None)

    run(scenario)


def test_a_stream_that_ends_is_a_connection_lost() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            server = Events(script)
            async with linked(script.url, "sse") as link:
                call = link.call("work")
                while not script.got("tools/call"):
                    await asyncio.sleep(0.005)
                server.over.set()
                assert "closed its event stream" in await link.connection.gone
                with pytest.raises(Failed):
                    await call.result

    run(scenario)


def test_a_killed_server_is_lost_and_found_again_on_its_port() -> None:
    async def scenario() -> None:
        first = sdk("sse")
        server = first.__enter__()
        async with linked(server.url, "sse") as link:
            call = link.call("hang")
            server.kill()
            await link.connection.gone
            if call.exchange not in link.heard.returns:  # else it was not begun to be sent, and may be sent again
                with pytest.raises(Failed):
                    await call.result
        with sdk("sse", server.port):
            async with linked(server.url, "sse") as link:
                assert await link.text("echo", text="back") == "back"

    run(scenario)


def test_an_event_over_the_limit_fails_its_call_and_no_other() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            server = Events(script)
            server.results["tools/call"] = b'{"content":"' + b"x" * 300_000 + b'"}'
            async with linked(script.url, "sse", limit=100_000) as link:
                with pytest.raises(Failed, match="size limit"):
                    await link.call("work").result
                await link.connection.request("tools/list", timeout=DEADLINE)

    run(scenario)


def test_neither_transport_at_the_address_names_both() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="nothing here")

    async def scenario() -> None:
        async with scripted() as script:
            script.respond = refuse
            async with linked(script.url, "auto", introduced=False) as link:
                with pytest.raises(Lost, match=r"neither Streamable HTTP .*nothing here.* nor SSE"):
                    await link.introduce(None)

    run(scenario)
