from __future__ import annotations

import importlib
import json
from typing import Any, cast

import pytest

from configs.entries import ENTRY_KEYS
from configs.schema import FILE, build, text

validators = cast("Any", importlib.import_module("jsonschema.validators"))


def accepts(value: Any) -> bool:
    return bool(validators.Draft202012Validator(build()).is_valid(value))


def test_the_published_file_is_what_the_code_says() -> None:
    assert FILE.read_text(encoding="utf-8") == text()


def test_it_is_a_valid_schema() -> None:
    validators.Draft202012Validator.check_schema(build())


def test_every_key_is_described() -> None:
    definitions = json.loads(text())["$defs"]
    assert set(definitions["Server"]["properties"]) == set(ENTRY_KEYS)
    for definition in definitions.values():
        assert all("description" in key for key in definition.get("properties", {}).values())


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"theme": "dark", "history": [], "projects": {"/a": {"mcpServers": {}, "other": 1}}},
        {"mcpServers": {"a": {"type": "http", "url": "https://x", "headers": {"A": "b"}, "other": 1}}},
        {"mcpServers": {"a": {"enabled": False, "tools": {"deny": ["x"]}, "health": {"misses": 1}}}},
        {"gateway": {"kimi": True, "naming": "bare", "servers": {"allow": ["x"]}}},
        {"gateway": {"kimi": {"tools": True}, "profiles": {"r": {"tools": {"readOnly": True}}}}},
        {"gateway": {"http": {"tokens": {"ci": {"token": "${T}", "profile": "r"}}}}},
    ],
)
def test_what_the_gateway_reads_is_valid(value: Any) -> None:
    assert accepts(value)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"mcpServers": []},
        {"mcpServers": {"a:b": {"command": "x"}}},
        {"mcpServers": {"a": {"type": "ws"}}},
        {"mcpServers": {"a": {"timeout": 0}}},
        {"mcpServers": {"a": {"env": {"PORT": 1}}}},
        {"gateway": {"naming": "odd"}},
        {"gateway": {"kimi": "no"}},
        {"gateway": {"tools": {"deny": "x"}}},
        {"gateway": {"http": {"tokens": {"ci": {}}}}},
    ],
)
def test_what_the_gateway_refuses_is_invalid(value: Any) -> None:
    assert not accepts(value)
