"""What both generations of the CLI need for a run: a home to throw away, room for the prompt, the right model."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.kimi.activity import Touched
from servers.kimi.api import Access
from servers.kimi.cli.request import Request, all_tools_told, context_size, own_home, throw_away_home


def request(prompt: str = "hello", environ: dict[str, str] | None = None, access: Access | None = None) -> Request:
    return Request("kimi", prompt, Path("/"), environ or {}, access, "kimi-k3", writes=False)


def test_a_run_gets_the_users_login_and_leaves_nothing_behind(tmp_path: Path) -> None:
    for name in ("config.toml", "mcp.json", "session_index.jsonl"):
        (tmp_path / name).write_text(name)
    for name in ("credentials", "sessions", "agents", "workspace-trust"):
        (tmp_path / name).mkdir()
    with throw_away_home(tmp_path, reads_only=True) as reading, throw_away_home(tmp_path, reads_only=False) as writing:
        assert sorted(path.name for path in reading.iterdir()) == ["config.toml", "credentials"]
        hands = ["agents", "config.toml", "credentials", "mcp.json", "workspace-trust"]
        assert sorted(path.name for path in writing.iterdir()) == hands
        assert (reading / "config.toml").read_text() == "config.toml"
        (writing / "sessions").mkdir()
        (reading / "credentials" / "refreshed").write_text("a new token must outlive the run")
    assert not reading.exists() and not writing.exists()
    assert (tmp_path / "credentials" / "refreshed").exists() and list((tmp_path / "sessions").iterdir()) == []


def test_a_user_without_a_cli_home_gets_an_empty_one(tmp_path: Path) -> None:
    with throw_away_home(tmp_path / "nowhere", reads_only=True) as home:
        assert list(home.iterdir()) == []
    assert own_home({"HOME": "/h"}, "KIMI_SHARE_DIR", ".kimi") == Path("/h/.kimi")
    assert own_home({"HOME": "/h", "KIMI_SHARE_DIR": "/s"}, "KIMI_SHARE_DIR", ".kimi") == Path("/s")


def test_the_limit_of_an_argument_counts_bytes() -> None:
    assert request("x" * 131_071).fits_argument and not request("x" * 131_072).fits_argument
    assert not request("ü" * 65_536).fits_argument


def test_an_alias_is_named_only_where_the_clis_own_configuration_decides() -> None:
    assert request().alias == "kimi-k3"
    assert request(access=Access("http://127.0.0.1:9/v1", "sk-1")).alias == ""
    assert request(environ={"KIMI_MODEL_NAME": "mine"}).alias == ""


def test_a_long_prompt_gets_a_context_in_which_nobody_shortens_it() -> None:
    assert context_size("short") == {"KIMI_MODEL_MAX_CONTEXT_SIZE": "262144"}
    long = context_size("x" * 1_000_000)
    assert int(long["KIMI_MODEL_MAX_CONTEXT_SIZE"]) > 1_000_000
    assert int(long["KIMI_MODEL_MAX_COMPLETION_TOKENS"]) == 262_144 - 250_000


def test_a_tool_that_was_stopped_is_told_after_all() -> None:
    told: list[Touched] = []
    one = Request("kimi", "", Path("/"), {}, None, "", writes=True, tool_ended=told.append)
    with all_tools_told(one, lambda: 2) as followed:
        followed.tool_ended("a.py")
    assert told == ["a.py", None]
    told.clear()
    with all_tools_told(one, lambda: 1) as followed:
        followed.tool_ended("a.py")
    assert told == ["a.py"]


@pytest.mark.parametrize(("journaled", "begun", "expected"), [(None, 0, [None]), (0, 0, []), (None, 1, [None])])
def test_where_nothing_tells_of_tools_any_file_may_be_kimis(
    journaled: int | None, begun: int, expected: list[Touched]
) -> None:
    told: list[Touched] = []
    one = Request("kimi", "", Path("/"), {}, None, "", writes=True, tool_ended=told.append)
    one.activity.tools = begun
    with all_tools_told(one, lambda: journaled):
        pass
    assert told == expected
