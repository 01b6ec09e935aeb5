"""How long a call may take: per server, per tool, longer with progress, never without end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.connection import LONGEST, Unheard
from configs.models import Server, Source
from gateway.exchange import Exchange
from tests.client import until
from tests.conftest import Start
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]


def exchange(timeout: float) -> Exchange:
    made = Exchange(Unheard(), b"1", "tools/call", {})
    made.begin(100.0, timeout)
    return made


def test_the_defaults_are_a_minute_and_ten_with_progress() -> None:
    assert Server("a", "stdio", Source(None, "global")).timeout == 60.0
    assert LONGEST == 600.0


@pytest.mark.parametrize(("timeout", "latest"), [(60.0, 700.0), (5.0, 700.0), (600.0, 700.0), (3600.0, 3700.0)])
def test_progress_moves_the_deadline_up_to_a_hard_maximum(timeout: float, latest: float) -> None:
    call = exchange(timeout)
    assert call.deadline == 100.0 + timeout
    now = 100.0
    while now < latest:
        now = min(call.deadline - 0.001, latest)
        call.extend(now, LONGEST)
        assert not call.overdue(now)
        assert call.deadline <= latest
        if call.deadline == latest:
            break
    call.extend(latest - 0.001, LONGEST)
    assert call.deadline == latest
    assert call.overdue(latest)


def test_a_question_to_the_client_stops_the_clock_and_the_maximum_too() -> None:
    call = exchange(60.0)
    call.pause(110.0)
    assert not call.overdue(5000.0)
    call.resume(1110.0)
    assert call.deadline == 1160.0
    call.extend(10_000.0, LONGEST)
    assert call.deadline == 1700.0


def test_of_several_questions_at_once_the_last_answer_starts_the_clock_again() -> None:
    call = exchange(60.0)
    call.pause(110.0)
    call.pause(120.0)
    call.resume(130.0)
    assert not call.overdue(5000.0)
    call.resume(1110.0)
    assert call.deadline == 1160.0
    call.resume(1120.0)
    assert call.deadline == 1160.0


def test_a_tool_may_have_a_time_limit_of_its_own(start: Start, puppet: Make) -> None:
    a = puppet("a", tools=[tool("slow"), tool("quick")])
    limits = {"timeout": 500, "timeouts": {"quick": 0.5}}
    gateway = start(a, entries={"a": limits})
    gateway.up()
    assert gateway.tool_names() == ["a__quick", "a__slow"]
    slow, quick = gateway.begin("a__slow"), gateway.begin("a__quick")
    held = a.expect("tools/call", name="slow")
    told = gateway.answer(quick)
    assert told.text.startswith("a: no answer within 0.5 s. The call was sent and may have been executed.")
    assert '"timeout"' in told.text
    assert a.expect("notifications/cancelled").params["requestId"] != held.id
    a.reply(held, {"content": []})
    assert "isError" not in gateway.answer(slow).result


def test_progress_keeps_a_call_alive_and_silence_ends_it(start: Start, puppet: Make) -> None:
    a = puppet("a")
    gateway = start(a, entries={"a": {"timeout": 1}})
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    talking = gateway.begin("a__work", _meta={"progressToken": "t"})
    call = a.expect("tools/call")
    silent = gateway.begin("a__work", {"n": 1})
    other = a.expect("tools/call")
    step = 0

    def still_working() -> bool:
        nonlocal step
        step += 1
        a.tell("notifications/progress", progressToken=call.id, progress=step)
        return gateway.answered(silent)

    until(still_working, "the end of the call that was silent")  # the other one has outlived it by its progress
    assert "no answer within 1 s" in gateway.answer(silent).text
    assert a.expect("notifications/cancelled").params["requestId"] == other.id
    assert not gateway.answered(talking)
    a.reply(call, {"content": []})
    assert "isError" not in gateway.answer(talking).result


def test_progress_is_life_also_where_the_client_did_not_ask_for_it(start: Start, puppet: Make) -> None:
    """A server may only report under a token: it gets none unless the client wants to hear."""
    a = puppet("a")
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    gateway.begin("a__work")
    assert "_meta" not in a.expect("tools/call").params
