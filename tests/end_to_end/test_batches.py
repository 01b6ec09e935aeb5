"""The batches of 2025-03-26, and their refusal in every other version."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client import DEADLINE, Gateway
from tests.conftest import Start
from tests.puppets import Puppet

Make = Callable[..., Puppet]


def batch(gateway: Gateway) -> list[Any]:
    """The next array the gateway writes."""
    found: list[list[Any]] = []

    def there() -> bool:
        found.extend(message.json for message in gateway.messages if message.raw.startswith(b"["))  # type: ignore[misc]
        return bool(found)

    with gateway.changed:
        assert gateway.changed.wait_for(there, DEADLINE)
        gateway.messages[:] = [message for message in gateway.messages if not message.raw.startswith(b"[")]
    return found[0]


def frame(id: object, method: str, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params is not None else {})}


def send(gateway: Gateway, parts: list[Any]) -> None:
    gateway.say(json.dumps(parts).encode() + b"\n")


def test_a_batch_is_answered_by_one_when_all_is_done(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a, version="2025-03-26")
    assert gateway.tool_names()
    call = {"name": "a__work"}
    send(
        gateway,
        [
            frame("p", "ping"),
            frame("c1", "tools/call", call),
            {"jsonrpc": "2.0", "method": "notifications/x-told"},
            frame("c2", "tools/call", call),
            1,
            frame("c2", "ping"),
            frame("u", "no/such/list", []),
            {"jsonrpc": "2.0", "id": 77, "result": {}},
        ],
    )
    first, second = a.expect("tools/call"), a.expect("tools/call")
    a.expect("notifications/x-told")
    a.reply(second, {"n": 2})
    gateway.ping()
    a.reply(first, {"n": 1})
    answers = batch(gateway)
    by_id: dict[Any, list[Any]] = {}
    for answer in answers:
        by_id.setdefault(answer["id"], []).append(answer.get("result", answer.get("error", {}).get("code")))
    assert by_id == {"p": [{}], "c1": [{"n": 1}], "c2": [-32600, {"n": 2}], None: [-32600], "u": [-32602]}


def test_a_cancelled_part_is_left_out(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a, version="2025-03-26")
    send(gateway, [frame("c1", "tools/call", {"name": "a__work"}), frame("p", "ping")])
    call = a.expect("tools/call")
    gateway.notify("notifications/cancelled", {"requestId": "c1"})
    assert [answer["id"] for answer in batch(gateway)] == ["p"]
    a.reply(call)
    gateway.ping()


def test_a_batch_without_requests_gets_no_answer(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a, version="2025-03-26")
    assert gateway.tool_names()
    send(gateway, [{"jsonrpc": "2.0", "method": "notifications/x-told"}, {"jsonrpc": "2.0", "id": 1, "result": {}}])
    a.expect("notifications/x-told")
    gateway.ping()
    assert not [message for message in gateway.messages if message.raw.startswith(b"[")]


@pytest.mark.parametrize("data", [b"[]", b" [ ] "])
def test_an_empty_batch_is_refused_as_one(puppet: Make, start: Start, data: bytes) -> None:
    gateway = start(puppet("a"), version="2025-03-26")
    gateway.say(data + b"\n")
    assert gateway.answer(None).error["code"] == -32600


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_versions_have_no_batches(puppet: Make, start: Start, version: str) -> None:
    a = puppet("a")
    gateway = start(a, version=version)
    send(gateway, [frame("c", "tools/call", {"name": "a__work"})])
    assert gateway.answer(None).error["code"] == -32600
    gateway.ping()
    assert a.got("tools/call") == []


def test_initialize_may_not_be_in_a_batch(puppet: Make, start: Start) -> None:
    gateway = start(puppet("a"), version=None)
    send(gateway, [frame(1, "initialize", {"protocolVersion": "2025-03-26", "capabilities": {}})])
    assert gateway.answer(None).error["code"] == -32600


def test_an_upstream_may_answer_in_batches(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    ids = [gateway.begin("a__work"), gateway.begin("a__work")]
    calls = [a.expect("tools/call"), a.expect("tools/call")]
    answers = [{"jsonrpc": "2.0", "id": call.id, "result": {"n": n}} for n, call in enumerate(calls)]
    a.say(json.dumps([5, *reversed(answers)]).encode() + b"\n")
    assert [gateway.answer(id).result["n"] for id in ids] == [0, 1]
