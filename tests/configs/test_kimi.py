"""Kimi's settings: the environment over the file over the defaults, one bad value at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configs.kimi import KimiSettings, config_file, load


@pytest.fixture
def home(tmp_path: Path) -> Path:
    config_file(tmp_path).parent.mkdir(parents=True)
    return tmp_path


def write(home: Path, value: Any) -> None:
    config_file(home).write_text(value if isinstance(value, str) else json.dumps(value))


def test_without_anything_the_defaults_are_in_force(tmp_path: Path) -> None:
    settings, warnings = load(tmp_path, {})
    assert (settings, warnings) == (KimiSettings(), ())
    assert (settings.model, settings.timeout_of("analyze"), settings.max_file_size) == ("k2", 30.0, 1024 * 1024)
    assert (settings.backend, settings.concurrency) == ("auto", 4)


def test_the_environment_goes_over_the_file_value_by_value(home: Path) -> None:
    write(home, {"model": "k2.5", "timeout": 60, "concurrency": 2, "roles": {"a": "b"}, "somebody": "else's"})
    environ = {
        "KIMI_MCP_TIMEOUT": "90",
        "KIMI_MCP_BACKEND": "api",
        "KIMI_MCP_MODEL": "",
        "KIMI_MCP_TOOL_TIMEOUT_MS": "x",
    }
    settings, warnings = load(home, environ)
    assert warnings == ()
    assert (settings.model, settings.timeout_of("verify"), settings.backend) == ("k2.5", 90.0, "api")
    assert (settings.concurrency, settings.roles) == (2, {"a": "b"})
    assert settings.chosen == {"model", "timeout", "concurrency", "roles", "backend"}


def test_a_time_limit_may_differ_by_tool(home: Path) -> None:
    write(home, {"timeout": {"implement": 600, "default": 45}})
    settings, _ = load(home, {})
    assert [settings.timeout_of(tool) for tool in ("analyze", "implement", "refactor")] == [45.0, 600.0, 45.0]
    settings, warnings = load(home, {"KIMI_MCP_TIMEOUT": '{"refactor": 300.5}'})
    assert warnings == ()
    assert [settings.timeout_of(tool) for tool in ("analyze", "implement", "refactor")] == [30.0, 30.0, 300.5]


def test_aliases_lead_to_ids_and_may_be_added_to(home: Path) -> None:
    write(home, {"models": {"best": "kimi-k3", "k2": "kimi-k2.7-code"}})
    settings, _ = load(home, {})
    assert [settings.resolve(name) for name in ("best", "k2", "k2.5", "kimi-k2.6")] == [
        "kimi-k3", "kimi-k2.7-code", "kimi-k2.5", "kimi-k2.6",
    ]  # fmt: skip
    assert KimiSettings().resolve("k2") == "kimi-k2.6"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", ""),
        ("model", 3),
        ("timeout", 0),
        ("timeout", "60"),
        ("timeout", 3601),
        ("timeout", True),
        ("timeout", {"implment": 60}),
        ("timeout", {"implement": -1}),
        ("max_file_size", 0),
        ("max_file_size", 1.5),
        ("roles", ["security"]),
        ("models", {"k2": ""}),
        ("backend", "http"),
        ("concurrency", 0),
        ("concurrency", 65),
    ],
)
def test_a_bad_value_is_named_and_the_default_used(home: Path, key: str, value: Any) -> None:
    write(home, {key: value, "concurrency" if key != "concurrency" else "model": 7 if key != "concurrency" else "k3"})
    settings, warnings = load(home, {})
    assert getattr(settings, key) == getattr(KimiSettings(), key)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{key} = ") and str(config_file(home)) in warnings[0]
    assert settings.model == "k3" if key == "concurrency" else settings.concurrency == 7


def test_a_bad_variable_leaves_the_file_in_force(home: Path) -> None:
    write(home, {"timeout": 60})
    settings, warnings = load(home, {"KIMI_MCP_TIMEOUT": "soon"})
    assert settings.timeout == 60.0
    assert len(warnings) == 1
    assert warnings[0].startswith('KIMI_MCP_TIMEOUT = "soon" in the environment') and "60" in warnings[0]


@pytest.mark.parametrize("text", ["{", "[]", "3", '"k2"', "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_a_broken_file_is_named_and_the_defaults_used(home: Path, text: str) -> None:
    config_file(home).write_bytes(text.encode("latin-1"))
    settings, warnings = load(home, {})
    assert settings == KimiSettings()
    assert len(warnings) == 1 and str(config_file(home)) in warnings[0]


def test_names_that_look_like_numbers_stay_names(home: Path) -> None:
    assert load(home, {"KIMI_MCP_MODEL": "2"})[0].model == "2"


def test_a_bad_member_of_an_object_costs_only_itself(home: Path) -> None:
    path = config_file(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"timeout": {"analyze": "x", "implement": 600}, "roles": {"a": 5, "b": "c"}}')
    settings, warnings = load(home, {})
    assert settings.timeout_of("implement") == 600 and settings.timeout_of("analyze") == 30
    assert settings.roles == {"b": "c"}
    assert [warning.split(" in ")[0] for warning in warnings] == ['timeout.analyze = "x"', "roles.a = 5"]
