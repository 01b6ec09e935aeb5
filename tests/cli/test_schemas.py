"""Schemas in words."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cli.schemas import kind, signature, variants

ROOT: dict[str, Any] = {
    "$defs": {
        "Side": {"enum": ["left", "right"]},
        "Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "Loop": {"$ref": "#/$defs/Loop"},
        "Tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}},
        "a/b": {"type": "null"},
    }
}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"oneOf": [{"const": 1}, {"const": "x"}]}, '1 | "x"'),
        ({"enum": ["open", "closed"]}, '"open" | "closed"'),
        ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | …"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"type": ["string", "number"]}}, "(string | number)[]"),
        ({"type": "array"}, "any[]"),
        ({"$ref": "#/$defs/Side"}, '"left" | "right"'),
        ({"$ref": "#/$defs/Point"}, "{x: number}"),
        ({"$ref": "#/$defs/a~1b"}, "null"),
        ({"allOf": [{"$ref": "#/$defs/Point"}], "description": "where"}, "{x: number}"),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "#/$defs/Nowhere"}, "any"),
        ({"$ref": "https://example.test/schema"}, "any"),
        ({"type": "object"}, "object"),
        ({}, "any"),
        (True, "any"),
        (None, "any"),
        ("nonsense", "any"),
    ],
)
def test_kinds(schema: object, words: str) -> None:
    assert kind(schema, ROOT) == words


def test_a_schema_that_contains_itself_ends() -> None:
    assert kind({"$ref": "#/$defs/Tree"}, ROOT).startswith("{children?: ")
    endless: dict[str, Any] = {"anyOf": [{"$ref": "#"}, {"type": "string"}]}
    assert variants(endless, endless)
    hostile: dict[str, Any] = {"anyOf": [{"$ref": "#"}] * 1000, "allOf": [{"$ref": "#"}] * 1000}
    assert variants(hostile, hostile)
    assert kind({"allOf": [{"$ref": "#"}] * 50}, {"allOf": [{"$ref": "#"}] * 50}) == "any"


def test_a_signature_has_what_is_required_first() -> None:
    schema = {
        "type": "object",
        "properties": {"force": {"type": "boolean", "default": False}, "path": {"type": "string"}},
        "required": ["path"],
    }
    output = {"type": "object", "properties": {"moved": {"type": "boolean"}}}
    assert signature("files:move", schema) == "files:move(path: string, force?: boolean = false)"
    assert signature("a:b", {}, output) == "a:b() -> {moved?: boolean}"
