"""The four tools through the real PyPI kimi-cli 1.51.0, its model played by the stand-in."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.client import command, until
from tests.kimi.conftest import Environ, Serve
from tests.kimi.moonshot import Hang, Moonshot, Say, Use
from tests.kimi.runs import ended_by, left_after
from tests.kimi.test_code import HALVES, REFUSALS, check_failures

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def environ(environ: Environ, legacy_bin: Path) -> Environ:
    return {**environ, "PATH": f"{legacy_bin}:/usr/bin:/bin"}


def test_the_tools_answer_and_only_the_writing_ones_write(serve: Serve, api: Moonshot, project: Path) -> None:
    peer = serve()
    content = "".join(f"line {number:06}\n" for number in range(25_000))
    (project / "big.txt").write_text(content)
    tries = Use("WriteFile", {"path": str(project / "a.txt"), "content": "boo"})
    for tool, files in (("kimi_analyze", ["big.txt"]), ("kimi_verify", [])):
        api.requests.clear()
        api.says(tries, Use("Shell", {"command": "touch b.txt"}), Say("I could not."))
        assert peer.call(tool, prompt="/help me", files=files, timeout=140) == (False, "I could not.")
        assert "/help me" in api.prompt(0) and (content in api.prompt(0)) == bool(files)
    assert [path.name for path in project.iterdir()] == ["big.txt"]
    for tool in ("kimi_implement", "kimi_refactor"):
        api.says(Use("WriteFile", {"path": str(project / "a.txt"), "content": tool}), Say("Done."))
        failed, text = peer.call(tool, prompt="Write it", timeout=140)
        assert (failed, text) == (False, "Done.\n\nFiles changed:\n- a.txt")
        assert (project / "a.txt").read_text() == tool


def test_a_gateway_below_it_offers_the_other_servers_and_not_kimi(
    serve: Serve, api: Moonshot, home: Path, project: Path
) -> None:
    demo = {"command": sys.executable, "args": ["-P", "-m", "servers.demo"]}
    config = {"mcpServers": {"demo": demo}, "gateway": {"kimi": {"tools": True}}}
    (home / ".kode.json").write_text(json.dumps(config))
    (home / ".kimi").mkdir()
    (home / ".kimi" / "mcp.json").write_text(
        json.dumps({"mcpServers": {"gw": {"command": command(), "args": ["serve"], "env": {"HOME": str(home)}}}})
    )
    api.says(Use("Shell", {"command": "sleep 5", "timeout": 60}), Say("Done."))
    failed, text = serve().call("kimi_implement", prompt="Do it", timeout=140)
    assert (failed, text) == (False, "Done.\n\nFiles changed: none.")
    offered = [tool["function"]["name"] for tool in api.requests[-1]["tools"]]
    assert any("demo" in name for name in offered), offered
    assert not any("kimi_analyze" in name for name in offered), offered


def test_every_refusal_gets_its_kind(serve: Serve, api: Moonshot) -> None:
    check_failures(serve(), api, "Is it well?", REFUSALS[:-1])


def test_an_answer_that_is_not_whole_is_a_failure(serve: Serve, api: Moonshot) -> None:
    check_failures(serve(), api, "Is it well?", HALVES[:-1])


def test_no_login_an_unknown_model_and_a_dead_address(serve: Serve) -> None:
    peer = serve(MOONSHOT_API_KEY="", KIMI_BASE_URL="")
    failed, text = peer.call("kimi_analyze", prompt="Hello", timeout=140)
    assert failed and text.startswith("auth: LLM not set")
    failed, text = peer.call("kimi_analyze", prompt="Hello", model="nope", timeout=140)
    assert failed and text.startswith("model_not_found: LLM not set")
    failed, text = serve(KIMI_BASE_URL="http://127.0.0.1:9/v1").call("kimi_analyze", prompt="Hello", timeout=140)
    assert failed and text.startswith("connection: ") and "http://127.0.0.1:9/v1" in text


def test_a_login_of_its_own_the_step_limit_and_a_signal(serve: Serve, api: Moonshot, home: Path, project: Path) -> None:
    (home / ".kimi").mkdir()
    (home / ".kimi" / "config.toml").write_text(
        'default_model = "mine"\n[models.mine]\nprovider = "p"\nmodel = "my-model"\nmax_context_size = 262144\n'
        f'[providers.p]\ntype = "kimi"\nbase_url = "{api.url}"\napi_key = "sk-mine"\n'
        "[loop_control]\nmax_steps_per_turn = 1\n"
    )
    peer = serve(MOONSHOT_API_KEY="", KIMI_BASE_URL="")
    check_failures(peer, api, "Is it well?", [(Say("Half an ans", finish="length"), "failed")])
    assert api.requests[-1]["model"] == "my-model" and api.keys[-1] == "Bearer sk-mine"
    api.says(Use("Glob", {"pattern": "*"}), Say("Done."))
    failed, text = peer.call("kimi_analyze", prompt="Look around", timeout=140)
    assert failed and text.startswith("failed: ") and "Max number of steps reached" in text
    for ending, words in ((signal.SIGTERM, "-15"), (signal.SIGINT, "Interrupted by user")):
        api.requests.clear()
        api.says(Hang())
        number = peer.begin("kimi_analyze", prompt="Hello", timeout=140)
        api.wait_for_request()
        ended_by(ending, project, peer.process.pid)
        failed, text = peer.end(number)
        assert failed and text.startswith("failed: ") and words in text


def test_a_cancelled_refactoring_leaves_no_process_and_no_change(
    serve: Serve, api: Moonshot, project: Path, tmp_path: Path
) -> None:
    (project / "a.py").write_text("old\n")
    started = tmp_path / "started"
    shell = f"sleep 1000 & setsid sleep 1001 & touch '{started}'; sleep 1002"
    write = Use("WriteFile", {"path": str(project / "a.py"), "content": "new\n"})
    api.says(write, Use("Shell", {"command": shell, "timeout": 200}))
    peer = serve()
    number = peer.begin("kimi_refactor", prompt="Sleep", timeout=600)
    until(started.exists, "the shell of Kimi's agent", 150)
    peer.notify("notifications/cancelled", {"requestId": number})
    assert left_after(project, peer.process.pid, 5) == []
    until(lambda: (project / "a.py").read_text() == "old\n", "the file put back")
