"""The four tools through the real npm @moonshot-ai/kimi-code, its model played by the stand-in."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.client import until
from tests.kimi import moonshot
from tests.kimi.conftest import Environ, Serve
from tests.kimi.moonshot import Hang, Held, Moonshot, Reply, Say, Use
from tests.kimi.peer import Peer
from tests.kimi.runs import at_work, ended_by, left_after

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def environ(environ: Environ, code_bin: Path) -> Environ:
    return {**environ, "PATH": f"{code_bin}:/usr/bin:/bin"}


def write(name: str, content: str) -> Use:
    return Use("Write", {"path": name, "content": content})


def test_all_four_tools_answer(serve: Serve, api: Moonshot, project: Path) -> None:
    peer = serve()
    (project / "sum.py").write_text("def add(a, b): return a + b\n")
    for tool in ("kimi_analyze", "kimi_verify"):
        assert peer.call(tool, prompt="Is it well?", files=["sum.py"], timeout=140) == (False, "All is well.")
        assert "def add(a, b): return a + b" in api.prompt()
    for tool in ("kimi_implement", "kimi_refactor"):
        api.says(write("sum.py", f"# {tool}\n"), Say("Done."))
        failed, text = peer.call(tool, prompt="Make it so", timeout=140)
        assert not failed
        assert text == "Done.\n\nFiles changed:\n- sum.py"
        assert (project / "sum.py").read_text() == f"# {tool}\n"
    assert api.keys[0] == "Bearer sk-test-123"


def test_analyze_cannot_write_or_run_though_the_model_tries(serve: Serve, api: Moonshot, project: Path) -> None:
    agents = project / ".kimi-code" / "agents"
    agents.mkdir(parents=True)
    (agents / "agent.md").write_text(
        "---\nname: agent\ndescription: All hands.\noverride: true\ntools: [Write, Bash]\n---\nDo all you can.\n"
    )
    peer = serve()
    tries = (write("a.txt", "boo"), Use("Bash", {"command": "touch b.txt", "timeout": 10}), Say("I could not."))
    # The long one goes through ACP and nearly fills the context: it must not be shortened either.
    for prompt in ("short", "word " * 200_000):
        api.requests.clear()
        api.says(*tries)
        assert peer.call("kimi_analyze", prompt=prompt, timeout=140) == (False, "I could not.")
        assert len(api.requests) == 3 and prompt in api.prompt(0)
    assert sorted(path.name for path in project.iterdir()) == [".kimi-code"]


def test_a_prompt_beyond_the_argument_limit_writes_through_acp(serve: Serve, api: Moonshot, project: Path) -> None:
    content = "".join(f"line {number:06}\n" for number in range(25_000))
    (project / "big.txt").write_text(content)
    api.says(write("a.txt", "made"), Say("Done."))
    failed, text = serve().call("kimi_implement", prompt="Make a.txt", files=["big.txt"], timeout=140)
    assert (failed, text) == (False, "Done.\n\nFiles changed:\n- a.txt")
    assert content in api.prompt(0)
    assert (project / "a.txt").read_text() == "made"


REFUSALS: list[tuple[Reply, str]] = [
    (moonshot.UNAUTHORISED, "auth"),
    (moonshot.RATE_LIMITED, "rate_limit"),
    (moonshot.NO_QUOTA, "quota"),
    (moonshot.OVERLOADED, "overloaded"),
    (moonshot.BROKEN, "overloaded"),
    (moonshot.NO_MODEL, "model_not_found"),
    (moonshot.BAD_REQUEST, "failed"),
    (moonshot.TOO_LONG, "context_too_long"),
    (moonshot.FILTERED, "content_filter"),
]
HALVES: list[tuple[Reply, str]] = [
    (moonshot.EMPTY, "failed"),
    (Say("Half an ans", finish="length"), "failed"),
    (Say("Half an ans", finish="content_filter"), "content_filter"),
    (Say("Half an ans", finish=None, done=False), "connection"),
    (Say("Half an ans", finish=None, done=True), "failed"),
]


def check_failures(peer: Peer, api: Moonshot, prompt: str, failures: list[tuple[Reply, str]]) -> None:
    """Each reply, whatever the CLI makes of it, becomes a failure of its kind, asked for once."""
    for reply, kind in failures:
        api.requests.clear()
        api.says(reply)
        failed, text = peer.call("kimi_analyze", prompt=prompt, timeout=140)
        assert failed, (reply, text)
        assert text.startswith(f"{kind}: "), (reply, text)
        assert "Half an ans" not in text
        if isinstance(reply, moonshot.Fail):
            assert reply.message in text
        assert not any(noise in text for noise in ("See log", "To resume", "failed to run prompt"))
        # The CLIs help themselves where they can: they shorten a prompt and redial a stream that broke.
        assert len(api.requests) == 1 or kind in ("context_too_long", "connection"), f"{reply} was retried"


def test_every_refusal_gets_its_kind(serve: Serve, api: Moonshot) -> None:
    check_failures(serve(), api, "Is it well?", REFUSALS)


def test_an_answer_that_is_not_whole_is_a_failure(serve: Serve, api: Moonshot) -> None:
    check_failures(serve(), api, "Is it well?", HALVES)


def test_failures_through_acp_get_their_kind_too(serve: Serve, api: Moonshot) -> None:
    check_failures(serve(), api, "long " * 40_000, [REFUSALS[1], *HALVES[:2]])


def test_no_login_an_unknown_alias_and_a_dead_address(serve: Serve) -> None:
    peer = serve(MOONSHOT_API_KEY="")
    failed, text = peer.call("kimi_analyze", prompt="Hello", timeout=140)
    assert failed and text.startswith("auth: No model configured.") and "MOONSHOT_API_KEY" in text
    failed, text = peer.call("kimi_analyze", prompt="Hello", model="nope", timeout=140)
    assert failed and text.startswith('model_not_found: Model "nope" is not configured')
    failed, text = serve(KIMI_BASE_URL="http://127.0.0.1:9/v1").call("kimi_analyze", prompt="Hello", timeout=140)
    assert failed and text.startswith("connection: ") and "http://127.0.0.1:9/v1" in text


def test_a_login_of_the_clis_own_is_used_where_there_is_no_key(serve: Serve, api: Moonshot, home: Path) -> None:
    (home / ".kimi-code").mkdir()
    (home / ".kimi-code" / "config.toml").write_text(
        'default_model = "mine"\n[models.mine]\nprovider = "p"\nmodel = "my-model"\nmax_context_size = 262144\n'
        f'[providers.p]\ntype = "kimi"\nbase_url = "{api.url}"\napi_key = "sk-mine"\n'
    )
    peer = serve(MOONSHOT_API_KEY="", KIMI_BASE_URL="")
    assert peer.call("kimi_analyze", prompt="Hello", timeout=140) == (False, "All is well.")
    assert api.requests[-1]["model"] == "my-model" and api.keys[-1] == "Bearer sk-mine"
    assert [path.name for path in (home / ".kimi-code").iterdir()] == ["config.toml"], "it left a session behind"


def test_the_step_limit_and_a_kimi_that_somebody_ended(serve: Serve, api: Moonshot, project: Path) -> None:
    peer = serve(KIMI_LOOP_MAX_STEPS_PER_TURN="1")
    api.says(Use("Glob", {"pattern": "*"}), Say("Done."))
    failed, text = peer.call("kimi_analyze", prompt="Look around", timeout=140)
    assert failed and text.startswith("failed: ") and "maxSteps=1" in text
    for ending, code in ((signal.SIGTERM, "143"), (signal.SIGINT, "130")):
        api.says(Hang())
        api.requests.clear()
        number = peer.begin("kimi_analyze", prompt="Hello", timeout=140)
        api.wait_for_request()
        ended_by(ending, project, peer.process.pid)
        failed, text = peer.end(number)
        assert failed and text.startswith("failed: ") and code in text


def sleeping(started: Path) -> Use:
    """A shell with a child in its group, one in a session of its own, and itself, all asleep."""
    command = f"sleep 1000 & setsid sleep 1001 & touch '{started}'; sleep 1002"
    return Use("Bash", {"command": command, "timeout": 300})


def test_a_timeout_leaves_no_process_and_a_refactoring_no_change(
    serve: Serve, api: Moonshot, project: Path, tmp_path: Path
) -> None:
    (project / "a.py").write_text("old\n")
    peer = serve()
    # How long Kimi needs to come so far is the machine's affair: where it was too short, it gets more.
    for seconds in (8, 20, 50, 120):
        api.says(write("a.py", "new\n"), sleeping(tmp_path / "started"))
        failed, text = peer.call("kimi_refactor", prompt="Sleep", timeout=seconds)
        left = left_after(project, peer.process.pid, 2)
        assert failed and text.startswith("timeout: ") and left == []
        assert (project / "a.py").read_text() == "old\n"
        if (tmp_path / "started").exists():
            break
    assert "put back as they were: a.py" in text
    assert "takes minutes" in text and "`timeout`" in text


def test_cancelling_stops_kimi_and_so_does_leaving(serve: Serve, api: Moonshot, project: Path, tmp_path: Path) -> None:
    peer = serve()
    for number, stop in enumerate(("cancel", "leave")):
        started = tmp_path / f"started{number}"
        api.says(sleeping(started))
        call = peer.begin("kimi_implement", prompt="Sleep", timeout=600)
        until(started.exists, "the shell of Kimi's agent", 150)
        assert len(at_work(project, peer.process.pid)) >= 3
        if stop == "cancel":
            peer.notify("notifications/cancelled", {"requestId": call})
        else:
            peer.close()
        assert left_after(project, peer.process.pid, 5) == []


def test_a_refactoring_that_fails_is_undone_but_not_over_somebody_elses_change(
    serve: Serve, api: Moonshot, project: Path
) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (project / name).write_text("old\n")
    peer = serve()
    steps = [write("a.py", "new\n"), write("b.py", "new\n"), write("pack/new.py", "new\n")]
    api.says(*steps, Held(moonshot.RATE_LIMITED))
    number = peer.begin("kimi_refactor", prompt="Tidy", timeout=140)
    api.wait_for_request(4)
    for name in ("b.py", "c.py"):
        (project / name).write_text("somebody else's\n")
    api.release.set()
    failed, text = peer.end(number)
    assert failed and text.startswith("rate_limit: ")
    assert [(project / name).read_text() for name in ("a.py", "b.py", "c.py")] == ["old\n", *["somebody else's\n"] * 2]
    assert not (project / "pack").exists(), text
    assert "put back as they were: a.py, pack/new.py" in text and "changed them since: b.py" in text
    assert "Safety checks" in api.prompt(0)
    api.requests.clear()
    api.says(write("a.py", "new a\n"), moonshot.RATE_LIMITED)
    failed, text = peer.call("kimi_refactor", prompt="Tidy", safety_checks=False, timeout=140)
    assert failed and text.startswith("rate_limit: ") and "Files it had changed by then: a.py" in text
    assert (project / "a.py").read_text() == "new a\n"
    assert "Safety checks" not in api.prompt(0)
