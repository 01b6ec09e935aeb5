from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configs.load import load
from configs.models import Config

Configured = Callable[..., Config]


def test_with_nothing_configured_there_is_a_configuration(configured: Configured, home: Path, project: Path) -> None:
    config = configured()
    record = home / ".local" / "share" / "kimi-gateway" / "trust.json"
    assert config == Config(project, (home / ".kode.json", project / ".kode.json", record), {})


def test_a_broken_file_is_one_problem_and_its_layer_is_absent(configured: Configured, project: Path) -> None:
    config = configured({"mcpServers": {"a": {"command": "x"}}}, '{"mcpServers": {\n  "b": {"command": x}}}')
    (problem,) = config.problems
    assert (problem.file, problem.line, problem.column, problem.key) == (project / ".kode.json", 2, 20, "")
    assert ([*config.servers], config.broken) == (["a"], (project / ".kode.json",))


def test_a_directory_in_place_of_the_users_file_is_reported(home: Path, project: Path) -> None:
    (home / ".kode.json").mkdir()
    config = load(cwd=project, home=home, environ={})
    assert (config.broken, "directory" in config.problems[0].message) == ((home / ".kode.json",), True)


@pytest.mark.parametrize("text", ["", "// soon\n", "{}", '{"mcpServers": {}, "gateway": {}, "projects": {}}'])
def test_an_empty_file_is_no_problem(configured: Configured, text: str) -> None:
    config = configured(text, text)
    assert (config.servers, config.problems, config.broken) == ({}, (), ())


def test_a_section_of_the_wrong_type_is_a_problem_and_the_rest_is_read(configured: Configured) -> None:
    config = configured('{"mcpServers": [], "gateway": "x", "projects": 5}', {"mcpServers": {"a": {"command": "x"}}})
    assert [problem.key for problem in config.problems] == ["mcpServers", "gateway", "projects"]
    assert [*config.servers] == ["a"]


def test_problems_come_in_the_order_of_the_file(configured: Configured) -> None:
    config = configured(
        '{"gateway": {"naming": 1},\n"mcpServers": {"a": {"command": "${NOPE}"},\n"b": {"command": 5}}}',
        environ={"KIMI_GATEWAY_NAMING": "odd"},
    )
    assert [problem.line for problem in config.problems] == [0, 1, 2, 3]


def test_the_project_flag_is_the_project(home: Path, project: Path, tmp_path: Path) -> None:
    (project / ".kode.json").write_text('{"mcpServers": {"a": {"command": "x", "cwd": "."}}}')
    config = load(project, cwd=tmp_path, home=home, environ={"KIMI_GATEWAY_TRUST_PROJECT": "1"})
    assert (config.project, config.servers["a"].cwd) == (project, project)


def test_settings_that_nobody_made_cost_no_import(project: Path, home: Path) -> None:
    (home / ".kode.json").write_text('{"mcpServers": {"a": {"command": "x", "tools": {"deny": ["y"]}}}}')
    code = (
        "import sys; from pathlib import Path; from configs.load import load\n"
        f"load(cwd=Path({str(project)!r}), home=Path({str(home)!r}), environ={{'KIMI_GATEWAY_TOKEN': 'x'}})\n"
        "print([name for name in ('pydantic', 'pydantic_settings', 'mcp', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


_WORDS = st.sampled_from(
    ["type", "command", "args", "env", "cwd", "url", "headers", "enabled", "timeout", "timeouts", "health", "tools",
     "kimi", "allow", "deny", "readOnly", "naming", "http", "tokens", "ci", "token", "profile", "profiles", "servers",
     "hosts", "maxFrame", "interval", "misses", "${X}", "${HOME}", "https://x", "stdio", "sse", "\ud800", "\0", "a:b"]
)  # fmt: skip
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=5),
    max_leaves=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(_ANYTHING, _ANYTHING, _ANYTHING)
def test_whatever_the_files_hold_there_is_a_configuration(
    configured: Configured, first: object, second: object, third: object
) -> None:
    config = configured(
        {"mcpServers": {"a": first, "b": second}, "gateway": third, "projects": second},
        {"mcpServers": {"a": second, "b": third}, "gateway": first},
        {"KIMI_GATEWAY_HEALTH__MISSES": "2"},
    )
    assert all(str(problem) and problem.line > 0 for problem in config.problems)
    assert not config.broken
