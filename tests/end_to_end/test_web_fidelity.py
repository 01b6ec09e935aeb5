"""What one side sent is what the other side gets, byte for byte, also over SSE and over Streamable HTTP."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client import Gateway
from tests.end_to_end.test_fidelity import HUGE, PAYLOADS, SPACE, VALUES, relay
from tests.webpuppets import Mode, WebPuppet

Pair = tuple[Gateway, WebPuppet]
LISTED = b'{"x-vendor":{"n":%b},"name":"work","inputSchema":%b,"annotations":{"x":1.00},"_meta":{"k":[]}}' % (
    HUGE,
    PAYLOADS["schema"],
)
MODES: tuple[Mode, ...] = ("sse", "json", "stream")


@pytest.fixture(scope="module", params=MODES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """One gateway and one upstream for each transport."""
    with tempfile.TemporaryDirectory(prefix="kg") as name:
        puppet = WebPuppet(Path(name), "a", request.param)
        puppet.on("tools/list", lambda m: b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%b],"x":1}}\n' % (m.id, LISTED))
        (Path(name) / "gateway").mkdir()
        with Gateway(Path(name) / "gateway", {"a": puppet.entry}) as gateway:
            gateway.initialize(capabilities={"sampling": {}})
            gateway.up()
            assert gateway.tool_names() == ["a__work"]
            yield gateway, puppet
        puppet.close()


@pytest.fixture(params=PAYLOADS, ids=lambda name: str(name).replace(" ", "_"))
def payload(request: pytest.FixtureRequest) -> bytes:
    return PAYLOADS[request.param]


def test_a_listed_tool_keeps_all_but_its_name(pair: Pair) -> None:
    assert pair[0].request("tools/list").payload == b'{"tools":[%b]}' % LISTED.replace(b'"work"', b'"a__work"')


def test_arguments_and_result_are_untouched(pair: Pair, payload: bytes) -> None:
    relay(pair, payload, payload)


def test_an_error_is_untouched(pair: Pair, payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.begin("a__work")
    error = b'{"data":%b,"message":"m \\ud83d","x":1,"code":-32042}' % payload
    puppet.reply(puppet.expect("tools/call"), error=error)
    assert gateway.answer(id).payload == error


def test_meta_and_progress_are_untouched_but_for_the_token(pair: Pair, payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.send("tools/call", b'{"name":"a__work","_meta":{"v":%b,"progressToken":"t","w":1.0}}' % payload)
    call = puppet.expect("tools/call")
    assert call.raw.endswith(
        b'"params":{"name":"work","_meta":{"v":%b,"progressToken":%d,"w":1.0}}}' % (payload, call.id)
    )
    said = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":%b,"progressToken":%b,"progress":1.0}}'
    puppet.say(said % (payload, str(call.id).encode()))
    assert gateway.expect("notifications/progress").raw == said % (payload, b'"t"')
    puppet.reply(call)
    gateway.answer(id)


def test_a_question_and_its_answer_are_untouched(pair: Pair, payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.begin("a__work")
    call = puppet.expect("tools/call")
    puppet.say(b'{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":%b}' % payload)
    question = gateway.expect("sampling/createMessage")
    assert question.raw.endswith(b'"method":"sampling/createMessage","params":%b}' % payload)
    gateway.say(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (question.id, payload))
    assert puppet.expect_answer("q").raw == b'{"jsonrpc":"2.0","id":"q","result":%b}' % payload
    puppet.reply(call)
    gateway.answer(id)


def test_a_vendor_method_and_notification_pass_both_ways(pair: Pair, payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.send("x-vendor/do", b'{"p":%b}' % payload)
    asked = puppet.expect("x-vendor/do")
    assert asked.raw.endswith(b'"params":{"p":%b}}' % payload)
    puppet.reply(asked, payload)
    assert gateway.answer(id).payload == payload
    frame = b'{"jsonrpc":"2.0","method":"notifications/x-vendor","params":%b}' % payload
    gateway.say(frame + b"\n")
    assert puppet.expect("notifications/x-vendor").raw == frame
    puppet.say(frame)
    assert gateway.expect("notifications/x-vendor").raw == frame


def test_twelve_megabytes_both_ways(pair: Pair) -> None:
    big = b'{"n":1.0,"half":"\\ud83d","text":"' + "é😀 ".encode() * 1_750_000 + b'"}'
    assert len(big) > 12_000_000
    relay(pair, big, big)


def test_a_cancellation_goes_under_the_upstreams_id_and_a_late_reply_nowhere(pair: Pair) -> None:
    gateway, puppet = pair
    id, other = gateway.begin("a__work"), gateway.begin("a__work")
    calls = sorted([puppet.expect("tools/call"), puppet.expect("tools/call")], key=lambda call: call.id)
    gateway.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    cancelled = puppet.expect("notifications/cancelled")
    assert cancelled.params == {"requestId": calls[0].id, "reason": "enough"}
    puppet.reply(calls[0], {"late": True})
    puppet.reply(calls[1], {"right": True})
    assert gateway.answer(other).result == {"right": True}
    gateway.ping()
    assert not gateway.answered(id)


@pytest.mark.parametrize("separator", [b"\n", b"\r", b"\r\n", b"\n\n"])
def test_white_space_with_line_ends_never_becomes_a_second_frame(pair: Pair, separator: bytes) -> None:
    gateway, puppet = pair
    id = gateway.begin("a__work")
    call = puppet.expect("tools/call")
    forged = json.dumps(f'data: {{"jsonrpc":"2.0","id":{call.id},"result":{{"forged":true}}}}').encode()
    puppet.say(
        b'{"jsonrpc":"2.0",%b"id":%d,%b"result":%b{"a":%b1,%b"b":%b}%b}'
        % (separator, call.id, separator, separator, separator, separator, forged, separator)
    )
    answer = gateway.answer(id)
    assert answer.result == {"a": 1, "b": json.loads(forged)}
    assert b"\r" not in answer.raw
    gateway.ping()


def test_a_carriage_return_from_the_client_is_a_space_upstream(pair: Pair) -> None:
    gateway, puppet = pair
    before = len(puppet.got("tools/call"))
    hidden = b'\r{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"secret"}}\r'
    gateway.say(
        b'{"jsonrpc":"2.0","id":"cr","method":"tools/call","params":{"name":"a__work",\r"arguments":{"x":\r1\r}}}\n'
    )
    call = puppet.expect("tools/call")
    assert b"\r" not in call.raw
    puppet.reply(call)
    gateway.answer("cr")
    gateway.say(b'{"jsonrpc":"2.0","id":"two","method":"ping"}' + hidden + b"\n")  # two values are no frame
    gateway.ping()
    assert len(puppet.got("tools/call")) == before + 1


def test_ids_are_never_used_twice(pair: Pair) -> None:
    _, puppet = pair
    ids = [message.id for message in puppet.received if message.method is not None and message.id is not None]
    assert len(ids) == len(set(ids))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arguments=st.dictionaries(st.text(), VALUES), result=st.dictionaries(st.text(), VALUES), space=SPACE)
def test_arbitrary_json_is_untouched(
    pair: Pair, arguments: dict[str, Any], result: dict[str, Any], space: tuple[str, str]
) -> None:
    relay(pair, json.dumps(arguments, separators=space).encode(), json.dumps(result, separators=space).encode())


def test_many_calls_at_once_come_back_to_their_callers(pair: Pair) -> None:
    gateway, puppet = pair
    puppet.on("tools/call", lambda call: {"result": {"n": call.params["arguments"]["n"]}})
    try:
        ids = {gateway.begin("a__work", {"n": n}): n for n in range(200)}
        assert [gateway.answer(id).result["n"] for id in ids] == list(ids.values())
    finally:
        puppet.forget("tools/call")
    assert not [id for id in ids if gateway.answered(id)], "somebody was answered twice"
