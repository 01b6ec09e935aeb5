"""One bad upstream of each kind: nobody else suffers, and status names the cause in words a user can act on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.client import Gateway, until
from tests.conftest import Start
from tests.faults.processes import SERVER, memory, pid_of, server

STATED = {
    "missing": (
        {"command": "/nowhere/at-all"},
        "failed",
        r"command not found: /nowhere/at-all",
        r"Install /nowhere/at-all, or correct `command` in the entry\.",
    ),
    "not-executable": (
        {"command": str(SERVER)},
        "failed",
        r".*server\.py: Permission denied",
        r"Check its permissions",
    ),
    "no-directory": (
        {**server(), "cwd": "/nowhere/at-all"},
        "failed",
        r"its working directory /nowhere/at-all does not exist",
        r"Create it, or correct `cwd` in the entry\.",
    ),
    "exits": (
        server("exits"),
        "waiting",
        r"exited with code 3; it said: ModuleNotFoundError: No module named 'fastmcp' \| hint: pip install fastmcp",
        r"",
    ),
    "hangs": (server("hangs"), "connecting", r"it has not answered initialize yet", r""),
    "never-reads": (server("never-reads"), "connecting", r"it has not answered initialize yet", r""),
    "refuses": (
        {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        "waiting",
        r"connection refused by 127\.0\.0\.1:9",
        r"",
    ),
    "speaks-ws": (
        {"type": "ws", "url": "ws://127.0.0.1:9/"},
        "failed",
        r'mcpServers\.speaks-ws\.type: the type "ws" is not one this gateway speaks\. Write "stdio", "sse" or "http"\.',
        r"",
    ),
    "unset": (
        {**server(), "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}},
        "failed",
        r".*env\.TOKEN: the variable NOT_SET_ANYWHERE is not set\. Set NOT_SET_ANYWHERE, or write "
        r"\$\{NOT_SET_ANYWHERE:-default\}\.",
        r"",
    ),
    "odd-version": (
        server("speaks-tomorrow"),
        "failed",
        r"speaks protocol version 2099-01-01, which we do not",
        r"Update kimi-gateway\.",
    ),
}


def report(gateway: Gateway) -> dict[str, Any]:
    done = gateway.run("status", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["servers"]


def test_status_names_every_cause_and_what_to_do(start: Start) -> None:
    gateway = start(servers={name: case[0] for name, case in STATED.items()} | {"good": server()})
    assert "good__pid" in gateway.tool_names()
    assert pid_of(gateway, "good")
    found = report(gateway)
    for name, (_, state, error, fix) in STATED.items():
        said = found[name]
        assert said["state"] == state, (name, said)
        assert re.fullmatch(error, said["error"], re.DOTALL), (name, said["error"])
        assert re.match(fix, said["fix"] or ""), (name, said["fix"])
        assert (said["next_try"] is not None) == (state == "waiting"), (name, said["next_try"])
    assert found["good"]["state"] == "ready"
    assert found["good"]["error"] is None
    text = gateway.run("status").stdout
    for name in STATED:
        assert re.search(rf"^{name}\t", text, re.MULTILINE)


@pytest.mark.parametrize(
    "fault",
    [
        "ignores-discover",
        "dies-on-discover",
        "prints-garbage",
        "floods",
        "begins-with-a-byte-order-mark",
        "spells-ids-as-text",
        "spells-ids-as-fractions",
    ],
)
def test_one_that_only_misbehaves_works(start: Start, fault: str) -> None:
    gateway = start(servers={"bad": server(fault), "good": server()})
    assert pid_of(gateway, "good")
    until(lambda: "bad__pid" in gateway.tool_names(), "its tools")
    assert pid_of(gateway, "bad")
    found = report(gateway)["bad"]
    assert (found["state"], found["error"]) == ("ready", None)
    if fault == "prints-garbage":
        assert found["garbage"]["count"] >= 3
        assert any(line.startswith("Debug: got") for line in found["garbage"]["last"])
    assert memory(gateway.pid, "VmHWM") < 150


@pytest.mark.parametrize("fault", [*STATED, "ignores-discover", "floods"])
def test_the_others_answer_at_once_beside_any_bad_one(start: Start, fault: str) -> None:
    """Every answer here comes before the gateway has learned anything of the bad one, or although it never will."""
    bad = STATED[fault][0] if fault in STATED else server(fault)
    gateway = start(servers={"bad": bad, "good": server()})
    ids = [gateway.begin("good__pid") for _ in range(20)]
    assert len({gateway.answer(id).text for id in ids}) == 1
    assert "good__pid" in gateway.tool_names()


def test_a_server_remembered_from_before_is_listed_without_waiting_for_a_bad_one(start: Start) -> None:
    servers = {"bad": server("hangs"), "good": server()}
    first = start(servers=servers)
    assert "good__pid" in first.tool_names()  # the bad one was waited for, once
    first.close()
    second = start(servers=servers, directory=first.home.parent)
    id = second.send("tools/list")
    second.ping()
    assert second.answered(id), "the listing waited for a server that gave nothing before"


def test_a_line_of_hundreds_of_megabytes_fails_its_call_and_costs_little_memory(start: Start) -> None:
    gateway = start(servers={"bad": server(), "good": server()})
    assert pid_of(gateway, "good") and pid_of(gateway, "bad")
    before = memory(gateway.pid, "VmHWM")
    long = gateway.begin("bad__long")
    others = [gateway.begin("good__pid") for _ in range(5)]
    assert len({gateway.answer(id).text for id in others}) == 1
    failed = gateway.answer(long)
    assert failed.result["isError"] is True
    assert failed.text.startswith("bad: its answer was over the size limit of 64 MiB.")
    assert pid_of(gateway, "bad"), "the connection lives on"
    # What is kept is 64 MiB at most, twice while it grows; the line has 300.
    assert memory(gateway.pid, "VmHWM") < before + 2 * 64 + 40


def test_one_that_stops_reading_fails_by_its_time_limit_and_harms_nobody(start: Start) -> None:
    gateway = start(servers={"bad": server("fine", timeout=2), "good": server()})
    assert pid_of(gateway, "good") and pid_of(gateway, "bad")
    blocked = gateway.begin("bad__stop")  # it never reads again
    big = gateway.begin("bad__echo", {"text": "x" * 10_000_000})
    small = gateway.begin("bad__pid")
    assert len(gateway.call("good__echo", {"text": "y"}).text) == 2
    told = [gateway.answer(id).text for id in (blocked, big)]
    assert told[0].startswith("bad: no answer within 2 s.")
    assert "bad: " in told[1]
    # What was not begun to be written to it is served by its next life.
    last = gateway.answer(small).text
    assert last.isdigit() or "was not sent" in last
    assert pid_of(gateway, "bad")
