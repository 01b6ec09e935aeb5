"""What one side sent is what the other side gets, byte for byte."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client import Gateway
from tests.conftest import Start
from tests.puppets import Puppet

HUGE = b"1234567890" * 7
PAYLOADS = {
    "unknown fields": b'{"zeta":1,"alpha":{"x-vendor":[null,true]},"content":[{"type":"x/new","text":"t","extra":{}}],'
    b'"_meta":{"io.example/trace":"1"},"isError":false,"structuredContent":{"b":1,"a":2}}',
    "numbers": b'{"big":'
    + HUGE
    + b',"neg":-'
    + HUGE
    + b',"over":1e400,"one":1.0,"same":1.00,"exp":1E+2,"zero":-0,"z":-0.0}',
    "schema": b'{"$defs":{"n":{"$anchor":"n","type":"integer"}},"$ref":"#n","$schema":"https://json-schema.org/x"}',
    "escapes": b'{"a":"\\u0041\\/\\b\\f\\u00e9 \xc3\xa9 \\ud83d\\ude00 \xf0\x9f\x98\x80 '
    b'\\u2028 \xe2\x80\xa8 \\u0000","\\u006b":1}',
    "half characters": b'{"cut":"emoji \\ud83d","low":"\\uDE00 x","key \\ud83d":["\\udBFF"],"n":0,'
    b'"private":"\\ue000\xee\x80\x80"}',
    "white space": b'{ "a" : [ 1 ,  2 ] ,\t"b" : { } }',
    "duplicate keys": b'{"a":1,"a":2}',
    "deep": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "empty": b"{}",
}


@pytest.fixture(params=PAYLOADS, ids=lambda name: str(name).replace(" ", "_"))
def payload(request: pytest.FixtureRequest) -> bytes:
    return PAYLOADS[request.param]


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Gateway, Puppet]]:
    """One gateway and one upstream, for every example."""
    with tempfile.TemporaryDirectory(prefix="kg") as name:
        puppet = Puppet(Path(name), "a")
        (Path(name) / "gateway").mkdir()
        with Gateway(Path(name) / "gateway", {"a": puppet.entry}) as gateway:
            gateway.initialize()
            gateway.up()
            assert gateway.tool_names() == ["a__work"]
            yield gateway, puppet
        puppet.close()


def relay(pair: tuple[Gateway, Puppet], arguments: bytes, result: bytes) -> None:
    gateway, puppet = pair
    id = gateway.send("tools/call", b'{"name":"a__work","arguments":%b}' % arguments)
    call = puppet.expect("tools/call")
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"work","arguments":' % call.id
    assert call.raw == head + arguments + b"}}"
    puppet.reply(call, result)
    assert gateway.answer(id).payload == result


def test_arguments_and_result_are_untouched(pair: tuple[Gateway, Puppet], payload: bytes) -> None:
    relay(pair, payload, payload)


def test_an_error_is_untouched(pair: tuple[Gateway, Puppet], payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.begin("a__work")
    error = b'{"data":%b,"message":"m \\ud83d","x":1,"code":-32042}' % payload
    puppet.reply(puppet.expect("tools/call"), error=error)
    answer = gateway.answer(id)
    assert answer.payload == error
    assert b'"error":' in answer.raw


def test_a_server_that_spells_both_members_of_an_answer_is_understood(pair: tuple[Gateway, Puppet]) -> None:
    gateway, puppet = pair
    for member, other in (
        (b'"result":{"n":1}', b'"error":null'),
        (b'"error":{"code":7,"message":"m"}', b'"result":null'),
    ):
        id = gateway.begin("a__work")
        puppet.say(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (puppet.expect("tools/call").id, b"%b,%b" % (member, other)))
        assert gateway.answer(id).raw == b'{"jsonrpc":"2.0","id":%d,%b}' % (id, member)


def test_all_other_params_and_meta_are_untouched(pair: tuple[Gateway, Puppet], payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.send(
        "tools/call", b'{"x-first":%b,"_meta":{"v":%b,"w":1.0},"name":"a__work","last":1.00}' % (payload, payload)
    )
    call = puppet.expect("tools/call")
    assert call.raw.endswith(
        b'"params":{"x-first":%b,"_meta":{"v":%b,"w":1.0},"name":"work","last":1.00}}' % (payload, payload)
    )
    puppet.reply(call)
    gateway.answer(id)


def test_meta_beside_a_progress_token_is_untouched(pair: tuple[Gateway, Puppet], payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.send("tools/call", b'{"name":"a__work","_meta":{"v":%b,"progressToken":"t","w":1.0}}' % payload)
    call = puppet.expect("tools/call")
    assert call.raw.endswith(
        b'"params":{"name":"work","_meta":{"v":%b,"progressToken":%d,"w":1.0}}}' % (payload, call.id)
    )
    puppet.reply(call)
    gateway.answer(id)


def test_progress_keeps_all_but_its_token(pair: tuple[Gateway, Puppet], payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.begin("a__work", _meta={"progressToken": "mine"})
    call = puppet.expect("tools/call")
    said = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":%b,"progressToken":%b,"progress":1.0}}'
    puppet.say(said % (payload, str(call.id).encode()) + b"\n")
    assert gateway.expect("notifications/progress").raw == said % (payload, b'"mine"')
    puppet.reply(call)
    gateway.answer(id)


def test_a_vendor_method_and_notification_pass_both_ways(pair: tuple[Gateway, Puppet], payload: bytes) -> None:
    gateway, puppet = pair
    id = gateway.send("x-vendor/do", b'{"p":%b}' % payload)
    asked = puppet.expect("x-vendor/do")
    assert asked.raw.endswith(b'"params":{"p":%b}}' % payload)
    puppet.reply(asked, payload)
    assert gateway.answer(id).payload == payload
    frame = b'{"jsonrpc":"2.0","method":"notifications/x-vendor","params":%b}' % payload
    gateway.say(frame + b"\n")
    assert puppet.expect("notifications/x-vendor").raw == frame
    puppet.say(frame + b"\n")
    assert gateway.expect("notifications/x-vendor").raw == frame


def test_a_question_and_its_answer_are_untouched(puppet: Callable[..., Puppet], start: Start, payload: bytes) -> None:
    upstream = puppet()
    gateway = start(upstream, capabilities={"sampling": {}})
    id = gateway.begin("a__work")
    call = upstream.expect("tools/call")
    upstream.say(b'{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":%b}\n' % payload)
    question = gateway.expect("sampling/createMessage")
    assert question.raw.endswith(b'"method":"sampling/createMessage","params":%b}' % payload)
    gateway.say(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (question.id, payload))
    assert upstream.expect_answer("q").raw == b'{"jsonrpc":"2.0","id":"q","result":%b}' % payload
    upstream.reply(call)
    gateway.answer(id)


def test_a_listed_tool_keeps_all_but_its_name(puppet: Callable[..., Puppet], start: Start) -> None:
    listed = b'{"x-vendor":{"n":%b},"name":"work","inputSchema":%b,"annotations":{"x":1.00},"_meta":{"k":[]}}' % (
        HUGE,
        PAYLOADS["schema"],
    )
    upstream = puppet()
    upstream.on("tools/list", lambda m: b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%b],"x":1}}\n' % (m.id, listed))
    gateway = start(upstream)
    assert gateway.request("tools/list").payload == b'{"tools":[%b]}' % listed.replace(b'"work"', b'"a__work"')


@pytest.mark.parametrize("text", [b"ascii ", "é😀 ".encode(), b"\\ud83d "], ids=["ascii", "utf8", "half"])
def test_twelve_megabytes_both_ways(pair: tuple[Gateway, Puppet], text: bytes) -> None:
    big = b'{"n":1.0,"text":"' + text * (12_000_000 // len(text)) + b'"}'
    relay(pair, big, big)


def test_sixty_megabytes_both_ways(pair: tuple[Gateway, Puppet]) -> None:
    big = b'{"text":"' + b"x" * 60_000_000 + b'"}'
    relay(pair, big, big)


def test_two_large_answers_at_once_are_no_reason_to_hang_up(pair: tuple[Gateway, Puppet]) -> None:
    gateway, puppet = pair
    ids = [gateway.begin("a__work") for _ in range(2)]
    big = b'{"text":"' + b"x" * 40_000_000 + b'"}'
    for _ in ids:
        puppet.reply(puppet.expect("tools/call"), big)
    assert [gateway.answer(id).payload == big for id in ids] == [True, True]


def test_two_large_requests_at_once_are_no_reason_to_hang_up(pair: tuple[Gateway, Puppet]) -> None:
    gateway, puppet = pair
    big = b'{"name":"a__work","arguments":{"text":"' + b"x" * 40_000_000 + b'"}}'
    ids = [gateway.send("tools/call", big) for _ in range(2)]
    for _ in ids:
        puppet.reply(puppet.expect("tools/call"))
    assert [gateway.answer(id).payload for id in ids] == [b"{}", b"{}"]
    assert puppet.starts == 1


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
        st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xE001), max_size=4),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=8), inner, max_size=5)),
    max_leaves=25,
)
SPACE = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :  ")])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arguments=st.dictionaries(st.text(), VALUES), result=st.dictionaries(st.text(), VALUES), space=SPACE)
def test_arbitrary_json_is_untouched(
    pair: tuple[Gateway, Puppet], arguments: dict[str, Any], result: dict[str, Any], space: tuple[str, str]
) -> None:
    relay(pair, json.dumps(arguments, separators=space).encode(), json.dumps(result, separators=space).encode())
