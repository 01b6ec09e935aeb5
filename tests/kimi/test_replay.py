"""The old CLI's failures by a replay of what kimi-cli 1.51.0 printed when it was recorded, for where it cannot run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kimi import moonshot, replay
from tests.kimi.conftest import Environ, Serve
from tests.kimi.moonshot import Moonshot, Reply, Say

CASES: dict[str, tuple[Reply, str]] = {
    "unauthorised": (moonshot.UNAUTHORISED, "auth"),
    "rate limited": (moonshot.RATE_LIMITED, "rate_limit"),
    "no quota": (moonshot.NO_QUOTA, "quota"),
    "overloaded": (moonshot.OVERLOADED, "overloaded"),
    "broken": (moonshot.BROKEN, "overloaded"),
    "no model": (moonshot.NO_MODEL, "model_not_found"),
    "bad request": (moonshot.BAD_REQUEST, "failed"),
    "too long": (moonshot.TOO_LONG, "context_too_long"),
    "filtered": (moonshot.FILTERED, "content_filter"),
    "empty": (moonshot.EMPTY, "failed"),
    "length": (Say("Half an ans", finish="length"), "failed"),
    "stopped by the filter": (Say("Half an ans", finish="content_filter"), "content_filter"),
    "broken stream": (Say("Half an ans", finish=None, done=False), "connection"),
    "refused": (moonshot.BROKEN, "connection"),
}


@pytest.fixture
def environ(environ: Environ, tmp_path: Path) -> Environ:
    program = tmp_path / "bin" / "kimi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{replay.__file__}" "$@"\n')
    program.chmod(0o755)
    return {**environ, "PATH": f"{program.parent}:/usr/bin:/bin"}


def test_every_recorded_failure_gets_its_kind(serve: Serve, api: Moonshot) -> None:
    peer = serve()
    for name, (reply, kind) in CASES.items():
        api.says(reply)
        failed, text = peer.call("kimi_analyze", prompt=f"RECORDED: {name}\n", timeout=140)
        assert failed, name
        assert text.startswith(f"{kind}: "), (name, text)
        assert "Half an ans" not in text
    assert len(api.requests) == len(CASES)


def test_a_whole_answer_is_one_and_without_a_login_it_is_said(serve: Serve) -> None:
    assert serve().call("kimi_analyze", prompt="RECORDED: whole\n", timeout=140) == (False, "All is well.")
    peer = serve(MOONSHOT_API_KEY="", KIMI_BASE_URL="")
    failed, text = peer.call("kimi_analyze", prompt="RECORDED: no login\n", timeout=140)
    assert failed and text.startswith("auth: LLM not set")
