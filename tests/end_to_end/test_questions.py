"""What an upstream asks of the client: sampling, elicitation, roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Start
from tests.puppets import Puppet

Make = Callable[..., Puppet]
ALL: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "x-vendor": 1.5},
    "experimental": {"x": {"y": []}},
}
QUESTIONS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}


def test_an_upstream_is_initialised_after_the_client_with_exactly_its_capabilities(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b, version=None)
    gateway.ping()
    assert a.received == b.received == []
    gateway.initialize(capabilities=ALL)
    gateway.up()
    assert gateway.tool_names() == ["a__work", "b__work"]
    for upstream in (a, b):
        [initialize] = upstream.got("initialize")
        assert initialize.params["capabilities"] == ALL
        assert initialize.params["clientInfo"]["name"] == "kimi-gateway"
        methods = [message.method for message in upstream.received if message.method != "server/discover"]
        assert methods[:2] == ["initialize", "notifications/initialized"]


@pytest.mark.parametrize("method", QUESTIONS)
@pytest.mark.parametrize("id", [1, "1", "\ud83d", 10**30])
def test_a_question_is_relayed_and_answered_under_the_upstreams_id(
    puppet: Make, start: Start, method: str, id: object
) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b, capabilities=ALL)
    first, second = gateway.begin("a__work"), gateway.begin("b__work")
    calls = a.expect("tools/call"), b.expect("tools/call")
    a.ask(id, method, who="a")
    b.ask(id, method, who="b")
    asked = {message.params["who"]: message for message in (gateway.expect(method), gateway.expect(method))}
    assert asked["a"].id != asked["b"].id
    gateway.reply(asked["b"], {"for": "b"})
    assert b.expect_answer(id).result == {"for": "b"}
    gateway.reply(asked["a"], error={"code": -1, "message": "no", "data": {"x": 1}})
    assert a.expect_answer(id).error == {"code": -1, "message": "no", "data": {"x": 1}}
    gateway.reply(asked["a"], {"again": True})  # answered already
    a.reply(calls[0], {"n": 1})
    b.reply(calls[1], {"n": 2})
    assert gateway.answer(first).result == {"n": 1}
    assert gateway.answer(second).result == {"n": 2}
    assert [m for m in a.received if m.method is None and m.json.get("result") == {"again": True}] == []


@pytest.mark.parametrize("method", QUESTIONS)
def test_a_question_the_client_cannot_answer_is_refused_at_once(puppet: Make, start: Start, method: str) -> None:
    a = puppet("a")
    can = {name: value for name, value in ALL.items() if name != QUESTIONS[method]}
    gateway = start(a, capabilities=can)
    assert gateway.tool_names()
    a.ask("q", method)
    assert a.expect_answer("q").error["code"] == -32601
    gateway.ping()
    assert gateway.got(method) == []


def test_a_question_the_client_answers_outside_any_call_is_relayed(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a, capabilities=ALL)
    gateway.on("roots/list", lambda _: {"roots": [{"uri": "file:///x"}]})
    assert gateway.tool_names()
    a.ask(5, "roots/list")
    assert a.expect_answer(5).result == {"roots": [{"uri": "file:///x"}]}


def test_an_upstreams_ping_is_answered_by_the_gateway(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a)
    assert gateway.tool_names()
    a.ask("p", "ping")
    assert a.expect_answer("p").result == {}


def test_the_clients_progress_on_an_answer_reaches_the_upstream_under_its_token(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b, capabilities=ALL)
    assert gateway.tool_names()
    a.ask(1, "sampling/createMessage", _meta={"progressToken": "a's", "v": 1}, x=1)
    b.ask(1, "sampling/createMessage", x=2)
    question = gateway.expect("sampling/createMessage", x=1)
    silent = gateway.expect("sampling/createMessage", x=2)
    token = question.params["_meta"]["progressToken"]
    assert question.params["_meta"] == {"progressToken": token, "v": 1}
    gateway.notify("notifications/progress", {"progressToken": token, "progress": 0.5, "x-v": 1})
    assert a.expect("notifications/progress").params == {"progressToken": "a's", "progress": 0.5, "x-v": 1}
    gateway.notify("notifications/progress", {"progressToken": silent.id, "progress": 0.5})
    gateway.reply(question, {"done": 1})
    assert a.expect_answer(1).result == {"done": 1}
    gateway.notify("notifications/progress", {"progressToken": token, "progress": 1})
    gateway.reply(silent, {"done": 2})
    assert b.expect_answer(1).result == {"done": 2}
    assert len(a.got("notifications/progress")) == 1
    assert b.got("notifications/progress") == []


def test_an_upstream_that_cancels_its_question_cancels_only_that(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b, capabilities=ALL)
    assert gateway.tool_names()
    a.ask("q", "elicitation/create", n=1)
    b.ask("q", "elicitation/create", n=2)
    a.ask("r", "elicitation/create", n=3)
    asked = {n: gateway.expect("elicitation/create", n=n) for n in (1, 2, 3)}
    a.tell("notifications/cancelled")
    a.tell("notifications/cancelled", requestId="nobody's")
    a.tell("notifications/cancelled", requestId="q", reason="enough")
    told = gateway.expect("notifications/cancelled")
    assert told.params == {"requestId": asked[1].id, "reason": "enough"}
    gateway.reply(asked[1], {"late": True})
    gateway.reply(asked[2], {"n": 2})
    gateway.reply(asked[3], {"n": 3})
    assert b.expect_answer("q").result == {"n": 2}
    assert a.expect_answer("r").result == {"n": 3}
    assert [message.id for message in a.received if message.method is None] == ["r"]
    assert len(gateway.got("notifications/cancelled")) == 1


def test_the_questions_of_an_upstream_that_died_are_taken_back(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = start(a, capabilities=ALL)
    assert gateway.tool_names()
    a.ask("q", "elicitation/create")
    asked = gateway.expect("elicitation/create")
    a.drop()
    assert gateway.expect("notifications/cancelled").params["requestId"] == asked.id
    gateway.reply(asked, {"late": True})
    gateway.ping()


def test_a_calls_clock_stands_still_while_its_question_is_open(puppet: Make, start: Start) -> None:
    slow, timed = puppet("slow"), puppet("timed")
    gateway = start(slow, timed, capabilities=ALL, entries={"slow": {"timeout": 2}, "timed": {"timeout": 3}})
    assert gateway.tool_names()
    first = gateway.begin("slow__work")
    call = slow.expect("tools/call")
    slow.ask("q", "elicitation/create")
    asked = gateway.expect("elicitation/create")
    # A call with a longer time, begun later, runs out: the first one's would have long before.
    second = gateway.begin("timed__work")
    assert gateway.answer(second).result["isError"] is True
    assert not gateway.answered(first)
    gateway.reply(asked, {"action": "accept"})
    slow.expect_answer("q")
    slow.reply(call, {"n": 1})
    assert gateway.answer(first).result == {"n": 1}


def test_changed_roots_are_told_to_every_upstream(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b, capabilities=ALL)
    assert gateway.tool_names()
    gateway.notify("notifications/roots/list_changed", {"x": 1.5})
    assert a.expect("notifications/roots/list_changed").params == {"x": 1.5}
    assert b.expect("notifications/roots/list_changed").params == {"x": 1.5}


def test_a_vendors_question_is_relayed(puppet: Make, start: Start) -> None:
    a, b = puppet("a"), puppet("b")
    gateway = start(a, b)
    assert gateway.tool_names()
    gateway.on("x-vendor/ask", lambda message: {"got": message.params})
    a.ask(1, "x-vendor/ask", n=1)
    assert a.expect_answer(1).result == {"got": {"n": 1}}
