"""The note a running gateway leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import running_file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def file(tmp_path: Path, project: Path) -> Path:
    return running_file.place(project, tmp_path / "home", {})


def dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_it_is_there_for_this_user_alone_while_the_gateway_runs(file: Path, project: Path) -> None:
    with running_file.announced(file, project, "http://127.0.0.1:1/mcp", "secret"):
        assert file.stat().st_mode & 0o777 == 0o600
        assert set(json.loads(file.read_text())) == {"pid", "url", "token", "project"}
        found = running_file.read(file, project)
        assert found is not None
        assert (found.pid, found.url, found.token) == (os.getpid(), "http://127.0.0.1:1/mcp", "secret")
        assert "secret" not in repr(found)
    assert not file.exists()


def test_a_project_reached_through_a_link_is_the_same_project(file: Path, project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    assert running_file.place(link, tmp_path / "home", {}) == file
    with running_file.announced(file, project, "http://127.0.0.1:1/mcp", ""):
        assert running_file.read(file, link) is not None


def test_the_users_data_directory_is_where_it_lives(project: Path, tmp_path: Path) -> None:
    place = running_file.place(project, tmp_path, {"XDG_DATA_HOME": "/data"})
    assert place.parent == Path("/data/kimi-gateway/running")
    assert place.suffix == ".json"


def test_one_that_ended_without_removing_it_does_not_run(file: Path, project: Path) -> None:
    running_file.write(file, running_file.Running(dead_pid(), "http://127.0.0.1:1/mcp", "", os.path.realpath(project)))
    assert running_file.read(file, project) is None


def test_a_later_gateways_note_is_not_removed(file: Path, project: Path) -> None:
    with running_file.announced(file, project, "http://127.0.0.1:1/mcp", ""):
        running_file.write(file, running_file.Running(1, "http://127.0.0.1:2/mcp", "", os.path.realpath(project)))
    assert file.exists()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o644])
def test_a_note_others_can_read_or_write_is_not_believed(file: Path, project: Path, mode: int) -> None:
    with running_file.announced(file, project, "http://127.0.0.1:1/mcp", ""):
        file.chmod(mode)
        assert running_file.read(file, project) is None


@pytest.mark.parametrize("words", ["", "{}", "[]", '{"pid": "x", "url": 1, "token": 2, "project": 3}', '{"pid": -1}'])
def test_a_damaged_note_is_no_note(file: Path, project: Path, words: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(words)
    file.chmod(0o600)
    assert running_file.read(file, project) is None


def test_another_projects_note_under_this_name_is_not_believed(file: Path, project: Path) -> None:
    running_file.write(file, running_file.Running(os.getpid(), "http://127.0.0.1:1/mcp", "", "/elsewhere"))
    assert running_file.read(file, project) is None
