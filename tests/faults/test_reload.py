"""Files changed while the gateway runs: applied server by server, and nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs import trust
from configs.load import load
from tests.client import Gateway, until
from tests.conftest import Start
from tests.faults.processes import alive, descendants, gone, logged, pid_of, server
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]
CHANGED = "notifications/tools/list_changed"


def entries(**servers: Any) -> dict[str, Any]:
    return servers


def replaced(file: Path, text: str) -> None:
    """As editors do it: written beside, then renamed over."""
    beside = file.with_suffix(".new")
    beside.write_text(text)
    beside.replace(file)


def configuration(servers: dict[str, Any], **gateway: Any) -> str:
    return json.dumps({"mcpServers": servers, "gateway": {"kimi": False, **gateway}})


def settled(gateway: Gateway, count: int) -> None:
    """Wait until so many changes were applied."""
    until(lambda: gateway.errors.decode().count("configuration applied") >= count, f"change {count}")


def test_an_edited_server_is_replaced_and_the_others_keep_their_processes(start: Start) -> None:
    both = entries(a=server(), b=server(), c=server())
    gateway = start(servers=both)
    gateway.up()
    gateway.tools()
    before = {name: pid_of(gateway, name) for name in both}
    gateway.configure({**both, "a": server("fine", env={"X": "1"})})
    gone({before["a"]})
    after = {name: pid_of(gateway, name) for name in both}
    assert after["a"] != before["a"]
    assert (after["b"], after["c"]) == (before["b"], before["c"])
    assert gateway.got(CHANGED) == [], "the same tools as before are no change"


def test_exactly_one_notice_per_list_that_changed(start: Start, puppet: Make) -> None:
    a = puppet("a", prompts=[{"name": "p"}], resources=[{"uri": "x:y", "name": "y"}])
    gateway = start(a, servers={"b": server()})
    gateway.up()
    gateway.tools()
    assert gateway.request("prompts/list").result["prompts"]
    assert gateway.request("resources/list").result["resources"]
    b = pid_of(gateway, "b")
    a.tools = [tool("work"), tool("more")]
    gateway.configure({"a": {**a.entry, "env": {"X": "1"}}, "b": server()})
    gateway.expect(CHANGED)
    assert set(gateway.tool_names()) >= {"a__more", "a__work"}
    gateway.configure({"b": server()})  # and now it goes: all three lists change
    for kind in ("tools", "prompts", "resources"):
        gateway.expect(f"notifications/{kind}/list_changed")
    assert gateway.request("prompts/list").result == {"prompts": []}
    gateway.ping()
    assert len(gateway.got(CHANGED)) == 2
    assert len(gateway.got("notifications/prompts/list_changed")) == 1
    assert len(gateway.got("notifications/resources/list_changed")) == 1
    assert pid_of(gateway, "b") == b


def test_servers_are_added_and_removed(start: Start) -> None:
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    gateway.configure(entries(a=server(), b=server()))
    gateway.expect(CHANGED)
    assert "b__pid" in gateway.tool_names()
    b = pid_of(gateway, "b")
    gateway.configure(entries(b=server()))
    gateway.expect(CHANGED)
    gone({a})
    assert "a__pid" not in gateway.tool_names()
    assert gateway.call("a__pid").error["code"] == -32602
    assert pid_of(gateway, "b") == b
    assert len(gateway.got(CHANGED)) == 2


def test_filters_apply_without_reconnecting(start: Start) -> None:
    gateway = start(servers=entries(a=server(), b=server()))
    gateway.up()
    gateway.tools()
    pids = pid_of(gateway, "a"), pid_of(gateway, "b")
    gateway.configure(entries(a=server(tools={"deny": ["echo"]}), b=server()), {"tools": {"deny": ["*:long"]}})
    gateway.expect(CHANGED)
    names = gateway.tool_names()
    assert "a__echo" not in names and "b__echo" in names
    assert not {"a__long", "b__long"} & set(names)
    assert gateway.call("a__echo").error["code"] == -32602
    assert (pid_of(gateway, "a"), pid_of(gateway, "b")) == pids
    assert len(gateway.got(CHANGED)) == 1


def test_limits_apply_without_reconnecting(start: Start) -> None:
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    gateway.configure(entries(a=server(timeout=0.5)))
    settled(gateway, 1)
    assert "no answer within 0.5 s" in gateway.call("a__stop").text
    assert alive(a)


def test_what_counts_from_the_next_start_only_is_said(start: Start) -> None:
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    gateway.configure(entries(a=server()), {"maxFrame": 100_000})
    assert "gateway.maxFrame counts from the next start" in logged(gateway, "next start")
    gateway.configure(entries(a=server()), {"maxFrame": 100_000, "http": {"bodyLimit": 2000}})
    logged(gateway, "gateway.http.bodyLimit counts from the next start")
    assert gateway.errors.count(b"maxFrame counts") == 1


def test_a_broken_file_keeps_the_last_good_state_and_says_where(start: Start) -> None:
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    file = gateway.home / ".kode.json"
    good = file.read_text()
    file.write_text('{\n  "mcpServers": {\n    "a": {,\n')
    said = logged(gateway, f"{file}:3:")
    assert "3:11" in said
    assert pid_of(gateway, "a") == a
    status = gateway.run("status")
    assert f"{file}:3:11" in status.stderr
    assert f"{file}:3:11" in json.loads(gateway.run("status", "--json").stdout)["problems"][0]
    replaced(file, good.replace('"gateway"', '"other": 1, "gateway"'))
    gateway.configure(entries(a=server(), b=server()))
    gateway.expect(CHANGED)
    assert pid_of(gateway, "a") == a
    assert pid_of(gateway, "b")


def test_one_bad_entry_takes_only_itself_out(start: Start) -> None:
    gateway = start(servers=entries(a=server(), b=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    gateway.configure(entries(a=server(), b={**server(), "env": {"T": "${NEVER_SET}"}}))
    logged(gateway, "b idle → failed: mcpServers.b.env.T: the variable NEVER_SET is not set")
    assert pid_of(gateway, "a") == a


@pytest.mark.parametrize("how", ["written", "renamed"])
def test_files_may_be_created_replaced_and_deleted(start: Start, how: str) -> None:
    write = replaced if how == "renamed" else Path.write_text
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    personal, project = gateway.home / ".kode.json", gateway.project / ".kode.json"
    write(project, json.dumps({"gateway": {"tools": {"deny": ["a:echo"]}}}))  # it was not there before
    gateway.expect(CHANGED)
    assert "a__echo" not in gateway.tool_names()
    write(project, json.dumps({"gateway": {"tools": {"deny": ["a:long"]}}}))
    gateway.expect(CHANGED)
    assert "a__long" not in gateway.tool_names()
    project.unlink()
    gateway.expect(CHANGED)
    assert {"a__echo", "a__long"} <= set(gateway.tool_names())
    assert pid_of(gateway, "a") == a
    personal.unlink()
    gateway.expect(CHANGED)
    # Nothing says any more that Kimi is not wanted; its listing is known without starting it.
    assert {name.partition("__")[0] for name in gateway.tool_names()} == {"kimi"}
    gone({a})
    assert len(descendants(gateway.pid)) == 1, "the guard"
    write(personal, configuration(entries(a=server())))
    gateway.expect(CHANGED)
    assert pid_of(gateway, "a") != a
    assert len(gateway.got(CHANGED)) == 5


def test_sighup_does_the_same(start: Start) -> None:
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    gateway.configure(entries(a=server(), b=server()))
    os.kill(gateway.pid, signal.SIGHUP)
    gateway.expect(CHANGED)
    assert pid_of(gateway, "b")
    assert pid_of(gateway, "a") == a
    for _ in range(3):
        os.kill(gateway.pid, signal.SIGHUP)
    gateway.ping()
    assert pid_of(gateway, "a") == a
    assert len(gateway.got(CHANGED)) == 1


def test_sighup_tries_one_again_that_failed(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "later"
    entry = server()
    gateway = start(servers=entries(a={**entry, "command": str(program)}))
    assert gateway.tool_names() == []
    logged(gateway, "a connecting → failed: command not found")
    program.symlink_to(entry["command"])
    os.kill(gateway.pid, signal.SIGHUP)
    gateway.expect(CHANGED)
    assert pid_of(gateway, "a")


def test_trust_given_while_it_runs_starts_the_server(start: Start) -> None:
    gateway = start(servers=entries(a=server()))
    gateway.up()
    gateway.tools()
    a = pid_of(gateway, "a")
    (gateway.project / ".kode.json").write_text(json.dumps({"mcpServers": {"mine": server()}}))
    logged(gateway, "mine idle → failed")
    assert "mine__pid" not in gateway.tool_names()
    environ = gateway.environment()
    asked = load(None, cwd=gateway.project, home=gateway.home, environ=environ)
    trust.grant(trust.record_file(gateway.home, environ), asked.claims)
    gateway.expect(CHANGED)
    mine = pid_of(gateway, "mine")
    (gateway.project / ".kode.json").write_text(json.dumps({"mcpServers": {"mine": server("fine", env={"X": "1"})}}))
    gone({mine})  # an edited entry needs trust again
    assert pid_of(gateway, "a") == a


def test_calls_in_flight_are_finished_before_an_edited_server_is_replaced(start: Start, puppet: Make) -> None:
    a = puppet("a")
    gateway = start(a)
    assert gateway.tool_names() == ["a__work"]
    first = gateway.begin("a__work")
    held = a.expect("tools/call")
    gateway.configure({"a": {**a.entry, "env": {"X": "1"}}})
    logged(gateway, "a ready → draining")
    second = gateway.begin("a__work", {"n": 2})
    assert a.starts == 1
    a.reply(held, {"content": [], "n": 1})
    assert gateway.answer(first).result["n"] == 1
    late = a.expect("tools/call")
    assert a.starts == 2, "a new call goes to the new process"
    a.reply(late, {"content": [], "n": 2})
    assert gateway.answer(second).result["n"] == 2


def test_a_server_switched_off_is_gone_and_back_when_switched_on(start: Start) -> None:
    gateway = start(servers=entries(a=server(), b=server()))
    gateway.up()
    gateway.tools()
    a, b = pid_of(gateway, "a"), pid_of(gateway, "b")
    gateway.configure(entries(a=server(enabled=False), b=server()))
    gateway.expect(CHANGED)
    gone({a})
    assert "a__pid" not in gateway.tool_names()
    gateway.configure(entries(a=server(), b=server()))
    gateway.expect(CHANGED)
    assert pid_of(gateway, "a") != a
    assert pid_of(gateway, "b") == b
