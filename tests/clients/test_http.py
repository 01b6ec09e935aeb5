"""Streamable HTTP of both eras against real sockets: an SDK server, and scripted ones for what goes wrong."""

import asyncio
import gc
import gzip
import json
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp.shared import inbound

from clients.causes import GaveUp, Lost
from clients.negotiation import read_listing
from clients.transports.http import SHORTEST_PAUSE
from configs.models import Server, Source, Transport
from gateway.protocol.frames import result
from tests.clients.web import (
    DEADLINE,
    INTRODUCTION,
    LIMIT,
    Error,
    Failed,
    Json,
    Link,
    Respond,
    Script,
    answer,
    event,
    linked,
    reply,
    run,
    scripted,
    sdk,
    stream,
)

FAITHFUL = (
    b'{"zeta":1.00,"content":[],"big":' + b"7" * 70 + b',"half":"\\ud83d","exp":1E+2,"_meta":{"x/y":[]},"alpha":null}'
)
WORK = {"name": "work", "inputSchema": {"type": "object"}}


def status(code: int, text: str = "", **headers: str) -> Respond:
    async def respond(request: web.Request, body: Json) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, text=text, headers=named)

    return respond


# Real servers


@pytest.mark.parametrize("mode", ["http", "json"])
@pytest.mark.parametrize("era", ["session", None])
@pytest.mark.parametrize("transport", ["http", "auto"])
def test_an_sdk_server_lists_and_answers(mode: str, era: Any, transport: Any) -> None:
    async def scenario() -> None:
        async with linked(server.url, transport, era=era) as link:
            assert link.info is not None
            assert link.info.era == (era or "stateless")
            listing = await read_listing(link.connection, link.info, timeout=DEADLINE)
            assert (len(listing.tools), len(listing.prompts), len(listing.resources)) == (7, 1, 1)
            assert await link.text("echo", text="zoë") == "zoë"
            assert len(await link.text("big", size=12_000_000)) == 12_000_000
            if mode == "http":
                call = link.call("count", to=5)
                await call.result
                assert len(call.progress) == 5
            read = link.begin("resources/read", b'{"uri":"test://note"}')
            assert b"a note" in await read.result
            prompt = link.begin("prompts/get", b'{"name":"greet","arguments":{"name":"you"}}')
            assert b"Hello you" in await prompt.result

    with sdk(mode) as server:
        run(scenario)


def test_a_question_comes_on_the_stream_of_its_call() -> None:
    async def scenario() -> None:
        async with linked(server.url, capabilities=b'{"elicitation":{}}') as link:
            call = link.call("ask")
            question, origin = await link.heard.questions.get()
            assert question.method == "elicitation/create"
            assert origin is call.exchange
            link.connection.write(result(question.id, b'{"action":"accept","content":{"colour":"red"}}'))
            assert b"accept red" in await call.result

    with sdk("http") as server:
        run(scenario)


@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_cancelled_call_is_cancelled_upstream(era: Any) -> None:
    async def scenario() -> None:
        async with linked(server.url, era=era) as link:
            call = link.call("hang")
            await link.text("echo", text="later")
            assert call.exchange is not None
            link.connection.cancel(call.exchange, {})
            while await link.text("cancellations") != "1":
                await asyncio.sleep(0.05)

    with sdk("http") as server:
        run(scenario)


def test_many_calls_at_once_are_all_answered() -> None:
    async def scenario() -> None:
        async with linked(server.url) as link:
            calls = [link.call("echo", text=str(number)) for number in range(200)]
            texts = [json.loads(await call.result)["content"][0]["text"] for call in calls]
            assert texts == [str(number) for number in range(200)]

    with sdk("http") as server:
        run(scenario)


def test_a_restarted_server_is_noticed_and_its_call_given_back() -> None:
    async def scenario() -> None:
        first = sdk("http")
        server = first.__enter__()
        async with linked(server.url) as link:
            call = link.call("hang")
            await link.text("echo", text="up")
            server.kill()
            with pytest.raises(Failed) as failed:
                await call.result
            assert failed.value.failure.may_have_executed
            with sdk("http", server.port):
                # Either the broken stream told us already, or this call meets a server that does not know us.
                again = link.call("echo", text="x")
                await link.connection.gone
                assert link.heard.returns == [again.exchange] or again.result.exception() is not None
        with sdk("http", server.port):
            async with linked(server.url) as link:
                assert await link.text("echo", text="back") == "back"

    run(scenario)


# Scripted ones: what is sent


def test_the_session_and_the_version_go_with_every_request_after_the_handshake() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            async with linked(script.url, headers={"Authorization": "Bearer zoë", "Accept": "nothing"}) as link:
                assert link.info is not None
                await read_listing(link.connection, link.info, timeout=DEADLINE)
            methods = [body.get("method", verb) for verb, _, body in script.requests if verb != "GET"]
            assert methods == ["initialize", "notifications/initialized", "tools/list", "DELETE"]
            first = script.requests[0][1]
            assert "Mcp-Session-Id" not in first
            for verb, headers, _ in script.requests:
                assert headers["Authorization"] == "Bearer zoë"
                if verb == "POST":
                    assert headers["Accept"] == "application/json, text/event-stream"
                if headers is not first:
                    assert headers["Mcp-Session-Id"] == "session-1"
                    assert headers["MCP-Protocol-Version"] == "2025-11-25"

    run(scenario)


def stateless(script: Script, *tools: Json) -> None:
    async def discover(request: web.Request, body: Json) -> web.StreamResponse:
        return reply(body, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})

    async def listing(request: web.Request, body: Json) -> web.StreamResponse:
        return reply(body, {"tools": tools})

    script.on |= {"server/discover": discover, "tools/list": listing}


def test_the_stateless_era_mirrors_the_body_in_headers() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        },
    }

    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert isinstance(inbound.classify_inbound_request(body, headers=headers), inbound.InboundModernRoute)
        refusal = inbound.validate_mcp_param_headers(schema, body["params"]["arguments"], headers)
        assert refusal is None, refusal
        return reply(body, {"content": [], "resultType": "complete"})

    async def scenario() -> None:
        async with scripted() as script:
            stateless(script, {"name": "wörk", "inputSchema": schema})
            script.on["tools/call"] = work
            async with linked(script.url, era=None) as link:
                assert link.info is not None
                await read_listing(link.connection, link.info, timeout=DEADLINE)
                await link.call("wörk", region="tōkyō", deep={"n": 4}).result
                await link.call("wörk", region=" x ").result
            assert {verb for verb, _, _ in script.requests} == {"POST"}
            assert not any("Mcp-Session-Id" in headers for _, headers, _ in script.requests)
            call = script.got("tools/call")[0][0]
            assert call["Mcp-Method"] == "tools/call"
            assert call["Mcp-Param-N"] == "4"
            assert call["Mcp-Param-Region"].startswith("=?base64?")

    run(scenario)


def test_a_tool_whose_headers_could_not_be_sent_is_left_out() -> None:
    def asking(name: str, kind: str) -> Json:
        return {"name": name, "inputSchema": {"properties": {"x": {"type": kind, "x-mcp-header": "X"}}}}

    async def scenario() -> None:
        async with scripted() as script:
            stateless(script, asking("good", "string"), asking("bad", "array"), {"name": "plain", "inputSchema": {}})
            async with linked(script.url, era=None) as link:
                assert link.info is not None
                listing = await read_listing(link.connection, link.info, timeout=DEADLINE)
                assert [json.loads(tool)["name"] for tool in listing.tools] == ["good", "plain"]

    run(scenario)


@pytest.mark.parametrize("yields", [True, False])
def test_a_refusal_that_names_our_version_is_asked_again_once(yields: bool) -> None:
    script = Script()
    refused = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"}}

    async def refuse(request: web.Request, body: Json) -> web.StreamResponse:
        if len(script.got("server/discover")) == 2 and yields:
            return reply(body, {"supportedVersions": ["2026-07-28"], "capabilities": {}})
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "error": refused}, status=400)

    async def scenario() -> None:
        async with scripted(script):
            async with linked(script.url, era=None) as link:
                assert link.info is not None
                assert link.info.era == ("stateless" if yields else "session")
            assert len(script.got("server/discover")) == 2

    script.on["server/discover"] = refuse
    run(scenario)


def test_a_call_of_the_stateless_era_is_cancelled_by_closing_its_stream() -> None:
    closed = asyncio.Event()
    begun = asyncio.Event()

    async def hang(request: web.Request, body: Json) -> web.StreamResponse:
        response = await stream(request, b": begun\n\n")
        begun.set()
        try:
            while True:
                await response.write(b": still\n\n")
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    async def scenario() -> None:
        async with scripted() as script:
            stateless(script, WORK)
            script.on["tools/call"] = hang
            async with linked(script.url, era=None) as link:
                call = link.call("work")
                await begun.wait()
                assert call.exchange is not None
                link.connection.cancel(call.exchange, {})
                await closed.wait()
            assert script.got("notifications/cancelled") == []

    run(scenario)


# What is answered


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_what_the_server_says_arrives_as_it_was_spelled(as_stream: bool, packed: bool) -> None:
    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        payload = answer(body, FAITHFUL)
        data = event(payload) if as_stream else payload
        kind = "text/event-stream" if as_stream else "application/json"
        headers = {"Content-Encoding": "gzip"} if packed else {}
        return web.Response(body=gzip.compress(data) if packed else data, content_type=kind, headers=headers)

    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = work
            async with linked(script.url) as link:
                assert await link.call("work").result == FAITHFUL

    run(scenario)


@pytest.mark.parametrize("code", [400, 404, 500])
@pytest.mark.parametrize("id", ["its own", None, "server-error"])
def test_an_error_in_the_body_of_an_error_is_the_answer(code: int, id: str | None) -> None:
    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        given = body["id"] if id == "its own" else id
        error = {"code": -32601, "message": "no such thing", "data": {"x": 1}}
        return web.json_response({"jsonrpc": "2.0", "id": given, "error": error}, status=code)

    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = work
            async with linked(script.url) as link:
                with pytest.raises(Error) as refused:
                    await link.call("work").result
                assert json.loads(refused.value.raw) == {"code": -32601, "message": "no such thing", "data": {"x": 1}}
                assert not link.connection.gone.done()

    run(scenario)


@pytest.mark.parametrize(("code", "executed"), [(500, True), (502, True), (503, True), (429, False), (413, False)])
def test_a_status_without_a_message_fails_its_request_alone(code: int, executed: bool) -> None:
    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = status(code, "went wrong with s3cret", Retry_After="9")
            async with linked(script.url, secrets=frozenset({"s3cret"})) as link:
                with pytest.raises(Failed) as failed:
                    await link.call("work").result
                failure = failed.value.failure
                assert failure.may_have_executed is executed
                assert f"HTTP {code}" in failure.reason
                assert "went wrong with ***" in failure.reason
                assert failure.message.endswith("Try again in 9 s.")
                await link.connection.request("tools/list", timeout=DEADLINE)

    run(scenario)


def test_a_byte_order_mark_and_an_id_spelled_as_text_are_read_past() -> None:
    async def marked(request: web.Request, body: Json) -> web.StreamResponse:
        answer = b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"%d","result":{"spelled":1.0}}' % body["id"]
        return web.Response(body=answer, content_type="application/json")

    async def scenario() -> None:
        async with scripted() as script, linked(script.url) as link:
            script.on["tools/call"] = marked
            assert await link.call("work").result == b'{"spelled":1.0}'

    run(scenario)


def test_an_answer_that_is_none_says_so() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = status(200, "<html>")
            async with linked(script.url) as link:
                with pytest.raises(Failed, match="no JSON-RPC"):
                    await link.call("work").result
                assert link.channel.noise.count == 1

    run(scenario)


def test_a_connection_closed_before_the_answer_may_have_executed() -> None:
    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = work
            async with linked(script.url) as link:
                with pytest.raises(Failed) as failed:
                    await link.call("work").result
                assert failed.value.failure.may_have_executed
            assert len(script.got("tools/call")) == 1

    run(scenario)


# What ends a connection


def test_a_server_that_is_not_there_is_named_and_nothing_was_sent() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            pass
        async with linked(script.url, introduced=False) as link:
            with pytest.raises(Lost, match=r"connection refused by 127.0.0.1:\d+"):
                await link.introduce("session")
            assert isinstance(link.connection.cause, Lost)

    run(scenario)


def test_a_server_that_went_away_is_lost_and_a_call_not_sent_is_given_back_once() -> None:
    async def scenario() -> None:
        async with Stoppable() as (script, stop), linked(script.url) as link:
            await stop()
            call = link.call("work")
            assert "connection refused" in await link.connection.gone
            assert link.heard.returns == [call.exchange]
            assert not call.result.done()
            assert call.exchange is not None
            assert call.exchange.resent
        async with Stoppable() as (script, stop), linked(script.url) as link:
            await stop()
            again = link.call("work")
            assert again.exchange is not None
            again.exchange.resent = True
            with pytest.raises(Failed) as failed:
                await again.result
            assert not failed.value.failure.may_have_executed
            assert link.heard.returns == []

    run(scenario)


class Stoppable:
    """A scripted server that may be stopped before its end."""

    async def __aenter__(self) -> tuple[Script, Any]:
        self._server = scripted()
        self._stopped = False
        return await self._server.__aenter__(), self.stop

    async def stop(self) -> None:
        self._stopped = True
        await self._server.__aexit__(None, None, None)

    async def __aexit__(self, *_: object) -> None:
        if not self._stopped:
            await self.stop()


@pytest.mark.parametrize("era", ["session", None])
@pytest.mark.parametrize("code", [401, 403])
def test_a_server_that_wants_credentials_is_given_up(code: int, era: Any) -> None:
    async def scenario() -> None:
        async with scripted() as script:
            refuse = status(code, WWW_Authenticate="Bearer realm=x")
            script.on |= {"initialize": refuse, "server/discover": refuse}
            async with linked(script.url, introduced=False) as link:
                with pytest.raises((Lost, GaveUp)):
                    await link.introduce(era)
                cause = link.connection.cause
                assert isinstance(cause, GaveUp)
                assert "needs auth" in cause.reason
                assert "Authorization" in cause.fix
            assert len(script.requests) == 1

    run(scenario)


def test_credentials_that_run_out_end_the_connection() -> None:
    async def scenario() -> None:
        async with scripted() as script, linked(script.url) as link:
            script.on["tools/call"] = status(401)
            with pytest.raises(Failed):
                await link.call("work").result
            assert isinstance(link.connection.cause, GaveUp)

    run(scenario)


def test_a_call_that_met_a_refusal_of_its_credentials_was_not_executed() -> None:
    async def scenario() -> None:
        async with scripted() as script, linked(script.url) as link:
            script.on["tools/call"] = status(401)
            with pytest.raises(Failed) as failed:
                await link.call("work").result
            assert not failed.value.failure.may_have_executed
            assert "Authorization" in failed.value.failure.advice

    run(scenario)


def test_a_call_that_is_forbidden_fails_alone() -> None:
    async def scenario() -> None:
        async with scripted() as script, linked(script.url) as link:
            script.on["tools/call"] = status(403)
            with pytest.raises(Failed) as failed:
                await link.call("work").result
            assert "403" in str(failed.value)
            assert "do not allow it" in str(failed.value)
            assert link.connection.cause is None
            del script.on["tools/call"]
            with pytest.raises(Error):  # the server's own, so it is still asked
                await link.call("work").result

    run(scenario)


def test_a_list_that_is_forbidden_ends_the_connection() -> None:
    async def scenario() -> None:
        async with scripted() as script, linked(script.url) as link:
            script.on["tools/list"] = status(403)
            with pytest.raises(Failed):
                await link.begin("tools/list", b"{}").result
            assert isinstance(link.connection.cause, GaveUp)

    run(scenario)


def test_retry_after_is_carried() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            script.on["initialize"] = status(429, Retry_After="11")
            async with linked(script.url, introduced=False) as link:
                with pytest.raises(Lost):
                    await link.introduce("session")
                assert isinstance(link.connection.cause, Lost)
                assert link.connection.cause.retry_after == 11

    run(scenario)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_is_followed_within_the_origin_only(code: int) -> None:
    async def scenario() -> None:
        async with scripted() as script, scripted() as other:
            where = "/mcp/"

            async def redirect(request: web.Request) -> web.StreamResponse:
                if request.path == "/mcp":
                    return web.Response(status=code, headers={"Location": where})
                return await script.handle(request)

            script.respond = redirect
            async with linked(script.url) as link:
                await link.connection.request("tools/list", timeout=DEADLINE)
            where = other.url
            async with linked(script.url, headers={"Authorization": "s"}, introduced=False) as link:
                with pytest.raises(Lost):
                    await link.introduce("session")
                assert isinstance(link.connection.cause, GaveUp)
                assert "another origin" in link.connection.cause.reason
            assert other.requests == []

    run(scenario)


def test_credentials_in_the_url_go_along_with_a_redirect() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            seen: set[str | None] = set()

            async def redirect(request: web.Request) -> web.StreamResponse:
                seen.add(request.headers.get("Authorization"))
                if request.path == "/mcp":
                    return web.Response(status=307, headers={"Location": script.url.replace("/mcp", "/there")})
                return await script.handle(request)

            script.respond = redirect
            async with linked(script.url.replace("//", "//me:p%40ss@")) as link:
                await link.connection.request("tools/list", timeout=DEADLINE)
            assert seen == {"Basic bWU6cEBzcw=="}

    run(scenario)


@pytest.mark.parametrize(
    ("said", "reason"),
    [(b"SSH-2.0-OpenSSH_9.6\r\n", "what answers at its url does not speak HTTP"), (b"", "closed the connection")],
)
def test_what_is_no_web_server_is_said_in_one_line(said: bytes, reason: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            for scheme in ("http", "https"):
                async with linked(f"{scheme}://{place}/", introduced=False) as link:
                    with pytest.raises(Lost) as lost:
                        await link.introduce("session")
                    assert "\n" not in lost.value.reason
                    if scheme == "http":
                        assert reason in lost.value.reason
                    else:
                        assert lost.value.reason.startswith(f"could not connect to {place}: ")

    run(scenario)


@pytest.mark.parametrize(
    "headers", [{"X-A": "a\r\nX-B: b"}, {"X-A": "a\nb"}, {"X A": "a"}, {"X-A:": "a"}, {"X-A": "a\0"}]
)
def test_a_header_that_is_none_is_refused_before_anything_is_sent(headers: dict[str, str]) -> None:
    async def scenario() -> None:
        async with scripted() as script:
            for transport in ("http", "sse", "auto"):
                with pytest.raises(GaveUp) as raised:
                    async with linked(script.url, transport, headers=headers):
                        pass
                assert "a\r" not in raised.value.reason
            assert script.requests == []

    run(scenario)


# Sessions that end


@pytest.mark.parametrize("words", [None, "Bad Request: No valid session ID provided"])
def test_a_call_that_meets_the_end_of_its_session_is_given_back_once(words: str | None) -> None:
    async def expired(request: web.Request, body: Json) -> web.StreamResponse:
        if words is None:
            return web.Response(status=404)
        error = {"code": -32000, "message": words}
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "error": error}, status=400)

    async def scenario() -> None:
        async with scripted() as script:
            async with linked(script.url) as link:
                script.on["tools/call"] = expired
                first, second = link.call("work"), link.call("work")
                assert "session" in await link.connection.gone
                assert link.connection.cause is not None
                assert isinstance(link.connection.cause, Lost)
                assert link.connection.cause.keep
                assert set(link.heard.returns) == {first.exchange, second.exchange}
                assert not first.result.done()
            async with linked(script.url) as link:
                assert first.exchange is not None
                link.connection.send(first.exchange, DEADLINE)
                with pytest.raises(Failed) as failed:
                    await first.result
                assert not failed.value.failure.may_have_executed
                assert link.heard.returns == []

    run(scenario)


# Streams that break


async def cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


def test_a_broken_answer_is_resumed_where_it_broke() -> None:
    waiting: list[Json] = []
    resumed: list[str] = []

    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        waiting.append(body)
        response = await stream(request, b"id: 41\nretry: 10\ndata:\n\n", b"id: 42\ndata: half an ev")
        await cut(request)
        return response

    async def resume(request: web.Request, body: Json) -> web.StreamResponse:
        if "Last-Event-ID" not in request.headers:
            return web.Response(status=405)
        resumed.append(request.headers["Last-Event-ID"])
        if len(resumed) == 1:
            return await stream(request, b"id: 43\ndata:\n\n")
        return await stream(request, event(answer(waiting[0], FAITHFUL), "44"))

    async def scenario() -> None:
        async with scripted() as script:
            script.on |= {"tools/call": work, "GET": resume}
            async with linked(script.url) as link:
                assert await link.call("work").result == FAITHFUL
            assert resumed == ["41", "43"]
            assert len(waiting) == 1

    run(scenario)


def test_a_broken_answer_without_ids_fails_and_may_have_executed() -> None:
    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        return await stream(request, event(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'))

    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = work
            async with linked(script.url) as link:
                with pytest.raises(Failed, match="broke off") as failed:
                    await link.call("work").result
                assert failed.value.failure.may_have_executed
                assert (await link.heard.notices.get())[0] == "notifications/message"

    run(scenario)


def test_the_stream_we_listen_to_is_resumed_for_as_long_as_the_server_lives() -> None:
    asked: list[str | None] = []

    async def listen(request: web.Request, body: Json) -> web.StreamResponse:
        asked.append(request.headers.get("Last-Event-ID"))
        number = len(asked)
        note = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":%d}}' % number
        question = b'{"jsonrpc":"2.0","id":"q%d","method":"roots/list"}' % number
        response = await stream(request, b"retry: 5\n", event(note, f"{number}a"), event(question, f"{number}b"))
        if number % 2:
            await cut(request)
        return response

    async def scenario() -> None:
        async with scripted() as script:
            script.on["GET"] = listen
            async with linked(script.url) as link:
                for number in range(1, 6):
                    method, params = await link.heard.notices.get()
                    assert (method, params) == ("notifications/tools/list_changed", b'{"n":%d}' % number)
                    question, origin = await link.heard.questions.get()
                    assert (question.id, origin) == (b'"q%d"' % number, None)
            assert asked[:3] == [None, "1b", "2b"]

    run(scenario)


def test_a_server_that_wants_no_pause_between_its_streams_does_not_get_us_running_in_circles() -> None:
    asked: list[float] = []

    async def listen(request: web.Request, body: Json) -> web.StreamResponse:
        asked.append(asyncio.get_running_loop().time())
        return await stream(request, b"retry: 0\n\n")

    async def scenario() -> None:
        async with scripted() as script:
            script.on["GET"] = listen
            async with linked(script.url) as link:
                while len(asked) < 5:
                    await link.connection.request("tools/list", timeout=DEADLINE)
        assert asked[4] - asked[0] >= 4 * SHORTEST_PAUSE * 0.9  # a pause is never shorter than it is

    run(scenario)


def test_a_session_that_ended_is_noticed_by_who_listens() -> None:
    times = 0

    async def listen(request: web.Request, body: Json) -> web.StreamResponse:
        nonlocal times
        times += 1
        return await stream(request, b"retry: 5\n\n") if times == 1 else web.Response(status=404)

    async def scenario() -> None:
        async with scripted() as script:
            script.on["GET"] = listen
            async with linked(script.url) as link:
                assert "session" in await link.connection.gone

    run(scenario)


# Proxies


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "ftp://127.0.0.1", "http://127.0.0.1:port", "http://"])
def test_a_proxy_that_is_none_we_speak_to_is_named(
    monkeypatch: pytest.MonkeyPatch, transport: Transport, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)

    async def scenario() -> None:
        with pytest.raises(GaveUp, match="proxy") as gave_up:
            async with linked("http://upstream.test/mcp", transport, introduced=False):
                raise AssertionError("opened")
        assert "no_proxy" in gave_up.value.fix

    run(scenario)


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_proxy_may_be_written_without_its_scheme(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async def scenario() -> None:
        async with scripted() as script:
            monkeypatch.setenv("http_proxy", scheme + script.url.removeprefix("http://").removesuffix("/mcp"))
            async with linked("http://upstream.test/mcp"):
                assert script.got("initialize")[0][0]["Host"] == "upstream.test"

    run(scenario)


# Sizes


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_over_the_limit_fails_its_call_and_no_other(as_stream: bool, packed: bool) -> None:
    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        payload = answer(body, b'{"content":"' + b"x" * 1_000_000 + b'"}')
        data = event(payload) if as_stream else payload
        kind = "text/event-stream" if as_stream else "application/json"
        headers = {"Content-Encoding": "gzip"} if packed else {}
        return web.Response(body=gzip.compress(data) if packed else data, content_type=kind, headers=headers)

    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = work
            async with linked(script.url, limit=100_000) as link:
                with pytest.raises(Failed, match="size limit"):
                    await link.call("work").result
                await link.connection.request("tools/list", timeout=DEADLINE)

    run(scenario)


def test_a_small_body_that_unpacks_to_gigabytes_is_stopped() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first, again = (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + again * 4095

    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        return web.Response(body=bomb, content_type="application/json", headers={"Content-Encoding": "gzip"})

    async def scenario() -> None:
        async with scripted() as script:
            script.on["tools/call"] = work
            async with linked(script.url, limit=8 << 20) as link:
                with pytest.raises(Failed, match="size limit"):
                    await link.call("work").result
                await link.connection.request("tools/list", timeout=DEADLINE)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(scenario)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024


# The older transport behind the same address


def test_what_only_refuses_the_newest_question_stays_streamable() -> None:
    async def scenario() -> None:
        async with scripted() as script:
            script.on["server/discover"] = status(400, "Bad Request")
            async with linked(script.url, "auto", era=None) as link:
                assert link.info is not None
                assert (link.info.era, link.info.version) == ("session", INTRODUCTION["protocolVersion"])
            assert script.got("initialize")

    run(scenario)


def test_a_close_that_is_stopped_in_the_middle_leaves_nothing_open() -> None:
    async def scenario() -> None:
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        asked, never = asyncio.Event(), asyncio.Event()

        async def silent(request: web.Request, body: Json) -> web.StreamResponse:
            asked.set()
            await never.wait()
            return web.Response()

        async with scripted() as script:
            script.on["initialize"] = silent
            link = Link(Server("up", "http", Source(None, "builtin"), url=script.url), LIMIT)
            await link.channel.open(Path.cwd())
            link.begin("initialize", b"{}")
            await asked.wait()
            link.connection.lost("closed")
            closing = asyncio.create_task(link.channel.close())
            await asyncio.sleep(0)  # it waits for what was under way
            closing.cancel()
            await asyncio.wait([closing])
            del link, closing
            never.set()
        gc.collect()
        assert not [said for said in complaints if said.startswith("Unclosed")]

    run(scenario)
