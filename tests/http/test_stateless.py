"""The stateless era, 2026-07-28, over HTTP: every request stands alone, and its headers repeat what it says."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client import until
from tests.http.inside import Inside
from tests.http.wire import META, PREFIX, STATELESS, Reply, Site
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
TEXT = {"content": [{"type": "text", "text": "done"}]}
MIRROR = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def began(site: Site, name: str, **meta: Any) -> Any:
    """A call whose response is not looked at yet."""
    body = {
        "jsonrpc": "2.0", "id": "c", "method": "tools/call",
        "params": {"name": name, "arguments": {}, "_meta": {**META, **meta}},
    }  # fmt: skip
    sent = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": name}
    return site.begin("POST", None, sent, json.dumps(body).encode())


@pytest.fixture
def a(puppet: Make) -> Iterator[Puppet]:
    yield puppet(
        "a",
        tools=[tool("work"), {"name": "mirror", "inputSchema": MIRROR}],
        resources=[{"uri": "file:///x", "name": "x"}],
        capabilities={"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}, "prompts": {}},
    )


def test_discover_and_lists_say_how_long_they_hold(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    found = site.stateless("server/discover").message.result
    assert found["supportedVersions"] == [STATELESS]
    assert found["resultType"] == "complete"
    for method, key in (
        ("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ):  # fmt: skip
        reply = site.stateless(method)
        assert (reply.status, reply.kind) == (200, "application/json")
        assert reply.headers["Mcp-Session-Id"] is None
        listed = reply.message.result
        assert isinstance(listed[key], list)
        assert listed["resultType"] == "complete"
        assert isinstance(listed["ttlMs"], int)
        assert listed["cacheScope"] in ("public", "private")


def test_a_call_is_answered(inside: Within, a: Puppet) -> None:
    a.on("tools/call", lambda _: {"result": TEXT})
    a.on("resources/read", lambda _: {"result": {"contents": []}})
    site = inside(a).site
    result = site.stateless("tools/call", {"name": "a__work", "arguments": {}}).message.result
    assert result == {"resultType": "complete", **TEXT}
    read = site.stateless("resources/read", {"uri": "file:///x"}).message.result
    assert (read["resultType"], read["ttlMs"], read["cacheScope"]) == ("complete", 0, "private")


def test_headers_must_say_what_the_body_says(inside: Within, a: Puppet) -> None:
    a.on("tools/call", lambda _: {"result": TEXT})
    site = inside(a).site
    site.stateless("tools/list")
    call = {"name": "a__mirror", "arguments": {"region": "eu"}}
    good = {"Mcp-Param-Region": "eu"}
    assert site.stateless("tools/call", call, headers=good).status == 200
    for name, wrong in (
        ("MCP-Protocol-Version", "2025-11-25"), ("MCP-Protocol-Version", "2099-01-01"), ("MCP-Protocol-Version", None),
        ("Mcp-Method", "tools/list"), ("Mcp-Method", None),
        ("Mcp-Name", "a__work"), ("Mcp-Name", None), ("Mcp-Name", "=?base64?!!?="),
        ("Mcp-Param-Region", "us"), ("Mcp-Param-Region", None),
    ):  # fmt: skip
        reply = site.stateless("tools/call", call, headers={**good, name: wrong})
        assert (reply.status, reply.error["code"], reply.json["id"]) == (400, -32020, 1), (name, wrong)
    reply = site.stateless("tools/call", {"name": "a__mirror", "arguments": {}}, headers=good)
    assert reply.error["code"] == -32020
    for name, value in (("Mcp-Name", "a__mirror"), ("Mcp-Method", "tools/call"), ("Mcp-Param-Region", "eu")):
        reply = site.stateless("tools/call", call, headers=good, more=[(name, value)])
        assert (reply.status, reply.error["code"]) == (400, -32020), f"{name} twice"


def test_a_header_may_be_in_base64(inside: Within, a: Puppet) -> None:
    a.on("tools/call", lambda _: {"result": TEXT})
    site = inside(a).site
    site.stateless("tools/list")

    def wrapped(value: str) -> str:
        return f"=?base64?{base64.b64encode(value.encode()).decode()}?="

    call = {"name": "a__mirror", "arguments": {"region": "Köln "}}
    headers = {"Mcp-Name": wrapped("a__mirror"), "Mcp-Param-Region": wrapped("Köln ")}
    assert site.stateless("tools/call", call, headers=headers).status == 200
    assert a.got("tools/call")[0].params["arguments"] == {"region": "Köln "}


def test_a_version_that_nobody_speaks_is_refused_with_those_we_do(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    reply = site.stateless(
        "server/discover",
        meta={f"{PREFIX}protocolVersion": "2099-01-01"},
        headers={"MCP-Protocol-Version": "2099-01-01"},
    )
    assert (reply.status, reply.error["code"]) == (400, -32022)
    assert reply.error["data"] == {"supported": [STATELESS], "requested": "2099-01-01"}


def test_what_is_missing_or_unknown_has_its_status(inside: Within, puppet: Make, a: Puppet) -> None:
    site = inside(a, puppet("b")).site
    for method in ("no/such", "ping", "logging/setLevel", "resources/subscribe"):
        reply = site.stateless(method)
        assert (reply.status, reply.error["code"]) == (404, -32601), method
    reply = site.stateless("tools/call", {"name": "nobody", "arguments": {}})
    assert (reply.status, reply.error["code"]) == (400, -32602)
    frame: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {}}}
    reply = site.post(frame, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/list"})
    assert (reply.status, reply.error["code"]) == (400, -32602)
    frame = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert site.post(frame, {"MCP-Protocol-Version": STATELESS}).status == 202


def test_there_is_no_stream_and_no_session_to_end(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    for method in ("GET", "DELETE"):
        reply = site.ask(method, None, {"MCP-Protocol-Version": STATELESS})
        assert (reply.status, reply.headers["Allow"]) == (405, "POST"), method


def test_a_listener_is_acknowledged_then_told_and_unsubscribed_when_it_goes(inside: Within, a: Puppet) -> None:
    a.on("resources/subscribe", lambda _: {"result": {}})
    a.on("resources/unsubscribe", lambda _: {"result": {}})
    one = inside(a)
    one.site.stateless("tools/list")
    wishes = {"toolsListChanged": True, "resourceSubscriptions": ["file:///x"]}
    stream = one.site.stateless("subscriptions/listen", {"notifications": wishes}, id="mine")
    mark = {f"{PREFIX}subscriptionId": "mine"}
    first = stream.next()
    assert first.method == "notifications/subscriptions/acknowledged"
    assert first.params == {"notifications": wishes, "_meta": mark}
    a.tell("notifications/resources/updated", uri="file:///x")
    updated = stream.next()
    assert (updated.method, updated.params) == (
        "notifications/resources/updated", {"uri": "file:///x", "_meta": mark},
    )  # fmt: skip
    a.tools = [tool("other")]
    a.tell("notifications/tools/list_changed")
    changed = stream.next()
    assert (changed.method, changed.params) == ("notifications/tools/list_changed", {"_meta": mark})
    assert len(one.endpoint.listeners) == 1
    assert a.got("resources/unsubscribe") == []
    stream.kill()
    until(lambda: a.got("resources/unsubscribe"), "the end of the subscription upstream")
    until(lambda: not len(one.endpoint.listeners) and not len(one.gateway.audience), "nobody listening")


def test_a_listener_must_be_able_to_listen(inside: Within, a: Puppet) -> None:
    reply = inside(a).site.stateless("subscriptions/listen", {}, headers={"Accept": "application/json"})
    assert reply.status == 406


def test_progress_and_logs_come_on_the_stream_of_the_call(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    site.stateless("tools/list")
    connection = began(site, "a__work", progressToken="t", **{f"{PREFIX}logLevel": "warning"})
    asked = a.expect("tools/call")
    assert "io.modelcontextprotocol/protocolVersion" not in asked.params["_meta"]
    a.tell("notifications/message", level="info", data="too low")
    a.tell("notifications/message", level="error", data="loud")
    a.tell("notifications/progress", progressToken=asked.params["_meta"]["progressToken"], progress=1)
    a.reply(asked, TEXT)
    frames = Reply(connection).rest()
    assert [frame.method for frame in frames[:2]] == ["notifications/message", "notifications/progress"]
    assert frames[0].params == {"level": "error", "data": "loud"}
    assert frames[1].params == {"progressToken": "t", "progress": 1}
    assert frames[2].result == {"resultType": "complete", **TEXT}
    assert len(frames) == 3


def test_no_log_comes_that_was_not_asked_for(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    site.stateless("tools/list")
    connection = began(site, "a__work")
    asked = a.expect("tools/call")
    a.tell("notifications/message", level="emergency", data="unasked")
    a.reply(asked, TEXT)
    assert Reply(connection).message.result == {"resultType": "complete", **TEXT}


def test_closing_the_response_cancels_upstream(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    site.stateless("tools/list")
    for begin_stream in (False, True):
        connection = began(site, "a__work", progressToken=1)
        asked = a.expect("tools/call")
        if begin_stream:
            a.tell("notifications/progress", progressToken=asked.params["_meta"]["progressToken"], progress=1)
            reply = Reply(connection)
            reply.next()
            reply.kill()
        else:
            connection.close()
        assert a.expect("notifications/cancelled").params["requestId"] == asked.id


def test_both_eras_live_at_one_address(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    talk = site.initialize()
    old, new = talk.request("tools/list").result, site.stateless("tools/list").message.result
    assert old["tools"] == new["tools"]
    assert "resultType" not in old
