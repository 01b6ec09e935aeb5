"""What Kimi's server says about its tools."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from configs.kimi import KimiSettings
from servers.kimi import listing
from servers.kimi.arguments import TOOLS, read
from servers.kimi.failure import Failure
from servers.kimi.prompts import ROLES

SETTINGS = KimiSettings(model="k2.5", timeout={"implement": 600.0, "default": 45.0}, roles={"style": "Mind it."})
BY_NAME = {tool["name"]: tool for tool in listing.tools(SETTINGS)}


def test_there_are_four_tools_with_what_a_model_needs_to_choose() -> None:
    assert list(BY_NAME) == list(TOOLS)
    for name, tool in BY_NAME.items():
        assert tool["title"] and len(tool["description"]) > 200
        assert "outputSchema" not in tool
        writes = name in ("kimi_implement", "kimi_refactor")
        assert tool["annotations"]["readOnlyHint"] is not writes
        assert tool["annotations"]["destructiveHint"] is writes


def test_descriptions_state_the_defaults_in_force() -> None:
    assert "default time limit 600 s" in BY_NAME["kimi_implement"]["description"]
    for name in ("kimi_analyze", "kimi_refactor", "kimi_verify"):
        assert "default time limit 45 s" in BY_NAME[name]["description"]
    for tool in BY_NAME.values():
        assert "Default model k2.5 (kimi-k2.5)" in tool["description"]
        assert "take minutes" in tool["description"] and "set `timeout`" in tool["description"]
        assert tool["inputSchema"]["properties"]["timeout"]["maximum"] == 3600


def test_roles_are_named_with_those_of_the_settings() -> None:
    words = BY_NAME["kimi_analyze"]["inputSchema"]["properties"]["role"]["description"]
    assert all(role in words for role in (*ROLES, "style"))


@pytest.mark.parametrize("name", TOOLS)
def test_schema_and_arguments_agree(name: str) -> None:
    """What the schema lets through is taken, and what it refuses is refused."""
    schema = BY_NAME[name]["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    validator: Any = jsonschema.Draft202012Validator(schema)
    values = {"prompt": "x", "files": ["a"], "context": "c", "model": "k2", "timeout": 5, "role": "r"}
    values |= {"constraints": ["c"], "safety_checks": False, "requirements": "r"}
    own = {key: values[key] for key in schema["properties"]}
    bad = [{}, {"prompt": ""}, {**own, "timeout": 0}, {**own, "timeout": 3601}, {**own, "files": "a"}, {**own, "x": 1}]
    assert validator.is_valid(own) and read(name, own, SETTINGS)
    for arguments in bad:
        assert not validator.is_valid(arguments)
        with pytest.raises(Failure):
            read(name, arguments, SETTINGS)


def test_instructions_fit_every_client() -> None:
    assert all(name in listing.INSTRUCTIONS for name in TOOLS)
    assert len(listing.INSTRUCTIONS) < 2048
