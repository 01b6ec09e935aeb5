"""CLIs that answer as people read it: no messages in `stream-json`, no journal; other releases, wrapper scripts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kimi.conftest import Environ, Serve
from tests.kimi.runs import left_after

Program = Callable[[str, str], None]
OLD = "kimi, version 1.50.0"
NEW = "2.3.0"
GENERATIONS = pytest.mark.parametrize("version", [OLD, NEW])


@pytest.fixture
def environ(environ: Environ, tmp_path: Path) -> Environ:
    (tmp_path / "bin").mkdir()
    return {**environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}


@pytest.fixture
def program(tmp_path: Path, environ: Environ) -> Program:
    """Puts a `kimi` on PATH that says this version and else runs this Python."""

    def make(version: str, body: str) -> None:
        path = tmp_path / "bin" / "kimi"
        asked = f"if sys.argv[1:] == ['--version']:\n    print({version!r})\n    sys.exit()\n"
        path.write_text(
            f"#!{sys.executable} -I\nimport json, os, signal, sys, time\nfrom pathlib import Path\n{asked}{body}\n"
        )
        path.chmod(0o755)

    return make


ANSWERS = [
    ("print('All is well.')", "All is well."),
    (
        "print('kimi version 2.3.0\\n\\n• One\\n\\n    two\\nthree\\n\\nTo resume this session: kimi -r x')",
        "One\n\n    two\nthree",
    ),
    ("print('• One\\n\\n      two\\n  • three\\n\\n')", "One\n\n    two\n• three"),
    ("print('• One\\n• two')", "One\ntwo"),
    ("print('- One\\n• two\\nkimi version 9 is named here\\nend')", "- One\n• two\nkimi version 9 is named here\nend"),
    ("""print('{"verdict": "PASS"}\\n[]\\n{\\n  "a": 1\\n}')""", '{"verdict": "PASS"}\n[]\n{\n  "a": 1\n}'),
    ("print('{\"a\":' * 100_000)", '{"a":' * 100_000),
    ("[print('x' * 60) for _ in range(100_000)]", "\n".join(["x" * 60] * 100_000)),
]


@GENERATIONS
def test_the_whole_plain_answer_comes_without_the_noise(serve: Serve, program: Program, version: str) -> None:
    peer = serve()
    for body, answer in ANSWERS:
        program(version, body)
        failed, text = peer.call("kimi_analyze", prompt="Is it well?", timeout=140)
        assert (failed, text == answer) == (False, True), (body, text[:300])


REFUSALS = [
    ("print('Half an ans')\nprint('Error code: 429 - slow down')\nsys.exit(75)", "rate_limit: Error code: 429"),
    (
        "print('Half an ans')\nprint('provider.auth_error: 401', file=sys.stderr)\nsys.exit(1)",
        "auth: provider.auth_error",
    ),
    ('print(\'{"error": {"type": "exceeded_current_quota_error"}}\')\nsys.exit(1)', "quota: "),
    ("print('Half an ans', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)", "failed: kimi was ended by a signal"),
    ("print('Half an ans')\nsys.exit(130)", "failed: kimi was ended by a signal"),
    ("print('unknown option --output-format', file=sys.stderr)\nsys.exit(2)", "cli_unsupported: unknown option"),
    ("print('kimi-cli is no longer maintained.')", "cli_unsupported: kimi-cli is no longer maintained"),
    ("sys.exit()", "failed: Kimi answered with nothing"),
    ("print('To resume this session: kimi -r x')", "failed: Kimi answered with nothing"),
    ("print('provider.overloaded: busy', file=sys.stderr)", "overloaded: provider.overloaded: busy"),
]


@GENERATIONS
def test_a_plain_failure_gets_its_kind_and_no_half_answer(serve: Serve, program: Program, version: str) -> None:
    peer = serve()
    for body, words in REFUSALS:
        program(version, body)
        failed, text = peer.call("kimi_analyze", prompt="Is it well?", timeout=140)
        assert failed and text.startswith(words), (body, text)
        assert "Half an ans" not in text


@GENERATIONS
def test_what_changes_while_nobody_tells_of_tools_is_kimis(
    serve: Serve, program: Program, project: Path, version: str
) -> None:
    writes = "Path('a.py').write_text('new')\nPath('deep').mkdir(exist_ok=True)\nPath('deep/b.py').write_text('new')\n"
    peer = serve()
    (project / "a.py").write_text("old")
    program(version, f"{writes}print('provider.rate_limit: slow down', file=sys.stderr)\nsys.exit(1)")
    failed, text = peer.call("kimi_refactor", prompt="Tidy", timeout=140)
    assert failed and text.startswith("rate_limit: ") and "put back as they were: a.py, deep/b.py" in text
    assert (project / "a.py").read_text() == "old" and not (project / "deep").exists()
    program(version, f"{writes}signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.system('sleep 1000')")
    # How long it needs to come so far is the machine's affair: where it was too short, it gets more.
    for seconds in (2, 10, 50):
        failed, text = peer.call("kimi_refactor", prompt="Tidy", timeout=seconds)
        assert failed and text.startswith("timeout: ")
        assert left_after(project, peer.process.pid, 2) == []
        assert (project / "a.py").read_text() == "old" and not (project / "deep").exists()
        if "put back as they were: a.py, deep/b.py" in text:
            break
    else:
        raise AssertionError(text)
    program(version, f"{writes}print('Done.')")
    assert peer.call("kimi_implement", prompt="Do it", timeout=140) == (
        False,
        "Done.\n\nFiles changed:\n- a.py\n- deep/b.py",
    )


def message(role: str, **fields: object) -> str:
    return f"print(json.dumps({{'role': {role!r}, **{fields!r}}}), flush=True)\n"


def test_where_tools_are_told_only_what_they_touched_is_kimis(serve: Serve, program: Program, project: Path) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "Write", "arguments": '{"path": "a.py"}'}}]
    program(
        NEW,
        message("assistant", content="", tool_calls=calls)
        + "Path('a.py').write_text('new')\nPath('somebody.py').write_text('else')\n"
        + message("tool", tool_call_id="1", content="ok")
        + message("assistant", content="Done."),
    )
    failed, text = serve().call("kimi_implement", prompt="Do it", timeout=140)
    assert (failed, text) == (False, "Done.\n\nFiles changed:\n- a.py")


ACP = """
said = []
for line in sys.stdin:
    frame = json.loads(line)
    answer = lambda result: print(json.dumps({'jsonrpc': '2.0', 'id': frame['id'], 'result': result}), flush=True)
    if frame['method'] == 'session/new':
        answer({'sessionId': 's'})
    elif frame['method'] == 'session/prompt':
        print('not a frame\\n[1]\\n{"jsonrpc": "2.0", "method": "session/update"}')
        print('{"jsonrpc": "2.0", "id": 77, "method": "session/request_permission"}')
        for piece in ('Half ', 'an ans'):
            update = {'sessionUpdate': 'agent_message_chunk', 'content': {'type': 'text', 'text': piece}}
            print(json.dumps({'jsonrpc': '2.0', 'method': 'session/update', 'params': {'update': update}}))
        answer({'stopReason': REASON})
    elif 'id' in frame and 'method' in frame:
        answer({})
"""


def test_an_agent_that_keeps_no_journal_tells_by_its_stop_reason(serve: Serve, program: Program) -> None:
    peer = serve()
    long = "word " * 40_000
    program(NEW, ACP.replace("REASON", "'end_turn'"))
    assert peer.call("kimi_analyze", prompt=long, timeout=140) == (False, "Half an ans")
    for reason, kind in (("max_tokens", "failed"), ("max_turn_requests", "failed"), ("refusal", "content_filter")):
        program(NEW, ACP.replace("REASON", repr(reason)))
        failed, text = peer.call("kimi_analyze", prompt=long, timeout=140)
        assert failed and text.startswith(f"{kind}: ") and "Half an ans" not in text
    program(NEW, 'print(\'{"jsonrpc": "2.0", "id": 1, "error": "odd"}\', flush=True)\nsys.stdin.read()')
    failed, text = peer.call("kimi_analyze", prompt=long, timeout=140)
    assert failed and text.startswith("failed: odd")
