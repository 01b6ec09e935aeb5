"""An upstream that is killed: its calls in flight fail, nothing else does, and it comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.client import until
from tests.conftest import Start
from tests.faults.processes import descendants, gone, logged, memory, open_files, pid_of, server
from tests.puppets import Puppet

Make = Callable[..., Puppet]
CYCLES = 200


def test_a_killed_upstream_fails_its_call_in_flight_and_serves_the_next(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    gateway = start(servers={"a": server("fine", journal), "b": server()})
    a, b = pid_of(gateway, "a"), pid_of(gateway, "b")
    lost = gateway.begin("a__stop")
    until(lambda: journal.read_text().count("tools/call") == 2, "the call in flight")
    os.kill(a, signal.SIGKILL)
    failed = gateway.answer(lost)
    assert failed.result["isError"] is True
    assert failed.text.startswith("a: was ended by signal 9.")
    assert "may have been executed" in failed.text
    assert pid_of(gateway, "a") != a
    assert pid_of(gateway, "b") == b


def test_the_first_retry_comes_without_a_pause(start: Start) -> None:
    gateway = start(servers={"a": server()})
    os.kill(pid_of(gateway, "a"), signal.SIGKILL)
    logged(gateway, "a waiting → connecting")
    until(lambda: gateway.errors.decode().count("a connecting → ready") == 2, "a second start")
    moves = [line.split("kimi_gateway.upstream ")[1] for line in gateway.errors.decode().splitlines() if " a " in line]
    assert moves[-3:] == [
        "a ready → waiting: was ended by signal 9",
        "a waiting → connecting",
        "a connecting → ready",
    ]


def test_calls_made_while_it_comes_back_wait_for_it(start: Start) -> None:
    gateway = start(servers={"a": server()})
    for _ in range(10):
        pid = pid_of(gateway, "a")
        os.kill(pid, signal.SIGKILL)
        gone({pid})
        several = [gateway.begin("a__pid") for _ in range(5)]
        assert {gateway.answer(id).result.get("isError") for id in several} == {None}


def test_calls_of_another_client_method_fail_with_data(start: Start, puppet: Make) -> None:
    a = puppet("a", resources=[{"uri": "x:y", "name": "y"}])
    gateway = start(a)
    assert gateway.request("resources/list").result["resources"]
    id = gateway.send("resources/read", {"uri": "x:y"})
    a.expect("resources/read")
    a.drop()
    error = gateway.answer(id).error
    assert error["code"] == -32000
    assert {"server": "a", "mayHaveExecuted": True, "retryable": True}.items() <= error["data"].items()


def test_subscriptions_and_the_log_level_are_renewed(start: Start, puppet: Make) -> None:
    a = puppet("a", resources=[{"uri": "x:y", "name": "y"}])
    a.on("resources/subscribe", lambda _: {"result": {}})
    a.on("logging/setLevel", lambda _: {"result": {}})
    gateway = start(a)
    assert gateway.request("resources/list").result["resources"]
    assert gateway.request("resources/subscribe", {"uri": "x:y"}).result == {}
    assert gateway.request("logging/setLevel", {"level": "error"}).result == {}
    until(lambda: len(a.got("logging/setLevel")) == 1, "the level, once")
    a.drop()
    until(lambda: len(a.got("resources/subscribe")) == 2, "the subscription, again")
    until(lambda: len(a.got("logging/setLevel")) == 2, "the level, again")
    assert a.got("resources/subscribe")[1].params["uri"] == "x:y"
    assert a.got("logging/setLevel")[1].params == {"level": "error"}
    a.tell("notifications/resources/updated", uri="x:y")
    assert gateway.expect("notifications/resources/updated").params == {"uri": "x:y"}


def test_a_reconnect_that_changes_nothing_is_not_announced(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("tools/call", lambda _: {"result": {"content": []}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    for n in range(2, 5):
        a.drop()
        until(lambda n=n: a.starts == n, "the next start")
        assert "isError" not in gateway.call("a__work").result
    assert not gateway.got("notifications/tools/list_changed")


def test_a_change_announced_while_it_is_still_listing_is_not_missed(start: Start, puppet: Make) -> None:
    a = puppet("a", prompts=[{"name": "p"}])
    asked: list[int] = []

    def prompts(_: object) -> dict[str, object]:
        if not asked:
            a.tools = [*a.tools, {"name": "late", "inputSchema": {"type": "object"}}]
            a.tell("notifications/tools/list_changed")
        asked.append(1)
        return {"result": {"prompts": a.prompts}}

    a.on("prompts/list", prompts)
    gateway = start(a)
    until(lambda: gateway.tool_names() == ["a__late", "a__work"], "the late tool")


def test_a_prompt_list_that_never_comes_does_not_keep_the_tools_away(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("prompts/list", lambda _: {"error": {"code": 0, "message": "no"}})
    a.on("resources/list", lambda _: {"result": {"resources": "none"}})
    a.on("tools/call", lambda _: {"result": {"content": []}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    assert gateway.request("prompts/list").result == {"prompts": []}
    assert gateway.request("resources/list").result == {"resources": []}


def test_a_refused_tool_list_withdraws_the_tools_and_is_tried_again(start: Start, puppet: Make) -> None:
    a = puppet("a")
    a.on("tools/call", lambda _: {"result": {"content": []}})
    gateway = start(a)
    gateway.up()
    assert gateway.tool_names() == ["a__work"]
    a.on("tools/list", lambda _: {"error": {"code": -32603, "message": "database is locked"}})
    a.tell("notifications/tools/list_changed")
    gateway.expect("notifications/tools/list_changed")
    assert gateway.tool_names() == []
    logged(gateway, "database is locked")
    a.on("tools/list", lambda _: {"result": {"tools": a.tools}})
    gateway.expect("notifications/tools/list_changed")
    assert gateway.tool_names() == ["a__work"]


def test_a_killed_guard_is_survived(start: Start) -> None:
    gateway = start(servers={"a": server(), "b": server()})
    before = {pid_of(gateway, "a"), pid_of(gateway, "b")}
    (helper,) = descendants(gateway.pid) - before
    os.kill(helper, signal.SIGKILL)
    gone({helper, *before})
    after = {pid_of(gateway, "a"), pid_of(gateway, "b")}
    assert not before & after
    assert helper not in descendants(gateway.pid)


def test_two_hundred_deaths_leave_nothing_behind(start: Start) -> None:
    gateway = start(servers={"a": server(), "b": server()})
    b = pid_of(gateway, "b")

    def cycle() -> None:
        pid = pid_of(gateway, "a")
        os.kill(pid, signal.SIGKILL)
        gone({pid})

    for _ in range(20):
        cycle()
    pid_of(gateway, "a")
    files, resident = open_files(gateway.pid), memory(gateway.pid)
    for _ in range(CYCLES):
        cycle()
    a = pid_of(gateway, "a")
    (helper,) = descendants(gateway.pid) - {a, b}
    assert open_files(gateway.pid) <= files
    assert open_files(helper) <= 20
    assert memory(gateway.pid) <= resident + 4
    assert pid_of(gateway, "b") == b


def test_a_call_made_right_after_a_kill_succeeds(start: Start) -> None:
    gateway = start(servers={"a": server()})
    for _ in range(20):
        pid = pid_of(gateway, "a")
        os.kill(pid, signal.SIGKILL)
        gone({pid})  # the gateway may not have noticed yet
        assert pid_of(gateway, "a") != pid


def test_a_call_that_a_killed_server_never_read_is_sent_to_its_next_life(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    gateway = start(servers={"a": server("fine", journal)})
    pid = pid_of(gateway, "a")
    read = gateway.begin("a__stop")
    until(lambda: journal.read_text().count("tools/call") == 2, "the call that it is busy with")
    unread = gateway.begin("a__pid")
    gateway.ping()  # by now it was written
    os.kill(pid, signal.SIGKILL)
    assert "may have been executed" in gateway.answer(read).text
    assert int(gateway.answer(unread).text) != pid
    assert journal.read_text().count("tools/call") == 3


def test_a_call_made_in_the_same_moment_as_a_kill_succeeds(start: Start) -> None:
    gateway = start(servers={"a": server()})
    for _ in range(5):
        pid = pid_of(gateway, "a")
        os.kill(pid, signal.SIGSTOP)  # a killed process reads nothing more either, but may take a moment to be gone
        late = gateway.begin("a__pid")
        gateway.ping()
        os.kill(pid, signal.SIGKILL)
        assert int(gateway.answer(late).text) != pid


def test_a_server_that_closes_its_input_is_replaced(start: Start) -> None:
    gateway = start(servers={"a": server("closes-its-input")})
    pid = pid_of(gateway, "a")
    assert pid_of(gateway, "a") != pid  # not sent to the first, so it may be sent to the second
    logged(gateway, "a ready → waiting: closed its input (Broken pipe)")
    gone({pid})
