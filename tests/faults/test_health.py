"""A server that stopped answering is found and replaced without any call to it; one that works is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from aiohttp import web

from tests.client import until
from tests.clients.web import Json, Script, reply
from tests.conftest import Start
from tests.end_to_end.test_web import scripted_aside
from tests.faults.processes import gone, logged, pid_of, server
from tests.puppets import Puppet

Make = Callable[..., Puppet]
QUICK = {"interval": 0.3, "timeout": 0.5, "misses": 2}
NEVER = {"interval": 10_000, "timeout": 10, "misses": 2}


def test_a_stopped_process_is_found_and_replaced_without_a_call(start: Start) -> None:
    gateway = start(servers={"a": server(health=QUICK), "b": server(health=NEVER)})
    a, b = pid_of(gateway, "a"), pid_of(gateway, "b")
    os.kill(a, signal.SIGSTOP)
    logged(gateway, "a ready → waiting: stopped answering: 2 health checks without an answer")
    gone({a})
    until(lambda: gateway.errors.decode().count("a connecting → ready") == 2, "its next life")
    assert pid_of(gateway, "a") != a
    assert pid_of(gateway, "b") == b


def test_health_may_be_set_for_all_servers_at_once(start: Start) -> None:
    gateway = start(servers={"a": server()}, gateway={"health": QUICK})
    a = pid_of(gateway, "a")
    os.kill(a, signal.SIGSTOP)
    gone({a})
    assert pid_of(gateway, "a") != a


def test_a_connection_with_a_call_in_flight_is_never_probed(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("ping", lambda _: None)  # busy in one synchronous tool, it answers nothing
    gateway = start(a, servers={"b": server(health=QUICK)}, entries={"a": {"health": QUICK}})
    assert "a__work" in gateway.tool_names()
    id = gateway.begin("a__work")
    call = a.expect("tools/call")
    pings = len(a.got("ping"))
    b = pid_of(gateway, "b")
    os.kill(b, signal.SIGSTOP)
    gone({b})  # its neighbour was probed twice and replaced: so much time has passed
    assert len(a.got("ping")) == pings
    assert a.starts == 1
    a.reply(call, {"content": []})
    assert "isError" not in gateway.answer(id).result
    logged(gateway, "a ready → waiting: stopped answering")  # and now it is probed


def test_a_call_that_meets_the_last_missed_check_is_told_of_it(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.forget("ping")
    gateway = start(a, entries={"a": {"health": {"interval": 0.1, "timeout": 2.0, "misses": 1}}})
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    a.expect("ping")
    id = gateway.begin("a__work")
    a.expect("tools/call")
    failed = gateway.answer(id)
    assert failed.text.startswith("a: stopped answering: 1 health checks without an answer. The call was sent and may")


def test_any_frame_that_comes_in_is_life(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("ping", lambda _: {"error": {"code": -32601, "message": "what is a ping?"}})
    b = puppet("b")

    def chatter(_: object) -> None:
        b.tell("notifications/message", level="info", data="still here")

    b.on("ping", chatter)
    gateway = start(a, b, entries={"a": {"health": QUICK}, "b": {"health": QUICK}})
    gateway.up()
    assert gateway.tool_names() == ["a__work", "b__work"]
    until(lambda: len(a.got("ping")) >= 5 and len(b.got("ping")) >= 5, "five health checks of each")
    assert (a.starts, b.starts) == (1, 1)


def test_a_miss_is_forgiven_when_the_next_check_is_answered(start: Start, puppet: Make) -> None:
    a = puppet("a")
    pings: list[int] = []

    def every_other(_: object) -> Json | None:
        pings.append(1)
        return {"result": {}} if len(pings) % 2 == 0 else None

    a.on("ping", every_other)
    gateway = start(a, entries={"a": {"health": QUICK}})
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    until(lambda: len(pings) >= 6, "six health checks")
    assert a.starts == 1


def test_a_stateless_server_is_probed_with_a_request_it_has(start: Start, puppet: Make) -> None:
    a = puppet("a")
    discovered: Json = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
    }
    a.on("server/discover", lambda _: {"result": discovered})
    a.on("initialize", lambda _: {"error": {"code": -32022, "message": "Unsupported protocol version"}})
    a.on("subscriptions/listen", lambda _: None)
    gateway = start(a, entries={"a": {"health": QUICK}})
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    until(lambda: len(a.got("server/discover")) >= 4, "three health checks")
    assert not a.got("ping")
    assert a.starts == 1


def test_a_web_server_that_stopped_answering_is_dialled_again(start: Start) -> None:
    script = Script()

    async def hang(request: web.Request, body: Json) -> web.StreamResponse:
        await asyncio.sleep(60)
        return reply(body, {})

    script.on["ping"] = hang
    with scripted_aside(script):
        gateway = start(servers={"up": {"url": script.url, "type": "http", "health": QUICK}})
        gateway.up()
        assert gateway.tool_names() == ["up__work"]
        until(lambda: len(script.got("initialize")) >= 2, "a second handshake")
        logged(gateway, "up ready → waiting: stopped answering")
