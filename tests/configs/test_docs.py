"""The documentation names every key there is, and no tool that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.entries import ENTRY_KEYS
from configs.imports.tools import TOOLS
from configs.schema import build

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"[A-Za-z]+", " ".join(re.findall(r"`([^`]*)`", TEXT))))


def gateway_keys(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    for key, value in schema.get("properties", {}).items():
        yield key
        for reference in re.findall(r"'\$ref': '#/\$defs/(\w+)'", str(value)):
            yield from gateway_keys(definitions[reference], definitions)


@pytest.mark.parametrize("key", ENTRY_KEYS)
def test_every_key_of_an_entry_has_its_row(key: str) -> None:
    assert f"\n| `{key}` |" in TEXT


def test_every_key_of_the_gateway_section_is_named() -> None:
    definitions = build()["$defs"]
    assert set(gateway_keys(definitions["Gateway"], definitions)) <= WORDS


def test_every_tool_and_each_of_its_files_is_named() -> None:
    lines = TEXT.split("\n## Import\n")[1].splitlines()
    for tool in TOOLS:
        row = next(line for line in lines if line.startswith(f"| `{tool.name}` |"))
        assert all(Path(name).name in row for name in (*tool.personal, *tool.shared))
