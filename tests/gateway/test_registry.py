"""The ToolRegistry: what is published is found and listed, once, in order, and only real changes are changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configs.models import Globs, Rules, Source
from gateway.registry import KINDS, Listing, Policy, ToolRegistry

HERE = Source(Path("/home/me/.kode.json"), "global")


def item(name: str, **more: Any) -> bytes:
    return json.dumps({"name": name, **more}).encode()


def listing(*names: str, **more: Any) -> Listing:
    return Listing(tools=tuple(map(item, names)), capabilities=frozenset({"tools"}), **more)


def names(registry: ToolRegistry, profile: str | None = None) -> list[str]:
    return [tool["name"] for tool in json.loads(registry.listing(profile))]


def registry(*servers: str, **policy: Any) -> ToolRegistry:
    return ToolRegistry(Policy(servers=servers, **policy))


def test_a_tool_is_found_by_its_key_and_by_its_name_on_the_wire() -> None:
    tools = registry("a", "b")
    tools.publish("a", listing("x"))
    for name in ("a:x", "a__x"):
        route = tools.find(name)
        assert route is not None
        assert (route.server, route.name, bytes(route.raw)) == ("a", "x", b'"x"')
    assert tools.find("x") is None
    assert tools.find("b:x") is None


def test_a_listing_is_sorted_by_server_whatever_the_order_of_arrival() -> None:
    one, other = registry("a", "b"), registry("a", "b")
    one.publish("a", listing("y", "x"))
    one.publish("b", listing("z"))
    other.publish("b", listing("z"))
    other.publish("a", listing("x", "y"))
    assert one.listing() == other.listing()
    assert names(one) == ["a__x", "a__y", "b__z"]


def test_a_listing_is_sorted_by_the_names_on_the_wire_also_where_one_servers_name_begins_anothers() -> None:
    tools = registry("s1", "s10", "s1-x")
    for server in ("s1", "s10", "s1-x"):
        uri = json.dumps({"uri": f"{server[::-1]}:u"}).encode()
        tools.publish(server, listing("y", "x.y", "x", prompts=(item("p"),), resources=(uri,)))
    assert names(tools) == sorted(names(tools))
    assert len(names(tools)) == 9
    prompts = [one["name"] for one in json.loads(tools.view().array("prompts"))]
    uris = [one["uri"] for one in json.loads(tools.view().array("resources"))]
    assert (prompts, uris) == (sorted(prompts), sorted(uris))


def test_publishing_the_same_again_changes_nothing() -> None:
    tools = registry("a")
    assert tools.publish("a", listing("x", prompts=(item("p"),))) == {"tools", "prompts"}
    before, array = tools.snapshot, tools.listing()
    assert tools.publish("a", listing("x", prompts=(item("p"),))) == set()
    assert tools.snapshot is before
    assert tools.listing() is array


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        ({"prompts": (item("p"),)}, {"prompts"}),
        ({"resources": (b'{"uri":"x:y"}',)}, {"resources"}),
        ({"templates": (b'{"uriTemplate":"x:{y}"}',)}, {"templates"}),
        ({"instructions": "other"}, set[str]()),
    ],
)
def test_a_change_says_which_lists_it_changed(more: dict[str, Any], changed: set[str]) -> None:
    tools = registry("a")
    tools.publish("a", listing("x"))
    assert tools.publish("a", listing("x", **more)) == changed
    assert tools.publish("a", listing("y", **more)) == {"tools"}
    assert tools.withdraw("a") == {"tools", *changed}
    assert tools.withdraw("a") == set()
    assert all(tools.view().array(kind) == b"[]" for kind in KINDS)


def test_another_order_is_no_change() -> None:
    tools = registry("a")
    tools.publish("a", listing("x", "y"))
    assert tools.publish("a", listing("y", "x")) == set()


def test_a_snapshot_in_somebodys_hands_does_not_change() -> None:
    tools = registry("a", "b")
    tools.publish("a", listing("x"))
    held = tools.snapshot
    tools.publish("b", listing("y"))
    tools.withdraw("a")
    assert [tool["name"] for tool in json.loads(held.views[None].array("tools"))] == ["a__x"]
    assert held.views[None].find("tools", "a:x") is not None
    assert names(tools) == ["b__y"]
    with pytest.raises(TypeError):
        held.shelves["c"] = held.shelves["a"]  # type: ignore[index]


def test_a_profile_sees_its_own_and_the_rule_that_hides_a_tool_is_named() -> None:
    rules = Rules("gateway.profiles.reader.tools", HERE, Globs(deny=("a:write_*",)))
    tools = registry("a", profiles={"reader": (rules,)})
    tools.publish("a", listing("write_file", "read_file"))
    assert names(tools) == ["a__read_file", "a__write_file"]
    assert names(tools, "reader") == ["a__read_file"]
    assert tools.find("a:write_file") is not None
    assert tools.find("a:write_file", "reader") is None
    assert tools.find("a__write_file", "reader") is None
    why = tools.explain("a:write_file", "reader")
    assert why is not None
    assert "a:write_*" in why and "/home/me/.kode.json" in why
    assert tools.explain("a:read_file", "reader") is None


def test_another_policy_shows_the_same_listings_otherwise() -> None:
    tools = registry("a")
    tools.publish("a", listing("x", "y"))
    tools.apply(Policy(servers=("a",), naming="canonical", rules=(Rules("r", HERE, Globs(deny=("a:y",))),)))
    assert names(tools) == ["a:x"]
    tools.apply(Policy(servers=()))
    assert names(tools) == []


def test_what_nobody_could_call_is_left_out_and_of_two_the_first_stays() -> None:
    tools = registry("a")
    odd = (b"1", b"null", b'"x"', b'{"name":5}', b"{}", item("x", n=1), item("x", n=2))
    tools.publish("a", Listing(tools=odd))
    assert json.loads(tools.listing()) == [{"name": "a__x", "n": 1}]


def test_five_thousand_tools_are_encoded_once() -> None:
    """Listing them hands out the very same bytes; one server's change leaves the pieces of the others as they are."""
    tools = registry("a", "b")
    tools.publish("a", listing(*(f"tool{n}" for n in range(5000))))
    assert tools.listing() is tools.listing()
    pieces = tools.snapshot.shelves["a"].tools
    tools.publish("b", listing("x"))
    assert tools.snapshot.shelves["a"].tools is pieces
    assert tools.listing() is tools.listing()
    assert len(json.loads(tools.listing())) == 5001


def test_a_resource_two_servers_have_belongs_to_the_first_by_name() -> None:
    for order in (("a", "b"), ("b", "a")):
        tools = registry("a", "b")
        for server in order:
            tools.publish(server, Listing(tools=(item("t"),), resources=(b'{"uri":"x:y","n":1.00}',)))
        uris = [json.loads(one)["uri"] for one in json_items(tools.view().array("resources"))]
        assert uris == ["kimi-gateway://b/x:y", "x:y"]
        route = tools.view().find_resource("kimi-gateway://b/x:y")
        assert route is not None
        assert (route.server, route.name) == ("b", "x:y")


def test_what_comes_of_a_template_two_servers_have_is_named_like_the_template() -> None:
    """Else a client that asks again for what it has read would ask the other server."""
    tools = registry("a", "b")
    plain = (b'{"uri":"t://listed"}',)
    for server, resources in (("a", ()), ("b", plain)):
        templates = (b'{"uriTemplate":"t://{x}"}', b'{"uriTemplate":"%b://{x}"}' % server.encode())
        tools.publish(server, Listing(tools=(item("t"),), resources=resources, templates=templates))
    view = tools.view()
    shown = {
        ("a", "t://1"): "t://1",
        ("b", "t://1"): "kimi-gateway://b/t://1",
        ("a", "t://listed"): "kimi-gateway://a/t://listed",
        ("b", "t://listed"): "t://listed",
        ("a", "a://1"): "a://1",
        ("b", "b://1"): "b://1",
    }
    for (server, uri), name in shown.items():
        assert view.expanded(server, uri) == name
        found = view.find_resource(name)
        assert found is not None
        assert (found.server, found.name) == (server, uri)
    assert view.expanded("b", "none://1") == "none://1"


def json_items(array: bytes) -> list[str]:
    return [json.dumps(one) for one in json.loads(array)]
