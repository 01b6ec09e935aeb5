"""Whatever comes in, the process lives, the answer has the right code, and the next good frame is answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.client import DEADLINE, Gateway, Message
from tests.conftest import Start
from tests.puppets import Puppet

Make = Callable[..., Puppet]
GOOD = b'{"jsonrpc":"2.0","id":"good","method":"ping"}\n'
DEEP = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__work","arguments":{"a":%b%b}}}'


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with TemporaryDirectory(prefix="kg") as name:
        puppets = [Puppet(Path(name), server) for server in "ab"]
        for one in puppets:
            one.on("tools/call", lambda _: {"result": {"called": True}})
        (Path(name) / "gateway").mkdir()
        with Gateway(Path(name) / "gateway", {one.name: one.entry for one in puppets}) as gateway:
            gateway.initialize()
            assert gateway.tool_names() == ["a__work", "b__work"]
            yield gateway
        for one in puppets:
            one.close()


def answers_to(gateway: Gateway, data: bytes) -> list[Message]:
    """All that is said until the good frame after it is answered."""
    before = len(gateway.messages)
    gateway.say(data + b"\n" + GOOD)
    gateway.answer("good")
    return [message for message in gateway.messages[before:] if message.id != "good"]


@pytest.mark.parametrize(
    ("data", "code", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"ping"', -32700, None),
        (b'{"jsonrpc":"2.0","id":5,"meth', -32700, None),
        (b"hello", -32700, None),
        (b"\x00", -32700, None),
        (b"\x00" * 100_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping"}\x00', -32700, None),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"ping"}', -32700, None),
        (
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a__work","arguments":{"x":"\xff"}}}',
            -32700,
            None,
        ),
        (
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a__work","arguments":{"x":"\xed\xa0\x80"}}}',
            -32700,
            None,
        ),
        (b"[" * 1_000_000, -32700, None),
        (b'{"a":' * 200_000, -32700, None),
        (b'{"a":[' * 200_000, -32700, None),
        (DEEP % (b"[" * 100_000, b"]" * 100_000), -32700, None),
        (DEEP % (b'{"a":' * 100_000 + b"1", b"}" * 100_000), -32700, None),
        (b"1", -32600, None),
        (b'"x"', -32600, None),
        (b"null", -32600, None),
        (b"true", -32600, None),
        (b"{}", -32600, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', -32600, None),
        (b'{"jsonrpc":"2.0","id":5}', -32600, 5),
        (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600, 5),
        (b'{"id":5,"method":"ping"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":5,"method":null,"params":{}}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":{}}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"no/such"}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"no/such\\ud83d"}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":""}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call"}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":"x"}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":null}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":1}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nobody"}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"\\ud83d"}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a__work","_meta":1}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"x"}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"no:such\\ud83d"}}', -32002, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"completion/complete","params":{}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"completion/complete","params":{"ref":[]}}', -32602, 5),
        (
            b'{"jsonrpc":"2.0","id":5,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"\\ud83d"}}}',
            -32602,
            5,
        ),
        (b'{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"loud"}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"nobody"}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"initialize","params":[]}', -32602, 5),
    ],
)
def test_it_is_refused_by_its_code_and_the_next_frame_answered(
    gateway: Gateway, data: bytes, code: int, id: int | None
) -> None:
    [refusal] = answers_to(gateway, data)
    assert (refusal.error["code"], refusal.id) == (code, id)
    assert isinstance(refusal.error["message"], str)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"\r",
        b" \t \r",
        b'{"jsonrpc":"2.0","method":"no/such/notification"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":7}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a__work"}}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":"99","error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}',
    ],
)
def test_it_gets_no_answer_and_the_next_frame_does(gateway: Gateway, data: bytes) -> None:
    assert answers_to(gateway, data) == []


@pytest.mark.parametrize("depth", range(930, 1000, 3))
def test_nesting_near_the_limit_is_relayed_or_refused(gateway: Gateway, depth: int) -> None:
    with gateway.changed:
        gateway.responses.clear()
    gateway.say(DEEP % (b"[" * depth, b"]" * depth) + b"\n" + GOOD)
    gateway.answer("good")
    answer = next(iter(_either(gateway, 1)))
    assert "result" in answer.json or answer.error["code"] == -32700


def _either(gateway: Gateway, id: int) -> Iterator[Message]:
    """The answer under this id, or under none."""
    found: list[Message] = []

    def there() -> bool:
        found.extend(message for key in (str(id), "null") if (message := gateway.responses.pop(key, None)))
        return bool(found)

    with gateway.changed:
        assert gateway.changed.wait_for(there, DEADLINE)
    return iter(found)


@pytest.mark.parametrize("id", [0, -1, 1.5, 10**70, "", "é", "\ud83d", '"\\\n', "x" * 10_000])
def test_an_id_comes_back_as_it_was(gateway: Gateway, id: object) -> None:
    assert gateway.request("ping", id=id).result == {}
    assert gateway.request("tools/call", {"name": "a__work"}, id=id).result == {"called": True}


def test_an_id_comes_back_in_the_spelling_it_had(gateway: Gateway) -> None:
    for id in (b"1.0", b"1e2", b'"\\u0041"'):
        gateway.say(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}\n' % id)
        assert gateway.answer(json.loads(id)).raw == b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id


def test_an_id_in_use_is_refused_and_the_first_request_answered(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    gateway.send("tools/call", {"name": "a__work"}, id="A")
    call = a.expect("tools/call")
    gateway.say(b'{"jsonrpc":"2.0","id":"\\u0041","method":"tools/call","params":{"name":"a__work"}}\n')
    assert gateway.answer("A").error["code"] == -32600
    a.reply(call, {"n": 1})
    assert gateway.answer("A").result == {"n": 1}
    assert len(a.got("tools/call")) == 1


def test_one_is_not_the_string_one(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    gateway.send("tools/call", {"name": "a__work"}, id=100)
    first = a.expect("tools/call")
    gateway.send("tools/call", {"name": "a__work"}, id="100")
    second = a.expect("tools/call")
    a.reply(second, {"n": 2})
    a.reply(first, {"n": 1})
    assert gateway.answer("100").result == {"n": 2}
    assert gateway.answer(100).result == {"n": 1}


def test_a_frame_without_its_newline_is_taken_when_the_input_ends(puppet: Make, start: Start) -> None:
    gateway = start(puppet("a"))
    gateway.say(GOOD.rstrip(b"\n"))
    gateway.close_input()
    assert gateway.answer("good").result == {}
    assert gateway.wait() == 0


def test_nothing_but_ping_is_answered_before_initialize(puppet: Make, start: Start) -> None:
    gateway = start(puppet("a"), version=None)
    assert gateway.request("ping").result == {}
    assert gateway.request("tools/list").error["code"] == -32600
    assert gateway.request("x/vendor").error["code"] == -32601
    assert gateway.request("initialize", {"protocolVersion": 5, "capabilities": []}).error["code"] == -32602
    assert gateway.request("initialize", {"protocolVersion": 5, "capabilities": {}}).error["code"] == -32602
    assert gateway.initialize().result["protocolVersion"] == "2025-11-25"
    gateway.up()
    assert gateway.tool_names() == ["a__work"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [(v, v) for v in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")] + [("2099-01-01", "2025-11-25")],
)
def test_the_version_is_negotiated(start: Start, asked: str, given: str) -> None:
    gateway = start(version=None)
    assert gateway.initialize(asked).result["protocolVersion"] == given


# Smuggling: white space between tokens may hold newlines, and a frame is a line


HIDDEN = b'{"jsonrpc":"2.0","id":"hidden","method":"tools/call","params":{"name":"b__work"}}'


@pytest.mark.parametrize("separator", [b"\r", b"\r\r", b" \r "])
def test_a_call_hidden_in_the_white_space_of_another_is_not_executed(
    puppet: Make, start: Start, separator: bytes
) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b, gateway={"tools": {"deny": ["a:secret"]}})
    hidden = b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"secret"}}'
    gateway.say(
        b'{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{"name":"a__work","arguments":{"x":'
        + separator
        + b"1"
        + separator
        + b',"y":'
        + json.dumps(hidden.decode()).encode()
        + separator
        + b"}}}\n"
    )
    call = a.expect("tools/call")
    assert b"\r" not in call.raw
    assert call.params == {"name": "work", "arguments": {"x": 1, "y": hidden.decode()}}
    a.say(b'{"jsonrpc":"2.0","id":%d,"result":{"a":%b1%b}}\n' % (call.id, separator, separator))
    answer = gateway.answer(1000)
    assert b"\r" not in answer.raw
    assert answer.result == {"a": 1}
    assert len(a.got("tools/call")) == 1


def test_a_carriage_return_is_no_end_of_line_either_way(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    gateway.say(b'{"jsonrpc":"2.0","id":5,"method":"ping"}\r' + HIDDEN + b"\n")
    gateway.ping()
    assert a.got("tools/call") == []
    id = gateway.begin("a__work")
    call = a.expect("tools/call")
    forged = b'{"jsonrpc":"2.0","id":%d,"result":{"forged":true}}' % call.id
    a.say(b'{"jsonrpc":"2.0","method":"notifications/x"}\r' + forged + b"\n")
    a.reply(call, {"true": 1})
    assert gateway.answer(id).result == {"true": 1}


def test_lines_may_end_in_carriage_return_and_newline(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    gateway.say(b'{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{"name":"a__work"}}\r\n')
    call = a.expect("tools/call")
    a.say(b'{"jsonrpc":"2.0","id":%d,"result":{"n":1}}\r\n' % call.id)
    assert gateway.answer(1000).raw == b'{"jsonrpc":"2.0","id":1000,"result":{"n":1}}'


# Garbage from an upstream


@pytest.mark.parametrize(
    "garbage",
    [
        b"Server listening on port 3000",
        b"\x00\x01\x02",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0"',
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b"[]",
        b"{}",
        b"null",
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":[]}',
        b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":[]}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    ],
)
def test_garbage_from_an_upstream_is_skipped(puppet: Make, start: Start, garbage: bytes) -> None:
    a = puppet("a")
    gateway = start(a)
    id = gateway.begin("a__work")
    call = a.expect("tools/call")
    a.say(b"\n" + garbage + b"\n\r\n")
    a.reply(call, {"n": 1})
    assert gateway.answer(id).result == {"n": 1}
    assert a.starts == 1
    for message in gateway.messages:
        assert message.json["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    "broken",
    [
        b'{"jsonrpc":"2.0","id":%d,"result":{"text":"\xff"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"text":"\xed\xa0\xbd"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"text":"a\x00b"}}',
        b'{"result":{"text":"\xff"},"jsonrpc":"2.0","id":%d}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"x":NaN}}',
    ],
)
def test_a_broken_answer_fails_its_call_and_no_other(puppet: Make, start: Start, broken: bytes) -> None:
    a = puppet("a")
    gateway = start(a)
    first, second = gateway.begin("a__work"), gateway.begin("a__work")
    calls = [a.expect("tools/call") for _ in range(2)]
    a.say(broken % calls[0].id + b"\n")
    a.reply(calls[1], {"n": 2})
    assert gateway.answer(second).result == {"n": 2}
    failed = gateway.answer(first).result
    assert failed["isError"] is True
    assert "may have been executed" in failed["content"][0]["text"]
    assert a.starts == 1


def test_an_upstream_may_list_names_nobody_can_spell(puppet: Make, start: Start) -> None:
    odd = ["cut \ud83d", "", "é", "a:b", "x" * 300, "work"]
    a = puppet("a", tools=[{"name": name} for name in odd] + [{"noname": 1}, 5, [], {"name": 7}, {"name": "work"}])
    a.on("tools/call", lambda message: {"result": {"called": message.params["name"]}})
    gateway = start(a)
    names = gateway.tool_names()
    assert len(names) == len(odd)
    assert {gateway.call(name).result["called"] for name in names} == set(odd)


def test_instructions_with_half_a_character_break_nothing(puppet: Make, start: Start) -> None:
    a = puppet("a", introduction={"instructions": "cut \ud83d"})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    assert "cut" in gateway.initialize().result["instructions"]
