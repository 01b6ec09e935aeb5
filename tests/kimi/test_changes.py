"""What a run changed, and putting it back without touching what is somebody else's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from servers.kimi.activity import Calls, Touched, touched
from servers.kimi.changes import Changes, survey


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    directory = tmp_path / "backup"
    directory.mkdir()
    return directory


def contents(project: Path) -> dict[str, str]:
    return {name: (project / name).read_text() for name in sorted(survey(project))}


def test_only_what_differs_in_the_end_is_listed(project: Path) -> None:
    (project / "a").write_text("a")
    (project / "b").write_text("b")
    changes = Changes(project, None)
    (project / "b").write_text("new b")
    (project / "new").write_text("new")
    (project / "passing").write_text("passing")
    changes.tool_ended(None)
    (project / "passing").unlink()
    changes.tool_ended(None)
    assert changes.finish() == ["b", "new"]


def test_a_change_no_tool_can_have_made_is_not_kimis(project: Path) -> None:
    changes = Changes(project, None)
    (project / "mine").write_text("mine")
    changes.tool_ended("")
    (project / "kimis").write_text("kimis")
    (project / "mine too").write_text("mine too")
    changes.tool_ended(str(project / "kimis"))
    assert changes.finish() == ["kimis"]


def test_everything_is_put_back_as_it_was(project: Path, backup: Path) -> None:
    (project / "changed").write_text("old")
    (project / "deleted").write_text("old")
    (project / "script").write_text("#!/bin/sh\n")
    (project / "script").chmod(0o755)
    (project / "link").symlink_to("changed")
    before = contents(project)
    changes = Changes(project, backup)
    (project / "changed").write_text("new")
    (project / "deleted").unlink()
    (project / "script").chmod(0o600)
    (project / "link").unlink()
    (project / "link").write_text("no link any more")
    (project / "deep" / "er").mkdir(parents=True)
    (project / "deep" / "er" / "new").write_text("new")
    changes.tool_ended(None)
    undone = changes.put_back()
    assert undone.restored == ["changed", "deep/er/new", "deleted", "link", "script"] and undone.left == []
    assert contents(project) == before
    assert (project / "link").readlink() == Path("changed")
    assert (project / "script").stat().st_mode & 0o777 == 0o755
    assert not (project / "deep").exists()


def test_what_somebody_changed_since_is_left_and_said(project: Path, backup: Path) -> None:
    for name in ("a", "b", "c"):
        (project / name).write_text("old")
    changes = Changes(project, backup)
    (project / "a").write_text("kimi's")
    (project / "b").write_text("kimi's")
    changes.tool_ended(None)
    (project / "b").write_text("somebody else's")
    (project / "c").write_text("somebody else's")
    undone = changes.put_back()
    assert contents(project) == {"a": "old", "b": "somebody else's", "c": "somebody else's"}
    assert str(undone) == (
        "Files put back as they were: a. Left as they are, because somebody else changed them since: b."
    )


def test_an_empty_run_says_so(project: Path, backup: Path) -> None:
    assert str(Changes(project, backup).put_back()) == "No file was changed."


def test_directories_of_tools_and_links_out_are_not_followed(project: Path, tmp_path: Path) -> None:
    for name in (".git", "node_modules", ".venv"):
        (project / name).mkdir()
        (project / name / "x").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "y").write_text("y")
    (project / "out").symlink_to(outside)
    os.mkfifo(project / "pipe")
    assert sorted(survey(project)) == ["out"]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Write", {"path": "a.py", "content": "x"}, "a.py"),
        ("Edit", {"file_path": "a.py"}, "a.py"),
        ("WriteFile", json.dumps({"path": "/p/a.py"}), "/p/a.py"),
        ("Write", "{half", None),
        ("Write", {}, None),
        ("Read", {"path": "a.py"}, ""),
        ("Grep", "{}", ""),
        ("Bash", {"command": "ls"}, None),
        ("NobodyKnows", {}, None),
    ],
)
def test_a_tool_touches_one_file_none_or_any(tool: str, arguments: object, expected: Touched) -> None:
    assert touched(tool, arguments) == expected


def test_calls_are_remembered_until_their_result() -> None:
    calls = Calls()
    function = {"name": "Write", "arguments": '{"path": "a.py"}'}
    calls.begin({"role": "assistant", "tool_calls": [{"id": "1", "function": function}]})
    calls.begin({"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "Read"}}]})
    assert calls.end({"tool_call_id": "2"}) == ""
    assert calls.end({"tool_call_id": "1"}) == "a.py"
    assert calls.end({"tool_call_id": "1"}) is None
