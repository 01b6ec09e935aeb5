"""The first seconds: the endpoint answers at once, what is known is listed at once, what is not comes later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.client import Gateway, until
from tests.conftest import Start
from tests.faults.processes import logged, pid_of, server
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]


def memories(gateway: Gateway) -> list[Path]:
    return sorted((gateway.home / ".cache" / "kimi-gateway" / "catalogue").glob("*.json"))


def test_initialize_is_answered_at_once_whatever_the_upstreams_do(start: Start, puppet: Make) -> None:
    silent = puppet("silent")
    silent.on("server/discover", lambda _: None)
    silent.on("initialize", lambda _: None)
    more = {f"s{n}": server(fault) for n, fault in enumerate(["hangs", "never-reads", "exits", "floods"] * 3)}
    gateway = start(silent, servers=more, version=None)
    answer = gateway.initialize()
    # All are declared before any upstream has said what it has.
    assert set(answer.result["capabilities"]) == {"tools", "prompts", "resources", "completions", "logging"}
    assert answer.result["capabilities"]["tools"] == {"listChanged": True}
    gateway.ping()


def test_all_upstreams_connect_in_parallel(start: Start, puppet: Make) -> None:
    """None is answered before all have asked: one after the other, the first would wait for ever."""
    many = [puppet(f"p{n}") for n in range(5)]
    for one in many:
        one.on("server/discover", lambda _: None)
        one.on("initialize", lambda _: None)
    start(*many)
    for one in many:
        until(lambda one=one: one.got("initialize"), f"{one.name} being asked")


def test_a_server_never_seen_is_waited_for_and_then_announced(start: Start, puppet: Make) -> None:
    slow = puppet("slow")
    held: list[bytes] = []

    def hold(message: object) -> None:
        held.append(b"")

    slow.on("tools/list", hold)
    gateway = start(slow, servers={"good": server()})
    listed = gateway.tool_names()  # answered although the slow one has not listed yet
    assert "good__pid" in listed
    assert "slow__work" not in listed
    (asked,) = slow.got("tools/list")
    slow.reply(asked, {"tools": [tool("work")]})
    gateway.expect("notifications/tools/list_changed")
    assert "slow__work" in gateway.tool_names()
    assert len(gateway.got("notifications/tools/list_changed")) == 1


def test_a_first_listing_waits_for_a_server_that_comes_in_time(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("tools/list", lambda _: None)
    gateway = start(a)
    id = gateway.send("tools/list")
    until(lambda: a.got("tools/list"), "the upstream being asked")
    waits = not gateway.answered(id)
    a.reply(a.got("tools/list")[0], {"tools": [tool("work")]})
    names = [one["name"] for one in gateway.answer(id).result["tools"]]
    if waits and not names:  # it took longer than the two seconds: a busy machine
        gateway.expect("notifications/tools/list_changed")
        names = gateway.tool_names()
    assert names == ["a__work"]


def test_what_was_listed_before_is_listed_at_once_and_complete(start: Start, puppet: Make) -> None:
    a = puppet("a", prompts=[{"name": "p"}], resources=[{"uri": "x:y", "name": "y"}], templates=[])
    first = start(a, servers={"b": server()})
    before = [first.request(method).payload for method in ("tools/list", "prompts/list", "resources/list")]
    first.close()
    a.on("initialize", lambda _: None)  # it will not come up this time
    second = start(a, servers={"b": server()}, directory=first.home.parent)
    ids = [second.send(method) for method in ("tools/list", "prompts/list", "resources/list")]
    second.ping()
    assert all(second.answered(id) for id in ids), "a listing waited for an upstream"
    assert [second.answer(id).payload for id in ids] == before
    assert not second.got("notifications/tools/list_changed")


def test_a_change_since_the_last_time_is_announced_once(start: Start, puppet: Make) -> None:
    a = puppet("a")
    first = start(a)
    first.up()
    assert first.tool_names() == ["a__work"]
    first.close()
    a.tools = [tool("work"), tool("more")]
    second = start(a, directory=first.home.parent)
    names = second.tool_names()
    if names == ["a__work"]:  # asked before it was up again
        second.expect("notifications/tools/list_changed")
        names = second.tool_names()
    assert names == ["a__more", "a__work"]
    assert len(second.got("notifications/tools/list_changed")) <= 1


def test_one_that_gave_nothing_is_remembered_and_not_waited_for_again(start: Start) -> None:
    servers = {"bad": server("exits"), "worse": server("hangs")}
    first = start(servers=servers)
    assert first.tool_names() == []
    first.close()
    assert len(memories(first)) == 2
    second = start(servers=servers, directory=first.home.parent)
    id = second.send("tools/list")
    second.ping()
    assert second.answered(id)


def test_memory_belongs_to_the_entry_as_written(start: Start) -> None:
    first = start(servers={"a": server(env={"SECRET": "${HOME}"})})
    assert "a__pid" in first.tool_names()
    first.close()
    (file,) = memories(first)
    assert file.stat().st_mode & 0o077 == 0
    assert str(first.home) not in file.read_text(), "an expanded variable in the catalogue"
    second = start(servers={"a": server("hangs", env={"SECRET": "${HOME}"})}, directory=first.home.parent)
    assert second.tool_names() == [], "another entry has another memory"


def test_a_damaged_or_foreign_memory_is_no_memory(start: Start) -> None:
    servers = {"a": server()}
    first = start(servers=servers)
    listed = first.tool_names()
    first.close()
    (file,) = memories(first)
    whole = file.read_bytes()
    foreign = json.dumps({**json.loads(whole), "format": 99}).encode()
    odd = json.dumps({**json.loads(whole), "tools": [1, "two", None, {"name": 3}]}).encode()
    for damage in (b"", whole[:-10], b"\xff\x00", foreign, odd, b"[]"):
        file.write_bytes(damage)
        gateway = start(servers=servers, directory=first.home.parent)
        until(lambda gateway=gateway: gateway.tool_names() == listed, "its tools")
        assert pid_of(gateway, "a")
        gateway.close()
        assert file.read_bytes() == whole


def test_the_era_is_remembered_so_that_silence_costs_its_second_once(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    servers = {"a": server("ignores-discover", journal)}
    first = start(servers=servers)
    until(lambda: "a__pid" in first.tool_names(), "its tools")
    first.close()
    assert "server/discover" in journal.read_text()
    journal.write_text("")
    second = start(servers=servers, directory=first.home.parent)
    assert pid_of(second, "a")
    assert "server/discover" not in journal.read_text()


def test_one_that_dies_on_the_probe_is_asked_once_ever(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    servers = {"a": server("dies-on-discover", journal)}
    first = start(servers=servers)
    until(lambda: "a__pid" in first.tool_names(), "its tools")
    logged(first, "a connecting → ready")
    first.close()
    assert journal.read_text().count("server/discover") == 1
    second = start(servers=servers, directory=first.home.parent)
    assert pid_of(second, "a")
    second.close()
    assert journal.read_text().count("server/discover") == 1
    assert journal.read_text().count("start ") == 3
