from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.load import load
from configs.models import Config, Globs, Health

Configured = Callable[..., Config]


def entries(**servers: Any) -> dict[str, Any]:
    return {"mcpServers": servers}


def test_a_project_replaces_a_server_of_the_same_name_and_leaves_the_others(configured: Configured) -> None:
    config = configured(
        entries(b={"command": "old", "args": ["1"], "timeout": 5}, a={"command": "a"}), entries(b={"command": "new"})
    )
    assert [*config.servers] == ["a", "b"]
    replaced = config.servers["b"]
    assert (replaced.command, replaced.args, replaced.timeout) == ("new", (), 60.0)
    assert (replaced.source.scope, config.servers["a"].source.scope) == ("project", "global")


def test_an_entry_without_command_and_url_changes_only_what_it_says(configured: Configured, project: Path) -> None:
    config = configured(
        entries(fs={"command": "x", "timeout": 90, "health": {"interval": 5, "misses": 4}, "tools": {"deny": ["a"]}}),
        entries(fs={"enabled": False, "tools": {"allow": ["b"]}, "timeout": 3, "health": {"misses": 1}}),
    )
    server = config.servers["fs"]
    assert (server.command, server.enabled, server.timeout, server.source.scope) == ("x", False, 3.0, "global")
    assert server.health == Health(5.0, 10.0, 1)
    assert [rules.tools for rules in server.rules] == [Globs(deny=("a",)), Globs(allow=("b",))]
    assert [rules.source.file for rules in server.rules] == [project.parent / ".kode.json", project / ".kode.json"]
    assert config.problems == ()


def test_a_project_that_replaces_a_server_cannot_shake_off_its_filter(configured: Configured) -> None:
    config = configured(
        entries(fs={"command": "x", "tools": {"deny": ["a"]}}), entries(fs={"command": "y", "tools": {"deny": ["b"]}})
    )
    assert [rules.tools.deny for rules in config.servers["fs"].rules] == [("a",), ("b",)]


def test_a_filter_that_cannot_be_read_hides_everything(configured: Configured) -> None:
    config = configured(entries(fs={"command": "x", "tools": {"deny": "a"}}), entries(fs={"command": "y"}))
    assert [rules.tools.allow for rules in config.servers["fs"].rules] == [()]


def test_an_overlay_with_something_wrong_takes_the_server_out(configured: Configured) -> None:
    config = configured(entries(fs={"command": "x"}), entries(fs={"enabled": "no"}))
    assert "mcpServers.fs.enabled" in config.servers["fs"].problem


def test_an_overlay_over_nothing_is_a_problem(configured: Configured, project: Path) -> None:
    config = configured({}, entries(fs={"enabled": False}))
    (problem,) = config.problems
    assert (config.servers, problem.key, problem.file) == ({}, "mcpServers.fs", project / ".kode.json")


def test_what_an_overlay_cannot_change_is_a_problem(configured: Configured) -> None:
    config = configured(entries(fs={"command": "x"}), entries(fs={"args": ["y"]}))
    (problem,) = config.problems
    assert (config.servers["fs"].args, config.servers["fs"].problem, problem.key) == ((), "", "mcpServers.fs.args")


def test_kodes_entries_for_a_project_come_between_global_and_project(configured: Configured, project: Path) -> None:
    def kode(**servers: Any) -> dict[str, Any]:
        return {"projects": {str(project): {"history": [], "mcpServers": servers}, "/other": {"mcpServers": 5}}}

    above = kode(b={"command": "kode"}, c={"command": "kode"}, a={"timeout": 7, "tools": {"deny": ["x"]}})
    personal = {**entries(**{name: {"command": "global"} for name in "abc"}), **above}
    config = configured(personal, entries(c={"command": "project"}))
    assert [server.command for server in config.servers.values()] == ["global", "kode", "project"]
    assert config.servers["a"].timeout == 7.0
    assert config.servers["a"].rules[0].label == f'projects["{project}"].mcpServers.a.tools'
    assert (config.servers["b"].source.scope, config.problems) == ("kode-project", ())


def test_an_unset_variable_takes_out_only_its_server_and_names_everything(configured: Configured) -> None:
    config = configured(entries(fs={"command": "x", "env": {"T": "${NOPE}"}}, good={"command": "y"}))
    (problem,) = config.problems
    words = config.servers["fs"].problem
    assert all(part in words for part in ("fs", "env.T", "NOPE is not set", "${NOPE:-default}"))
    assert (problem.server, problem.key) == ("fs", "mcpServers.fs.env.T")
    assert config.servers["good"].problem == ""


def test_a_disabled_server_needs_no_variables(configured: Configured) -> None:
    config = configured(entries(fs={"command": "${NOPE}", "enabled": False}))
    assert (config.servers["fs"].problem, config.problems) == ("", ())


def test_variables_are_expanded_where_the_contract_says_and_nowhere_else(configured: Configured) -> None:
    text = "${V}"
    config = configured(
        entries(
            a={"command": text, "args": [text, "$V"], "env": {"V": text}, "cwd": "/x/${V}", "tools": {"deny": [text]}},
            b={"url": "https://h/${V}", "headers": {"X": text}},
        ),
        environ={"V": "value"},
    )
    a, b = config.servers["a"], config.servers["b"]
    assert (a.command, a.args, a.env, a.cwd) == ("value", ("value", "$V"), {"V": "value"}, Path("/x/value"))
    assert (b.url, b.headers, a.rules[0].tools.deny) == ("https://h/value", {"X": "value"}, (text,))


def test_secrets_are_what_came_from_variables_env_and_headers(configured: Configured) -> None:
    config = configured(
        entries(
            a={"command": "run", "args": ["--key=${KEY}", "plain", "${HOME}"], "env": {"LITERAL": "in-file", "N": "1"}},
            b={"url": "https://h", "headers": {"Authorization": "Bearer sk-12345678"}},
        ),
        environ={"KEY": "from-env", "HOME": "/home/me"},
    )
    assert config.servers["a"].secrets == {"from-env", "in-file"}
    assert config.servers["b"].secrets == {"Bearer sk-12345678", "sk-12345678"}
    assert "in-file" not in repr(config.servers["a"])


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [(".", "work"), ("sub/../x", "work/x"), ("~", "."), ("~/y", "y"), ("${D}", "work/d"), ("..", ".")],
)
def test_a_working_directory_is_absolute(configured: Configured, home: Path, cwd: str, expected: str) -> None:
    entry = {"command": "x", "cwd": cwd}
    config = configured(entries(mine=entry), entries(theirs=entry), {"D": "d"})
    assert {server.cwd for server in config.servers.values()} == {home / expected}


def test_without_cwd_there_is_none(configured: Configured) -> None:
    assert configured(entries(fs={"command": "x"})).servers["fs"].cwd is None


def test_a_fingerprint_is_of_the_entry_as_written(configured: Configured) -> None:
    def fingerprint(environ: dict[str, str] | None = None, **keys: Any) -> str:
        return configured(entries(fs={"command": "${X:-x}", **keys}), environ=environ).servers["fs"].fingerprint

    plain = fingerprint()
    assert len(plain) == 64
    assert fingerprint({"X": "other"}) == plain
    assert fingerprint(enabled=False, timeout=5, tools={"deny": ["a"]}) == plain
    assert len({plain, fingerprint(args=["a"]), fingerprint(env={"A": "b"}), fingerprint(cwd="/x")}) == 4


def test_a_fingerprint_of_a_projects_entry_or_a_relative_directory_belongs_to_the_project(
    configured: Configured, project: Path, home: Path
) -> None:
    config = configured(
        entries(a={"command": "x"}, b={"command": "x", "cwd": "sub"}),
        entries(c={"command": "sh", "args": ["s.sh"]}),
    )
    other = home / "other"
    other.mkdir()
    (other / ".kode.json").write_text((project / ".kode.json").read_text())
    there = load(cwd=other, home=home, environ={})
    same = {name: there.servers[name].fingerprint == config.servers[name].fingerprint for name in "abc"}
    assert same == {"a": True, "b": False, "c": False}


def test_the_name_kimi_is_reserved_while_kimi_is_built_in(configured: Configured) -> None:
    config = configured(entries(kimi={"command": "x"}))
    (problem,) = config.problems
    assert (config.servers, problem.key, "built-in" in problem.message) == ({}, "mcpServers.kimi", True)
    free = configured({**entries(kimi={"command": "x"}), "gateway": {"kimi": False}})
    assert ([*free.servers], free.problems) == (["kimi"], ())
