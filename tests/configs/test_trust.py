from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from configs import trust
from configs.load import load
from configs.models import Config, Globs, Health

HOSTILE = {"command": "/bin/sh", "args": ["-c", "touch pwned; echo ${SECRET}"], "env": {"T": "${SECRET}"}}


class Project:
    """A user's home with somebody else's project in it."""

    def __init__(self, home: Path, directory: Path) -> None:
        self.home = home
        self.directory = directory
        self.record = trust.record_file(home, {})

    def writes(self, **content: Any) -> None:
        (self.directory / ".kode.json").write_text(json.dumps(content))

    def mine(self, **content: Any) -> None:
        (self.home / ".kode.json").write_text(json.dumps(content))

    def load(self, environ: Mapping[str, str] | None = None) -> Config:
        return load(cwd=self.directory, home=self.home, environ={"PATH": "/bin", "SECRET": "s3cr3t", **(environ or {})})

    def trusts(self) -> None:
        trust.grant(self.record, self.load().claims)


@pytest.fixture
def theirs(home: Path, project: Path) -> Project:
    return Project(home, project)


def test_an_untrusted_server_is_neither_started_nor_expanded(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    config = theirs.load()
    server = config.servers["a"]
    assert server.problem.startswith("untrusted: ") and "`kimi-gateway trust`" in server.problem
    assert "s3cr3t" not in repr(config) + str(server.args) and (server.env, server.secrets) == ({}, frozenset())
    assert server.fingerprint == ""
    (problem,) = config.problems
    assert "not started: a" in problem.message and "`kimi-gateway trust`" in problem.fix


def test_a_trusted_server_is_started(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    theirs.trusts()
    config = theirs.load()
    assert (config.servers["a"].problem, config.problems, config.servers["a"].env["T"]) == ("", (), "s3cr3t")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"args": ["-c", "touch pwnee; echo ${SECRET}"]}, "args was"),
        ({"command": "/bin/ls"}, "command was"),
        ({"cwd": "sub"}, "cwd was not there"),
        ({"env": {"T": "${SECRETS}"}}, "env.T is changed"),
        ({"env": {"T": "${SECRET}", "LD_PRELOAD": "x.so"}}, "env.LD_PRELOAD is new"),
        ({"type": "stdio"}, "type was"),
    ],
)
def test_after_one_changed_byte_it_is_not(theirs: Project, change: dict[str, Any], words: str) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    theirs.trusts()
    theirs.writes(mcpServers={"a": {**HOSTILE, **change}})
    problem = theirs.load().servers["a"].problem
    assert problem.startswith("untrusted: ") and words in problem


def test_a_rotated_token_and_a_narrower_entry_are_no_edit(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    theirs.trusts()
    theirs.writes(mcpServers={"a": {**HOSTILE, "tools": {"deny": ["x"]}, "timeout": 5, "enabled": True}})
    assert theirs.load({"SECRET": "another"}).servers["a"].problem == ""


def test_trust_belongs_to_the_real_directory(theirs: Project, tmp_path: Path) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    theirs.trusts()
    (tmp_path / "link").symlink_to(theirs.directory)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".kode.json").write_text((theirs.directory / ".kode.json").read_text())
    environ = {"PATH": "/bin", "SECRET": "x"}
    assert load(cwd=tmp_path / "link", home=theirs.home, environ=environ).servers["a"].problem == ""
    assert "untrusted" in load(cwd=copy, home=theirs.home, environ=environ).servers["a"].problem


def test_another_program_of_the_same_name_is_another_entry(theirs: Project, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").touch(0o755)
    theirs.writes(mcpServers={"a": {"command": "tool"}})
    first, second = ({"PATH": str(tmp_path / folder)} for folder in ("one", "two"))
    trust.grant(theirs.record, theirs.load(first).claims)
    assert theirs.load(first).servers["a"].problem == ""
    assert "executable was" in theirs.load(second).servers["a"].problem


def test_what_was_trusted_before_it_was_installed_stays_trusted_unless_the_project_brings_it(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": {"command": "tool"}})
    theirs.trusts()
    for folder, good in ((theirs.home / "bin", True), (theirs.directory / "bin", False)):
        folder.mkdir()
        (folder / "tool").touch(0o755)
        assert (theirs.load({"PATH": str(folder)}).servers["a"].problem == "") is good


def test_untrusted_an_overlay_only_narrows(theirs: Project) -> None:
    theirs.mine(
        mcpServers={
            "on": {"command": "x", "timeout": 30},
            "off": {"command": "x", "enabled": False},
            "slow": {"command": "x"},
        }
    )
    theirs.writes(
        mcpServers={
            "on": {"enabled": False, "timeout": 10, "tools": {"allow": ["a"]}},
            "off": {"enabled": True},
            "slow": {"timeout": 600, "timeouts": {"a": 5, "b": 500}, "health": {"interval": 0.01}},
        }
    )
    config = theirs.load()
    on, off, slow = (config.servers[name] for name in ("on", "off", "slow"))
    assert (on.enabled, on.timeout, on.rules[0].tools) == (False, 10.0, Globs(allow=("a",)))
    assert (off.enabled, slow.timeout, slow.timeouts, slow.health) == (False, 60.0, {"a": 5.0}, Health())
    assert [claim.name for claim in config.untrusted] == ["off", "slow"]
    theirs.trusts()
    slow = theirs.load().servers["slow"]
    assert (theirs.load().servers["off"].enabled, slow.timeout, slow.timeouts["b"]) == (True, 600.0, 500.0)
    assert slow.health.interval == 0.01


def test_untrusted_an_override_takes_the_users_server_out_rather_than_stand_in_for_it(theirs: Project) -> None:
    theirs.mine(mcpServers={"db": {"command": "mine"}})
    theirs.writes(mcpServers={"db": {"command": "theirs"}})
    config = theirs.load()
    assert "untrusted" in config.servers["db"].problem
    assert config.claims[0].overrides == str(theirs.home / ".kode.json")


def test_untrusted_only_the_filters_of_a_gateway_section_are_taken(theirs: Project) -> None:
    section = {
        "naming": "canonical",
        "http": {"tokens": {"x": {"token": "${SECRET}"}}},
        "kimi": {"enabled": False},
        "tools": {"deny": ["z"]},
        "profiles": {"p": {"tools": {"allow": ["a"]}}},
    }
    theirs.writes(gateway=section)
    config = theirs.load()
    assert (config.naming, config.http.tokens, config.kimi.enabled) == ("safe", (), False)
    assert (config.rules[0].tools.deny, [*config.profiles]) == (("z",), ["p"])
    assert "its gateway settings are not taken" in config.problems[0].message
    theirs.trusts()
    assert (theirs.load().naming, theirs.load().http.tokens[0].token) == ("canonical", "s3cr3t")


def test_filters_alone_need_no_trust(theirs: Project) -> None:
    theirs.writes(gateway={"tools": {"deny": ["z"]}, "kimi": False}, mcpServers={})
    assert (theirs.load().claims, theirs.load().problems) == ((), ())


def test_a_server_that_is_switched_off_is_no_reason_to_ask(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": {**HOSTILE, "enabled": False}})
    assert (theirs.load().untrusted, len(theirs.load().claims), theirs.load().problems) == ((), 1, ())


def test_the_users_own_files_need_no_trust(theirs: Project) -> None:
    theirs.mine(mcpServers={"a": HOSTILE}, projects={str(theirs.directory): {"mcpServers": {"b": HOSTILE}}})
    config = theirs.load()
    assert (config.claims, config.servers["a"].problem, config.servers["b"].problem) == ((), "", "")


def test_a_variable_trusts_every_project(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    assert theirs.load({trust.EVERYTHING: "1"}).servers["a"].problem == ""
    assert theirs.load({trust.EVERYTHING: "0"}).servers["a"].problem != ""


def test_the_record_is_private_and_holds_no_values_of_variables_or_headers(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": {"url": "https://x", "headers": {"Authorization": "Bearer inline"}}})
    theirs.trusts()
    assert stat.S_IMODE(theirs.record.stat().st_mode) == 0o600
    assert "inline" not in theirs.record.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', '{"format": 1, "projects": {"x": 5}}', "null"])
def test_a_damaged_record_trusts_nothing_and_says_so(theirs: Project, text: str) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    theirs.trusts()
    theirs.record.write_text(text)
    config = theirs.load()
    assert config.servers["a"].problem and any("is not used" in problem.message for problem in config.problems)
    theirs.trusts()
    assert theirs.load().problems == ()


def test_a_record_that_others_may_write_trusts_nothing(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    theirs.trusts()
    theirs.record.chmod(0o666)
    assert theirs.load().servers["a"].problem


def test_what_was_granted_can_be_revoked(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE, "b": HOSTILE})
    theirs.trusts()
    project = theirs.load().claims[0].project
    assert trust.revoke(theirs.record, project, ["server:a", "server:x"]) == 1
    assert [claim.name for claim in theirs.load().untrusted] == ["a"]
    assert trust.revoke(theirs.record, project) == 1
    assert trust.revoke(theirs.record, project) == 0
    assert len(theirs.load().untrusted) == 2


def test_the_record_lives_in_the_users_data_directory(home: Path) -> None:
    assert trust.record_file(home, {"XDG_DATA_HOME": "/data"}) == Path("/data/kimi-gateway/trust.json")
    assert trust.record_file(home, {"XDG_DATA_HOME": "relative"}).is_relative_to(home)


def test_an_untrusted_entry_that_changes_its_command_changes_its_launch(theirs: Project) -> None:
    theirs.writes(mcpServers={"a": HOSTILE})
    before = theirs.load().servers["a"]
    theirs.trusts()
    assert before.launch != theirs.load().servers["a"].launch
    assert before == replace(before)
