"""Every version of the protocol is found and spoken, and an upstream's era is asked for once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.protocol.versions import SESSION_VERSIONS
from tests.client import Gateway, Message, until
from tests.conftest import Start
from tests.faults.processes import logged
from tests.puppets import Puppet

Make = Callable[..., Puppet]
DISCOVERED: dict[str, Any] = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
    "instructions": "Be kind.",
}
COMPLETE: dict[str, Any] = {"content": [], "resultType": "complete"}


def status(gateway: Gateway) -> dict[str, Any]:
    return json.loads(gateway.run("status", "--json").stdout)["servers"]["a"]


def stateless(a: Puppet) -> None:
    a.on("server/discover", lambda _: {"result": DISCOVERED})
    a.on("initialize", lambda _: {"error": {"code": -32022, "message": "Unsupported protocol version"}})
    a.on("subscriptions/listen", lambda _: None)
    a.on("tools/call", lambda _: {"result": COMPLETE})


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_every_version_of_the_session_era_is_spoken(start: Start, puppet: Make, version: str) -> None:
    a = puppet("a", introduction={"protocolVersion": version})
    a.on("tools/call", lambda _: {"result": {"content": []}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    assert gateway.call("a__work").result == {"content": []}
    (asked,) = a.got("initialize")
    assert asked.params["protocolVersion"] == SESSION_VERSIONS[-1]
    assert a.got("notifications/initialized")
    order = [message.method for message in a.received]
    assert order.index("initialize") < order.index("notifications/initialized") < order.index("tools/list")
    gateway.close()
    said = status(gateway)
    assert (said["era"], said["version"]) == ("session", version)


def test_the_stateless_era_is_spoken(start: Start, puppet: Make) -> None:
    a = puppet("a")
    stateless(a)
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    assert gateway.call("a__work").result == {"content": []}
    for message in a.received:
        if message.method in ("initialize", "notifications/cancelled"):
            continue  # of a probe that took over a second on a busy machine
        meta = message.params["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert "io.modelcontextprotocol/clientCapabilities" in meta
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "kimi-gateway"
    gateway.close()
    said = status(gateway)
    assert (said["era"], said["version"]) == ("stateless", "2026-07-28")


@pytest.mark.parametrize("code", [-32601, -32602, -32600, 0, -32022])
def test_any_error_to_the_first_question_means_the_session_era(start: Start, puppet: Make, code: int) -> None:
    a = puppet("a")
    a.on("server/discover", lambda _: {"error": {"code": code, "message": "what?"}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    assert a.starts == 1


def test_a_result_that_names_no_version_of_ours_means_the_session_era(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("server/discover", lambda _: {"result": {**DISCOVERED, "supportedVersions": ["2031-01-01"]}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]


def test_one_that_answers_the_first_question_late_and_then_refuses_the_older_one_is_asked_again(
    start: Start, puppet: Make
) -> None:
    """As servers of the SDK do: slow to start, and bound to the era of the first request they read."""
    a = puppet("a")
    stateless(a)
    late: list[Message] = []
    a.on("server/discover", lambda message: late.append(message) if not late else {"result": DISCOVERED})

    def refuse(_: Message) -> dict[str, Any]:
        a.reply(late[0], DISCOVERED)
        return {"error": {"code": -32022, "message": "Unsupported protocol version"}}

    a.on("initialize", refuse)
    gateway = start(a)
    until(lambda: gateway.tool_names() == ["a__work"], "its tools")
    assert gateway.call("a__work").result == {"content": []}
    assert a.starts == 1


@pytest.mark.parametrize("before", ["session", "stateless"])
def test_a_remembered_era_that_is_no_longer_true_is_found_out(start: Start, puppet: Make, before: str) -> None:
    a = puppet("a")

    def session() -> None:
        a.on("server/discover", lambda _: {"error": {"code": -32601, "message": "no"}})
        a.on("initialize", lambda _: {"result": INTRODUCTION})
        a.on("tools/call", lambda _: {"result": {"content": []}})

    def newer() -> None:
        stateless(a)
        a.on("initialize", lambda _: {"error": {"code": -32022, "message": "no"}})

    one, other = (session, newer) if before == "session" else (newer, session)
    one()
    first = start(a)
    first.up()
    assert first.tool_names() == ["a__work"]
    first.close()
    other()
    second = start(a, directory=first.home.parent)
    assert second.call("a__work").result == {"content": []}
    second.close()
    assert status(second)["era"] == ("stateless" if before == "session" else "session")


INTRODUCTION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "a", "version": "1"},
}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"result": {**INTRODUCTION, "protocolVersion": "1999-01-01"}}, "speaks protocol version 1999-01-01"),
        ({"result": {**INTRODUCTION, "protocolVersion": 5}}, "speaks protocol version unknown"),
        ({"result": []}, "answered initialize with something else than an object"),
        ({"error": {"code": -32603, "message": "no licence"}}, "no licence"),
    ],
)
def test_an_introduction_that_is_none_says_why(start: Start, puppet: Make, answer: Any, words: str) -> None:
    a = puppet("a")
    a.on("initialize", lambda _: answer)
    gateway = start(a)
    logged(gateway, words)
    assert gateway.tool_names() == []
