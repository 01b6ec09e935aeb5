"""Calls in flight: ids, cancellation, progress, many at once, and upstreams that do not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.client import Gateway, Message
from tests.conftest import Start
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]


def echoing(message: Message) -> dict[str, object]:
    return {"result": {"content": [], "echo": message.params["arguments"]}}


def test_a_cancellation_reaches_only_the_upstream_that_runs_the_call(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b)
    first = gateway.begin("a__work", {"n": 1})
    second = gateway.begin("b__work", {"n": 2})
    third = gateway.begin("a__work", {"n": 3})
    calls = {n: (a if n != 2 else b).expect("tools/call") for n in (1, 2, 3)}
    gateway.notify("notifications/cancelled", {"requestId": third, "reason": "why \ud83d", "x-vendor": 1.5})
    heard = a.expect("notifications/cancelled")
    assert heard.params == {"requestId": calls[3].id, "reason": "why \ud83d", "x-vendor": 1.5}
    # The late reply is dropped: what is answered after it arrives, it does not.
    a.reply(calls[3], {"late": True})
    a.reply(calls[1], {"n": 1})
    b.reply(calls[2], {"n": 2})
    assert gateway.answer(first).result == {"n": 1}
    assert gateway.answer(second).result == {"n": 2}
    gateway.ping()
    assert not gateway.answered(third)
    assert b.got("notifications/cancelled") == []
    assert len(a.got("notifications/cancelled")) == 1


@pytest.mark.parametrize("wrong", [{"requestId": 99}, {"requestId": "1"}, {"requestId": None}, {}, [], None])
def test_a_cancellation_of_nothing_is_nothing(puppet: Make, start: Start, wrong: object) -> None:
    a = puppet("a")
    gateway = start(a)
    id = gateway.send("tools/call", {"name": "a__work"}, id=1_000)
    call = a.expect("tools/call")
    gateway.notify("notifications/cancelled", wrong)
    a.reply(call, {"fine": True})
    assert gateway.answer(id).result == {"fine": True}
    gateway.notify("notifications/cancelled", {"requestId": id})  # answered long ago
    gateway.ping()
    assert a.got("notifications/cancelled") == []


def test_an_id_may_be_used_again_by_the_client_and_is_never_by_us(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    for n in range(20):
        gateway.send("tools/call", {"name": "a__work", "arguments": {"n": n}}, id="same")
        call = a.expect("tools/call", arguments={"n": n})
        if n % 2:
            gateway.notify("notifications/cancelled", {"requestId": "same"})
            a.expect("notifications/cancelled", requestId=call.id)
            a.reply(call, {"late": n})
        else:
            a.reply(call, {"n": n})
            assert gateway.answer("same").result == {"n": n}
    gateway.ping()
    assert not gateway.answered("same")
    ids = [message.id for message in a.received if message.id is not None]
    assert max(Counter(ids).values()) == 1


def test_a_reply_under_an_id_that_is_not_ours_is_dropped(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    id = gateway.begin("a__work")
    call = a.expect("tools/call")
    for wrong in (b'"0%d!"' % call.id, b"%d.5" % call.id, b"999", b"-1", b"null", b"1" * 5000, b'"x"'):
        a.say(b'{"jsonrpc":"2.0","id":%b,"error":{"code":1,"message":"wrong"}}\n' % wrong)
    a.reply(call, {"right": True})
    assert gateway.answer(id).result == {"right": True}


@pytest.mark.parametrize("token", [700, "seven", "", 0, -1, 10**30])
def test_progress_comes_under_the_tokens_of_each_call(puppet: Make, start: Start, token: object) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b)
    first = gateway.begin("a__work", _meta={"progressToken": token})
    second = gateway.begin("b__work", _meta={"progressToken": token})
    other = gateway.begin("a__work", _meta={"progressToken": "other"})
    silent = gateway.begin("a__work")
    ca, cb, co, cs = (p.expect("tools/call") for p in (a, b, a, a))
    assert ca.params["_meta"] == {"progressToken": ca.id}
    assert "_meta" not in cs.params
    b.tell("notifications/progress", progressToken=cb.id, progress=1, message="b")
    assert gateway.expect("notifications/progress").params == {"progressToken": token, "progress": 1, "message": "b"}
    a.tell("notifications/progress", progressToken=co.id, progress=2, message="other")
    assert gateway.expect("notifications/progress").params["progressToken"] == "other"
    a.tell("notifications/progress", progressToken=cs.id, progress=3, message="nobody asked")
    a.tell("notifications/progress", progressToken=token, progress=3, message="not a token of ours")
    a.tell("notifications/progress", progress=3)
    a.reply(ca, {"n": 1})
    assert gateway.answer(first).result == {"n": 1}
    a.tell("notifications/progress", progressToken=ca.id, progress=4, message="late")
    for call, id in ((co, other), (cs, silent)):
        a.reply(call)
        gateway.answer(id)
    b.reply(cb)
    gateway.answer(second)
    said = [message.params.get("message") for message in gateway.got("notifications/progress")]
    assert said == ["b", "other"]


def test_a_thousand_calls_at_once_over_five_upstreams_come_back_to_their_callers(puppet: Make, start: Start) -> None:
    upstreams = [puppet(name, tools=[tool("echo")]) for name in "abcde"]
    for upstream in upstreams:
        upstream.on("tools/call", echoing)
    gateway = start(*upstreams)
    assert len(gateway.tools()) == 5
    sent = {
        gateway.send("tools/call", {"name": f"{name}__echo", "arguments": {"n": n, "of": name}}): (n, name)
        for n in range(200)
        for name in "abcde"
    }
    for id, (n, name) in sent.items():
        assert gateway.answer(id).result["echo"] == {"n": n, "of": name}
    for upstream in upstreams:
        assert len(upstream.got("tools/call")) == 200


def test_answers_in_any_order_find_their_callers(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    ids = [gateway.begin("a__work", {"n": n}) for n in range(100)]
    calls = [a.expect("tools/call", arguments={"n": n}) for n in range(100)]
    for n in sorted(range(100), key=lambda n: n * 37 % 100):
        a.reply(calls[n], {"n": n})
    assert [gateway.answer(id).result["n"] for id in ids] == list(range(100))


def test_a_sleeping_upstream_changes_nothing_for_the_others(puppet: Make, start: Start) -> None:
    asleep, awake = puppet("asleep"), puppet("awake")
    awake.on("tools/call", echoing)
    gateway = start(asleep, awake)
    waiting = gateway.begin("asleep__work")
    call = asleep.expect("tools/call")
    for n in range(200):
        assert gateway.call("awake__work", {"n": n}).result["echo"] == {"n": n}
    assert not gateway.answered(waiting)
    asleep.reply(call, {"awake": "now"})
    assert gateway.answer(waiting).result == {"awake": "now"}


def test_an_upstream_that_never_answers_initialize_delays_nobody(puppet: Make, start: Start) -> None:
    mute, fine = puppet("mute"), puppet("fine")
    mute.on("initialize", lambda _: None)
    mute.on("server/discover", lambda _: None)
    fine.on("tools/call", echoing)
    gateway = start(mute, fine)
    assert gateway.call("fine__work", {"n": 1}).result["echo"] == {"n": 1}
    assert gateway.tool_names() == ["fine__work"]


def test_the_death_of_an_upstream_fails_its_calls_and_only_them(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b)
    lost = gateway.begin("a__work")
    kept = gateway.begin("b__work")
    a.expect("tools/call")
    call = b.expect("tools/call")
    a.drop()
    failed = gateway.answer(lost).result
    assert failed["isError"] is True
    assert "a: " in failed["content"][0]["text"]
    assert "may have been executed" in failed["content"][0]["text"]
    b.reply(call, {"n": 1})
    assert gateway.answer(kept).result == {"n": 1}
    a.on("tools/call", echoing)
    again = gateway.call("a__work", {"again": True}).result
    assert again.get("echo") == {"again": True}, again
    assert a.starts == 2
    assert b.starts == 1


def test_a_call_that_times_out_is_cancelled_upstream_and_its_late_reply_dropped(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a, entries={"a": {"timeout": 1}})
    assert gateway.tool_names()
    id = gateway.begin("a__work")
    call = a.expect("tools/call")
    failed = gateway.answer(id).result
    assert failed["isError"] is True
    assert "no answer within 1 s" in failed["content"][0]["text"]
    a.expect("notifications/cancelled", requestId=call.id)
    a.reply(call, {"late": True})
    gateway.ping()
    assert not gateway.answered(id)


def test_a_failed_request_of_another_method_is_an_error_with_data(puppet: Make, start: Start) -> None:
    a = puppet("a", prompts=[{"name": "p"}])
    gateway = start(a)
    assert gateway.request("prompts/list").result["prompts"] == [{"name": "a__p"}]
    id = gateway.send("prompts/get", {"name": "a__p"})
    a.expect("prompts/get", name="p")
    a.drop()
    error = gateway.answer(id).error
    assert error["code"] == -32000
    assert error["data"]["server"] == "a"
    assert error["data"]["mayHaveExecuted"] is True


def test_both_names_of_a_tool_are_taken(puppet: Make, start: Start) -> None:
    a = puppet("a")
    a.on("tools/call", echoing)
    gateway: Gateway = start(a)
    for name in ("a__work", "a:work"):
        assert gateway.call(name, {"n": 1}).result["echo"] == {"n": 1}
    assert {message.params["name"] for message in a.got("tools/call")} == {"work"}


def test_a_call_made_before_its_upstream_is_there_waits_for_it(puppet: Make, start: Start) -> None:
    a = puppet("a")
    a.on("tools/call", echoing)
    gateway = start(a, version=None)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    gateway.send("initialize", params)
    assert gateway.call("a__work", {"n": 1}).result["echo"] == {"n": 1}


def test_calls_that_outlast_the_clients_input_are_answered_before_the_end(puppet: Make, start: Start) -> None:
    a = puppet("a", prompts=[{"name": "p"}])
    gateway = start(a)
    gateway.up()
    soon, never, prompt = (
        gateway.begin("a__work"),
        gateway.begin("a__work"),
        gateway.send("prompts/get", {"name": "a:p"}),
    )
    first, second = a.expect("tools/call"), a.expect("tools/call")
    a.expect("prompts/get")
    gateway.close_input()
    a.reply(first, {"n": 1})
    assert gateway.answer(soon).result == {"n": 1}
    failed = gateway.answer(never).result
    assert failed["isError"] is True
    assert "shutting down" in failed["content"][0]["text"]
    refused = gateway.answer(prompt).error
    assert (refused["code"], refused["data"]["mayHaveExecuted"]) == (-32800, True)
    a.expect("notifications/cancelled", requestId=second.id)
    assert gateway.wait() == 0
