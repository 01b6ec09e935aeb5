"""The server itself over stdio, in both eras: its listing, turns, progress, cancellation, roots and settings."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from servers.kimi.recursion import MARK
from tests.kimi.conftest import Serve
from tests.kimi.moonshot import Body, Hang, Held, Moonshot, Reply, Say
from tests.kimi.peer import Frame, Peer

TOOLS = ["kimi_analyze", "kimi_implement", "kimi_refactor", "kimi_verify"]
ROOTS: Frame = {"roots": {"listChanged": True}}


def names(peer: Peer) -> list[str]:
    return [tool["name"] for tool in peer.request("tools/list")["result"]["tools"]]


def progress_of(peer: Peer, token: str, wanted: str, count: int = 1) -> list[Frame]:
    """The progress of a call, once that many of its messages say what is wanted."""

    def said(frame: Frame) -> bool:
        params: dict[str, Any] = frame.get("params") or {}
        return frame.get("method") == "notifications/progress" and params["progressToken"] == token

    def enough(_: Frame) -> bool:
        return sum(said(frame) and wanted in frame["params"]["message"] for frame in list(peer.frames)) >= count

    peer.wait_for(enough)
    return [frame["params"] for frame in peer.frames if said(frame)]


def test_the_session_era_from_hello_to_goodbye(serve: Serve, api: Moonshot) -> None:
    peer = serve(handshake=False)
    hello = peer.initialize()
    assert hello["serverInfo"]["name"] == "kimi" and "kimi_analyze" in hello["instructions"]
    listed = peer.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == TOOLS
    assert not any("outputSchema" in tool for tool in listed)
    assert peer.request("tools/call", {"name": "kimi_sing", "arguments": {}})["error"]["code"] == -32602
    wrong: list[Frame] = [{}, {"prompt": ""}, {"prompt": 3}, {"prompt": "x", "timeout": 4000}, {"prompt": "x", "y": 1}]
    for arguments in wrong:
        failed, text = peer.call("kimi_analyze", **arguments)
        assert failed and text.startswith("invalid_input: ")
    result = peer.request("tools/call", {"name": "kimi_analyze"})["result"]
    assert result["isError"] and result["content"][0]["text"].startswith("invalid_input: ")
    assert api.requests == []
    assert peer.close() == 0
    assert peer.stderr() == ""


def test_the_stateless_era_and_its_roots(serve: Serve, api: Moonshot, project: Path, tmp_path: Path) -> None:
    (tmp_path / "else.txt").write_text("from elsewhere")
    (project / "a.txt").write_text("of the project")
    peer = serve(handshake=False)
    discovered = peer.discover(ROOTS)
    assert "2026-07-28" in discovered["supportedVersions"]
    assert peer.request("tools/list")["result"]["ttlMs"] > 0
    assert peer.call("kimi_analyze", prompt="No files, no question") == (False, "All is well.")
    call: Frame = {"name": "kimi_analyze", "arguments": {"prompt": "Read", "files": ["../else.txt"]}}
    asked = peer.request("tools/call", call)["result"]
    assert asked["resultType"] == "input_required"
    assert [request["method"] for request in asked["inputRequests"].values()] == ["roots/list"]
    answers = {name: {"roots": [{"uri": tmp_path.as_uri()}]} for name in asked["inputRequests"]}
    assert peer.end(peer.send("tools/call", {**call, "inputResponses": answers})) == (False, "All is well.")
    assert "from elsewhere" in api.prompt()


def test_files_come_from_the_clients_roots_else_from_the_project(
    serve: Serve, api: Moonshot, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "else.txt").write_text("from elsewhere")
    peer = serve()
    failed, text = peer.call("kimi_analyze", prompt="Read", files=["../else.txt"])
    assert failed and text.startswith("invalid_input: ../else.txt: outside")
    peer = serve(handshake=False)
    peer.roots = [tmp_path.as_uri()]
    peer.initialize(ROOTS)
    assert peer.call("kimi_analyze", prompt="Read", files=["../else.txt"]) == (False, "All is well.")
    assert "from elsewhere" in api.prompt()
    peer.roots = [(tmp_path / "nowhere").as_uri()]
    (project / "a.txt").write_text("of the project")
    failed, text = peer.call("kimi_analyze", prompt="Read", files=["a.txt"])
    assert failed and "outside the allowed directories" in text


def test_reads_run_together_a_write_waits_for_them_and_its_waiting_costs_no_time(serve: Serve, api: Moonshot) -> None:
    peer = serve()

    def by_name(body: Body) -> Reply:
        return Held(Say("Read.")) if "READ" in json.dumps(body) else Say("Written.")

    api.answer = by_name
    first = [peer.begin("kimi_analyze", prompt="READ 1"), peer.begin("kimi_verify", prompt="READ 2")]
    api.wait_for_request(2)
    write = peer.begin("kimi_implement", prompt="WRITE 3", timeout=5, progress="write")
    later = peer.begin("kimi_analyze", prompt="READ 4", progress="later")
    waited = progress_of(peer, "write", "waiting for its turn", count=7)
    assert waited[-1]["progress"] > 5, "it has waited for longer than it may run"
    progress_of(peer, "later", "waiting for its turn")
    assert len(api.requests) == 2
    api.release.set()
    assert [peer.end(number) for number in first] == [(False, "Read.")] * 2
    failed, text = peer.end(write)
    assert not failed and text.startswith("Written.")
    assert peer.end(later) == (False, "Read.")
    order = [next(word for word in ("READ 1", "READ 2", "WRITE 3", "READ 4") if word in str(b)) for b in api.requests]
    assert order[2:] == ["WRITE 3", "READ 4"]


def test_a_concurrency_of_one_serves_one_at_a_time(serve: Serve, api: Moonshot) -> None:
    peer = serve(KIMI_MCP_CONCURRENCY="1")
    api.says(Held(Say("Read.")))
    calls = [peer.begin("kimi_analyze", prompt=f"READ {number}", progress=f"t{number}") for number in range(3)]
    progress_of(peer, "t0", "Kimi is working")
    progress_of(peer, "t2", "waiting for its turn")
    api.wait_for_request(1)
    assert len(api.requests) == 1
    api.release.set()
    assert [peer.end(number) for number in calls] == [(False, "Read.")] * 3
    assert ["READ 0" in api.prompt(0), "READ 1" in api.prompt(1), "READ 2" in api.prompt(2)] == [True] * 3


def test_progress_goes_to_those_who_asked_and_only_forward(serve: Serve, api: Moonshot) -> None:
    peer = serve()
    api.says(Held(Say("Well.")))
    number = peer.begin("kimi_analyze", prompt="Think", progress="mine")
    silent = peer.begin("kimi_analyze", prompt="Think")
    seen = progress_of(peer, "mine", "Kimi is working: step 1", count=2)
    values = [params["progress"] for params in seen]
    assert values == sorted(set(values))
    api.release.set()
    assert peer.end(number) == peer.end(silent) == (False, "Well.")
    tokens = {frame["params"]["progressToken"] for frame in peer.frames if frame.get("method", "").endswith("progress")}
    assert tokens == {"mine"}


def test_a_cancelled_call_stops_at_once_and_makes_room(serve: Serve, api: Moonshot) -> None:
    peer = serve(KIMI_MCP_CONCURRENCY="1")
    api.says(Hang(), Say("Next."))
    number = peer.begin("kimi_analyze", prompt="Think", timeout=600)
    api.wait_for_request()
    peer.notify("notifications/cancelled", {"requestId": number})
    api.wait_until_left()
    assert peer.call("kimi_analyze", prompt="And now?") == (False, "Next.")


def test_settings_come_in_layers_and_a_bad_one_is_named(serve: Serve, api: Moonshot, home: Path) -> None:
    file = home / ".config" / "kimi-mcp" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps(
            {"model": "best", "models": {"best": "kimi-k3"}, "timeout": {"implement": 600}, "roles": {"poet": "Rhyme."}}
            | {"max_file_size": "much"}
        )
    )
    peer = serve(KIMI_MCP_CONCURRENCY="none", KIMI_MCP_TOOL_TIMEOUT_MS="not ours")
    tools = {tool["name"]: tool for tool in peer.request("tools/list")["result"]["tools"]}
    assert "Default model best (kimi-k3); default time limit 600 s" in tools["kimi_implement"]["description"]
    assert "default time limit 30 s" in tools["kimi_analyze"]["description"]
    peer.call("kimi_analyze", prompt="Say", role="poet")
    assert api.requests[-1]["model"] == "kimi-k3" and "Rhyme." in api.prompt()
    peer.call("kimi_analyze", prompt="Say", model="k2.5")
    assert api.requests[-1]["model"] == "kimi-k2.5"
    warnings = peer.stderr().splitlines()
    assert len(warnings) == 2
    assert 'max_file_size = "much"' in warnings[0] and str(file) in warnings[0] and "1048576" in warnings[0]
    assert 'KIMI_MCP_CONCURRENCY = "none"' in warnings[1] and "4 is used" in warnings[1]


def test_below_a_kimi_run_it_offers_nothing(serve: Serve) -> None:
    peer = serve(**{MARK: "a run"})
    assert names(peer) == []
    assert peer.request("tools/call", {"name": "kimi_analyze", "arguments": {"prompt": "x"}})["error"]["code"] == -32602


def test_what_is_no_frame_is_answered_and_skipped(serve: Serve) -> None:
    peer = serve()
    for line, code in ((b"{half", -32700), (b"\xff\xfe", -32700), (b"[]", -32600), (b'{"jsonrpc":"1.0"}', -32600)):
        peer.frames.clear()
        peer.write_line(line)
        assert peer.wait_for(lambda frame: "error" in frame)["error"]["code"] == code
    assert names(peer) == TOOLS


def test_half_an_emoji_in_a_prompt_or_a_files_name_is_no_reason_to_fail(
    serve: Serve, api: Moonshot, project: Path, tmp_path: Path
) -> None:
    peer = serve()
    call = rb'{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"name":"kimi_analyze","arguments":%b}}'
    peer.write_line(call % rb'{"prompt":"a\ud83d b\uD83D\ude00"}')
    peer.wait_for(lambda frame: frame.get("id") == "half" and "result" in frame)
    assert "a\ufffd b\U0001f600" in api.prompt()
    (tmp_path / "bin").mkdir()
    kimi = tmp_path / "bin" / "kimi"
    kimi.write_text("#!/bin/sh\n[ $1 = --version ] && echo 2.1.0 && exit\ntouch $(printf 'caf\\351')\necho Done.\n")
    kimi.chmod(0o755)
    failed, text = serve(PATH=f"{kimi.parent}:/usr/bin:/bin").call("kimi_implement", prompt="x", timeout=140)
    assert (failed, text) == (False, "Done.\n\nFiles changed:\n- caf\ufffd")


def test_a_signal_ends_it_in_the_middle_of_a_call(serve: Serve, api: Moonshot) -> None:
    peer = serve()
    api.says(Hang())
    peer.begin("kimi_analyze", prompt="Think", timeout=600)
    api.wait_for_request()
    peer.process.send_signal(signal.SIGTERM)
    assert peer.process.wait(60) == 0
    api.wait_until_left()
