"""What upstreams offer: lists and their changes, prompts, resources, completions, logs, filters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client import Message, until
from tests.conftest import Start
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]


def resource(uri: str, **more: Any) -> dict[str, Any]:
    return {"uri": uri, "name": uri, **more}


def contents(message: Message) -> dict[str, Any]:
    return {"result": {"contents": [{"uri": message.params["uri"], "text": "t"}], "x": 1}}


# Lists


def pages(message: Message) -> dict[str, Any]:
    params: dict[str, Any] = message.params or {}
    cursor = params.get("cursor")
    found = {None: ("one", "p2 \ud83d"), "p2 \ud83d": ("two", "p3"), "p3": ("three", None)}[cursor]
    return {"result": {"tools": [tool(found[0])], **({"nextCursor": found[1]} if found[1] else {})}}


def test_all_pages_of_an_upstream_become_one_of_ours(puppet: Make, start: Start) -> None:
    a = puppet("a")
    a.on("tools/list", pages)
    gateway = start(a)
    answer = gateway.request("tools/list").result
    assert [one["name"] for one in answer["tools"]] == ["a__one", "a__three", "a__two"]
    assert "nextCursor" not in answer


def test_a_loop_of_cursors_ends(puppet: Make, start: Start) -> None:
    a = puppet("a")
    a.on("tools/list", lambda _: {"result": {"tools": [tool("one")], "nextCursor": "same"}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__one"]
    assert len(a.got("tools/list")) <= 3


def test_an_empty_cursor_is_asked_for_and_where_it_is_refused_the_list_was_whole(puppet: Make, start: Start) -> None:
    def refusing(key: str, items: list[Any]) -> Callable[[Message], dict[str, Any]]:
        return lambda message: (
            {"error": {"code": -32602, "message": "Invalid cursor"}}
            if "cursor" in (message.params or {})
            else {"result": {key: items, "nextCursor": ""}}
        )

    a, b = puppet("a"), puppet("b")
    a.on("tools/list", refusing("tools", [tool("one")]))
    a.on("prompts/list", refusing("prompts", [{"name": "p"}]))
    b.on(
        "tools/list",
        lambda message: {
            "result": {"tools": [tool("two")]} if message.params else {"tools": [tool("one")], "nextCursor": ""}
        },
    )
    gateway = start(a, b)
    gateway.up()
    assert gateway.tool_names() == ["a__one", "b__one", "b__two"]
    assert [one["name"] for one in gateway.request("prompts/list").result["prompts"]] == ["a__p"]


def test_more_than_a_thousand_pages_are_read_and_an_endless_list_is_cut_with_a_word(puppet: Make, start: Start) -> None:
    def numbered(last: int) -> Callable[[Message], dict[str, Any]]:
        def page(message: Message) -> dict[str, Any]:
            params: dict[str, Any] = message.params or {}
            number = int(params.get("cursor", 0))
            tools = [tool(f"t{number}")] if number in (0, 1100) else []
            return {"result": {"tools": tools, **({} if number == last else {"nextCursor": str(number + 1)})}}

        return page

    long, endless = puppet("long"), puppet("endless")
    long.on("tools/list", numbered(1100))
    endless.on("tools/list", numbered(-1))
    gateway = start(long, endless)
    gateway.up()
    assert gateway.tool_names() == ["endless__t0", "endless__t1100", "long__t0", "long__t1100"]
    assert b"endless: tools/list has no end" in gateway.errors


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_any_cursor_is_refused(puppet: Make, start: Start, method: str) -> None:
    gateway = start(puppet("a"))
    for cursor in ("", "x", None, 5):
        assert gateway.request(method, {"cursor": cursor}).error["code"] == -32602
    assert gateway.request(method, {"_meta": {}}).result is not None


@pytest.mark.parametrize("code", [-32601, -32603, 0])
def test_resources_declared_and_then_refused_are_empty_and_no_failure(puppet: Make, start: Start, code: int) -> None:
    a = puppet("a")
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        a.on(method, lambda _: {"error": {"code": code, "message": "no"}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    assert gateway.request("resources/list").result == {"resources": []}
    assert gateway.request("resources/templates/list").result == {"resourceTemplates": []}
    assert gateway.request("prompts/list").result == {"prompts": []}
    assert a.starts == 1


def test_what_is_not_declared_is_not_asked_for(puppet: Make, start: Start) -> None:
    a = puppet("a", capabilities={"tools": {}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert a.got(method) == []
        assert gateway.request(method).result is not None
    assert gateway.request("logging/setLevel", {"level": "debug"}).result == {}
    gateway.ping()
    assert a.got("logging/setLevel") == []


def test_a_refused_tools_list_is_said_by_status_and_harms_nobody_else(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    a.on("tools/list", lambda _: {"error": {"code": -32603, "message": "database is down"}})
    gateway = start(a, b)
    gateway.up("b")
    assert gateway.tool_names() == ["b__work"]
    gateway.close()  # a puppet has one life at a time
    status = json.loads(gateway.run("status", "--json").stdout)["servers"]
    assert "database is down" in status["a"]["error"]
    assert status["a"]["state"] != "ready"
    assert status["b"]["error"] in (None, "")


def test_a_list_stays_the_same_bytes_while_nothing_changes(puppet: Make, start: Start) -> None:
    gateway = start(puppet("b", tools=[tool("z"), tool("a")]), puppet("a"))
    first = gateway.request("tools/list").payload
    assert [one["name"] for one in json.loads(first)["tools"]] == ["a__work", "b__a", "b__z"]
    assert gateway.request("tools/list").payload == first


def test_an_upstreams_list_changed_is_passed_on_after_the_new_list_is_there(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b)
    gateway.up()
    assert gateway.tool_names() == ["a__work", "b__work"]
    for n in range(5):
        a.tools = [tool("work"), tool(f"new{n}")]
        a.tell("notifications/tools/list_changed")
        gateway.expect("notifications/tools/list_changed")
        assert gateway.tool_names() == [f"a__new{n}", "a__work", "b__work"]
    assert len(gateway.got("notifications/tools/list_changed")) == 5
    a.tell("notifications/tools/list_changed")  # nothing really changed: still passed on
    gateway.expect("notifications/tools/list_changed")
    assert len(b.got("tools/list")) == 1


def test_many_announcements_at_once_become_few(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    gate: list[Message] = []

    def held(message: Message) -> None:
        gate.append(message)

    a.on("tools/list", held)
    a.tell("notifications/tools/list_changed")
    until(lambda: gate, "the first refresh")
    a.on("tools/list", lambda _: {"result": {"tools": [tool("last")]}})
    for _ in range(50):
        a.tell("notifications/tools/list_changed")
    a.tell("notifications/x-fence")
    gateway.expect("notifications/x-fence")
    a.reply(gate[0], {"tools": [tool("first")]})
    gateway.expect("notifications/tools/list_changed")
    while gateway.tool_names() != ["a__last"]:
        gateway.expect("notifications/tools/list_changed")
    assert len(a.got("tools/list")) <= 3


@pytest.mark.parametrize(
    ("notice", "method", "kind"),
    [
        ("notifications/prompts/list_changed", "prompts/list", "prompts"),
        ("notifications/resources/list_changed", "resources/list", "resources"),
    ],
)
def test_other_lists_change_likewise(puppet: Make, start: Start, notice: str, method: str, kind: str) -> None:
    a = puppet("a")
    gateway = start(a)
    assert gateway.request(method).result == {kind: []}
    new = [{"name": "p"}] if kind == "prompts" else [resource("x:1")]
    setattr(a, kind, new)
    a.tell(notice)
    gateway.expect(notice)
    assert len(gateway.request(method).result[kind]) == 1
    assert len(gateway.got(notice)) == 1


def test_a_server_that_comes_late_is_announced(puppet: Make, start: Start) -> None:
    late, fine = puppet("late"), puppet("fine")
    held: list[Message] = []
    late.on("server/discover", lambda message: held.append(message))
    late.on("initialize", lambda message: held.append(message))
    gateway = start(late, fine)
    gateway.up("fine")
    assert gateway.tool_names() == ["fine__work"]
    until(lambda: [message for message in held if message.method == "initialize"], "initialize")
    hello: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "x", "version": "1"},
    }
    late.reply(held[-1], hello)
    gateway.expect("notifications/tools/list_changed")
    assert gateway.tool_names() == ["fine__work", "late__work"]
    assert len(gateway.got("notifications/tools/list_changed")) == 1


# Prompts, resources, templates, completions


def test_prompts_are_found_by_their_names(puppet: Make, start: Start) -> None:
    a, b = puppet("a", prompts=[{"name": "p", "x": 1}]), puppet("b", prompts=[{"name": "p"}])
    gateway = start(a, b)
    assert gateway.request("prompts/list").result["prompts"] == [{"name": "a__p", "x": 1}, {"name": "b__p"}]
    for name in ("b__p", "b:p"):
        id = gateway.send("prompts/get", {"name": name, "arguments": {"n": "1"}})
        asked = b.expect("prompts/get")
        assert asked.params == {"name": "p", "arguments": {"n": "1"}}
        b.reply(asked, {"messages": [], "x": 1})
        assert gateway.answer(id).result == {"messages": [], "x": 1}


def test_resources_go_to_who_lists_them_else_whose_template_matches(puppet: Make, start: Start) -> None:
    a = puppet("a", resources=[resource("a:1")], templates=[{"uriTemplate": "file:///{+path}", "name": "f"}])
    b = puppet("b", resources=[resource("b:1")], templates=[{"uriTemplate": "db://{table}/rows", "name": "d"}])
    for one in (a, b):
        one.on("resources/read", contents)
    gateway = start(a, b)
    listed = gateway.request("resources/list").result["resources"]
    assert [one["uri"] for one in listed] == ["a:1", "b:1"]
    templates = gateway.request("resources/templates/list").result["resourceTemplates"]
    assert [one["uriTemplate"] for one in templates] == ["db://{table}/rows", "file:///{+path}"]
    for uri in ("a:1", "b:1", "file:///x/y", "db://users/rows"):
        assert gateway.request("resources/read", {"uri": uri}).result["contents"][0]["uri"] == uri
    assert [message.params["uri"] for message in a.got("resources/read")] == ["a:1", "file:///x/y"]
    assert [message.params["uri"] for message in b.got("resources/read")] == ["b:1", "db://users/rows"]
    refused = gateway.request("resources/read", {"uri": "nobody:1"})
    assert refused.error["code"] == -32002
    assert refused.error["data"] == {"uri": "nobody:1"}


def test_the_only_server_with_resources_is_asked_for_any(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b", capabilities={"tools": {}})
    a.on("resources/read", contents)
    gateway = start(a, b)
    assert gateway.tool_names()
    assert gateway.request("resources/read", {"uri": "x:1"}).result["contents"][0]["uri"] == "x:1"


def test_a_resource_two_servers_share_has_a_gateway_uri_for_the_later(puppet: Make, start: Start) -> None:
    a, b = puppet("a", resources=[resource("s:1", mark="a")]), puppet("b", resources=[resource("s:1", mark="b")])
    for one in (a, b):
        one.on("resources/read", contents)
        one.on("resources/subscribe", lambda _: {"result": {}})
    gateway = start(a, b)
    listed = {one["mark"]: one["uri"] for one in gateway.request("resources/list").result["resources"]}
    assert listed["a"] == "s:1"
    assert listed["b"] not in ("s:1", "")
    for mark, uri in listed.items():
        assert gateway.request("resources/read", {"uri": uri}).result["contents"][0]["uri"] == uri
        assert gateway.request("resources/subscribe", {"uri": uri}).result == {}
        upstream = a if mark == "a" else b
        assert upstream.got("resources/read")[0].params["uri"] == "s:1"
        assert upstream.got("resources/subscribe")[0].params["uri"] == "s:1"
        upstream.tell("notifications/resources/updated", uri="s:1", x=1)
        assert gateway.expect("notifications/resources/updated").params == {"uri": uri, "x": 1}
    link = {"content": [{"type": "resource_link", "uri": "s:1", "x": 1.5}, {"type": "text", "text": "s:1"}]}
    b.on("tools/call", lambda _: {"result": link})
    content = gateway.call("b__work").result["content"]
    assert content == [{"type": "resource_link", "uri": listed["b"], "x": 1.5}, {"type": "text", "text": "s:1"}]


def test_a_link_is_read_from_who_issued_it_and_its_result_is_untouched(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    for one in (a, b):
        one.on("resources/read", contents)
    gateway = start(a, b)
    id = gateway.begin("b__work")
    payload = b'{ "content":[ {"type":"resource_link","uri":"made:up","n":1.0 } ], "a":1, "a":2 }'
    b.reply(b.expect("tools/call"), payload)
    assert gateway.answer(id).payload == payload
    assert gateway.request("resources/read", {"uri": "made:up"}).result["contents"][0]["uri"] == "made:up"
    assert a.got("resources/read") == []


def test_of_a_template_two_servers_have_each_can_be_read_and_followed(puppet: Make, start: Start) -> None:
    servers = [puppet(name, templates=[{"uriTemplate": "t://{x}", "name": name}]) for name in ("a", "b")]
    for one in servers:
        one.on("resources/subscribe", lambda _: {"result": {}})
        one.on("resources/read", lambda asked: {"result": {"contents": [{"uri": asked.params["uri"], "text": ""}]}})
    gateway = start(*servers)
    listed = gateway.request("resources/templates/list").result["resourceTemplates"]
    assert [one["uriTemplate"] for one in listed] == ["kimi-gateway://b/t://{x}", "t://{x}"]
    for upstream, uri in zip(servers, ("t://1", "kimi-gateway://b/t://1"), strict=True):
        assert gateway.request("resources/read", {"uri": uri}).result["contents"][0]["uri"] == uri
        assert gateway.request("resources/subscribe", {"uri": uri}).result == {}
        upstream.tell("notifications/resources/updated", uri="t://1")
        assert gateway.expect("notifications/resources/updated").params == {"uri": uri}
        assert [message.params["uri"] for message in upstream.got("resources/read")] == ["t://1"]
    # A link keeps the name that its server gave it, and is read from there.
    link = {"content": [{"type": "resource_link", "uri": "t://2", "name": "two"}]}
    servers[1].on("tools/call", lambda _: {"result": link})
    assert gateway.call("b__work").result == link
    assert gateway.request("resources/read", {"uri": "t://2"}).result["contents"][0]["uri"] == "t://2"
    assert servers[1].got("resources/read")[-1].params["uri"] == "t://2"


def test_subscriptions_reach_their_server_and_are_renewed_after_it_died(puppet: Make, start: Start) -> None:
    a, b = puppet("a", resources=[resource("a:1")]), puppet("b", resources=[resource("b:1")])
    for one in (a, b):
        one.on("resources/subscribe", lambda _: {"result": {}})
        one.on("resources/unsubscribe", lambda _: {"result": {}})
    gateway = start(a, b)
    assert gateway.request("resources/list").result["resources"]
    assert gateway.request("resources/subscribe", {"uri": "a:1"}).result == {}
    assert gateway.request("resources/subscribe", {"uri": "b:1"}).result == {}
    assert gateway.request("resources/unsubscribe", {"uri": "b:1"}).result == {}
    a.tell("notifications/resources/updated", uri="a:1", title="x")
    assert gateway.expect("notifications/resources/updated").params == {"uri": "a:1", "title": "x"}
    for one in (a, b):
        one.drop()
        until(lambda one=one: one.starts == 2, "its second start")
        one.on("tools/call", lambda _: {"result": {"back": True}})
        assert gateway.call(f"{one.name}__work").result == {"back": True}
    assert [message.params["uri"] for message in a.got("resources/subscribe")] == ["a:1", "a:1"]
    assert len(b.got("resources/subscribe")) == 1
    assert len(b.got("resources/unsubscribe")) == 1


def test_completions_follow_their_prompt_or_template(puppet: Make, start: Start) -> None:
    a = puppet("a", prompts=[{"name": "p"}], templates=[{"uriTemplate": "a://{x}", "name": "t"}])
    b = puppet("b", prompts=[{"name": "p"}], templates=[{"uriTemplate": "a://{x}", "name": "t"}])
    for one in (a, b):
        one.on("completion/complete", lambda m: {"result": {"completion": {"values": ["v"]}, "ref": m.params["ref"]}})
    gateway = start(a, b)
    assert gateway.request("prompts/list").result["prompts"]
    templates = gateway.request("resources/templates/list").result["resourceTemplates"]
    mine, renamed = (one["uriTemplate"] for one in templates)
    argument = {"name": "x", "value": "v", "x-v": 1.5}

    def complete(ref: dict[str, Any]) -> dict[str, Any]:
        return gateway.request("completion/complete", {"ref": ref, "argument": argument, "context": {}}).result["ref"]

    assert complete({"type": "ref/prompt", "name": "b__p", "title": "T"}) == {
        "type": "ref/prompt",
        "name": "p",
        "title": "T",
    }
    assert complete({"type": "ref/resource", "uri": mine}) == {"type": "ref/resource", "uri": "a://{x}"}
    assert complete({"type": "ref/resource", "uri": renamed}) == {"type": "ref/resource", "uri": "a://{x}"}
    assert [m.params["ref"]["type"] for m in a.got("completion/complete")] == ["ref/resource"]
    assert [m.params["ref"]["type"] for m in b.got("completion/complete")] == ["ref/prompt", "ref/resource"]
    assert a.got("completion/complete")[0].params["argument"] == argument


# Logs


def test_levels_go_to_every_upstream_that_logs_and_filter_what_comes(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b", capabilities={"tools": {}})
    gateway = start(a, b)
    assert gateway.tool_names()
    assert gateway.request("logging/setLevel", {"level": "warning", "x": 1}).result == {}
    a.tell("notifications/message", level="info", data="too low")
    a.tell("notifications/message", level="warning", data={"x": 1.5}, logger="l", extra=1)
    assert gateway.expect("notifications/message").params == {
        "level": "warning",
        "data": {"x": 1.5},
        "logger": "l",
        "extra": 1,
    }
    until(lambda: a.got("logging/setLevel"), "the level")
    assert a.got("logging/setLevel")[0].params == {"level": "warning", "x": 1}
    assert b.got("logging/setLevel") == []
    a.drop()
    until(lambda: a.starts == 2, "its second start")
    a.on("tools/call", lambda _: {"result": {"back": True}})
    assert gateway.call("a__work").result == {"back": True}
    assert [m.params["level"] for m in a.got("logging/setLevel")] == ["warning", "warning"]
    assert len(gateway.got("notifications/message")) == 1


# Vendors


def test_what_the_newer_era_asks_is_no_vendors_method(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    assert gateway.tool_names()
    probes = len(a.got("server/discover"))
    for method in ("server/discover", "subscriptions/listen"):
        assert gateway.request(method, {}).error["code"] == -32601
    assert len(a.got("server/discover")) == probes
    assert not a.got("subscriptions/listen")


def test_with_two_upstreams_a_vendors_method_is_nobodys(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b)
    assert gateway.tool_names()
    assert gateway.request("x-vendor/do", {"n": 1}).error["code"] == -32601
    gateway.notify("notifications/x-vendor", {"n": 1})
    gateway.ping()
    for one in (a, b):
        assert one.got("x-vendor/do") == one.got("notifications/x-vendor") == []
    b.tell("notifications/x-vendor", n=2)
    assert gateway.expect("notifications/x-vendor").params == {"n": 2}


# Filters


FILTERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"deny": ["secret"]}, {}),
    ({"allow": ["work"]}, {}),
    ({}, {"tools": {"deny": ["a:sec*"]}}),
    ({}, {"tools": {"allow": ["*:work"]}}),
    ({}, {"tools": {"readOnly": True}}),
]


@pytest.mark.parametrize(("server", "whole"), FILTERS)
def test_a_hidden_tool_is_as_unknown_as_one_that_is_not_there(
    puppet: Make, start: Start, server: dict[str, Any], whole: dict[str, Any]
) -> None:
    a = puppet("a", tools=[tool("work", annotations={"readOnlyHint": True}), tool("secret")])
    gateway = start(a, entries={"a": {"tools": server}} if server else {}, gateway=whole)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    absent = gateway.call("a__absent").error
    assert absent["code"] == -32602
    for name in ("a__secret", "a:secret"):
        hidden = gateway.call(name).error
        assert hidden == {**absent, "message": absent["message"].replace("a__absent", name)}
    gateway.ping()
    assert a.got("tools/call") == []


def test_a_profile_that_leaves_a_server_nothing_hides_all_of_it(puppet: Make, start: Start) -> None:
    a = puppet("a", prompts=[{"name": "p"}], resources=[resource("a:1")], introduction={"instructions": "secret"})
    profiles = {"none": {"tools": {"deny": ["a:*"]}}}
    gateway = start(a, gateway={"profiles": profiles}, arguments=("--profile", "none"))
    assert gateway.tool_names() == []
    assert gateway.request("prompts/list").result == {"prompts": []}
    assert gateway.request("resources/list").result == {"resources": []}
    assert gateway.request("resources/read", {"uri": "a:1"}).error["code"] == -32002
    assert gateway.request("prompts/get", {"name": "a:p"}).error["code"] == -32602
    assert gateway.request("x-vendor/do").error["code"] == -32601
    gateway.notify("notifications/x-vendor")
    a.tell("notifications/message", level="error", data="secret")
    a.tell("notifications/x-vendor")
    a.tell("notifications/tools/list_changed")
    until(lambda: len(a.got("tools/list")) == 2, "the second listing")
    gateway.ping()
    assert b"secret" not in b"".join(message.raw for message in gateway.messages)
    assert gateway.got("notifications/x-vendor") == a.got("notifications/x-vendor") == []
    assert gateway.got("notifications/tools/list_changed") == []


def test_a_server_that_a_profile_hides_has_nobody_to_ask(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(
        a,
        b,
        gateway={"profiles": {"b": {"tools": {"allow": ["b:*"]}}}},
        arguments=("--profile", "b"),
        capabilities={"roots": {}, "elicitation": {}},
    )
    gateway.up()
    a.ask(1, "roots/list")
    assert a.expect_answer(1).result == {"roots": []}
    for method in ("elicitation/create", "x-vendor/ask"):
        a.ask(method, method)
        assert a.expect_answer(method).error["code"] == -32600
    gateway.ping()
    assert gateway.got("roots/list") == gateway.got("elicitation/create") == gateway.got("x-vendor/ask") == []


def test_what_a_server_says_before_its_first_listing_reaches_the_client(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    for one in (a, b):
        one.forget("tools/list")
    profiles = {"b": {"tools": {"allow": ["b:*"]}}}
    gateway = start(a, b, gateway={"profiles": profiles}, arguments=("--profile", "b"))
    for one in (a, b):
        asked = one.expect("tools/list")
        one.tell("notifications/message", level="info", data=one.name)
        one.tell("notifications/x-vendor", data=one.name)
        one.reply(asked, {"tools": one.tools})
    gateway.up()
    gateway.expect("notifications/message", data="b")
    gateway.expect("notifications/x-vendor", data="b")
    gateway.ping()
    assert b'"data": "a"' not in b"".join(message.raw for message in gateway.messages)


def test_instructions_come_from_the_catalogue_under_each_servers_name(puppet: Make, start: Start) -> None:
    a = puppet("a", introduction={"instructions": "Use me well."})
    gateway = start(a)
    assert gateway.tool_names()
    again = gateway.initialize().result
    assert "Use me well." in again["instructions"]
    assert set(again["capabilities"]) == {"tools", "prompts", "resources", "completions", "logging"}
