"""Forms for what a server elicits."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cli.forms import Field, Invalid, fields


def field(schema: dict[str, Any], *, required: bool = True) -> Field:
    return Field("it", schema, required)


TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
MANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
NAMED = {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]}


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, "hello", "hello"),
        ({"type": "string"}, "5", "5"),
        ({"type": "integer"}, " 5 ", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "string", "default": "d"}, "", "d"),
        ({"type": "boolean", "default": False}, "", False),
        ({"type": "string", "enum": ["on", "off"]}, "OFF", "off"),
        ({"type": "string", "enum": ["on", "off"]}, "1", "on"),
        (TITLED, "green", "g"),
        (TITLED, "r", "r"),
        (TITLED, "2", "g"),
        (NAMED, "why", "y"),
        (MANY, "a, 3", ["a", "c"]),
        ({"type": "integer", "enum": [2, 1]}, "2", 2),
    ],
)
def test_what_is_typed_becomes_a_value(schema: dict[str, Any], typed: str, value: object) -> None:
    assert field(schema).read(typed) == value


@pytest.mark.parametrize(
    ("schema", "typed"),
    [
        ({"type": "string"}, ""),
        ({"type": "integer"}, "x"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, "4"),
        ({"type": "integer", "minimum": 1}, "0"),
        ({"type": "string", "minLength": 3}, "ab"),
        ({"type": "string", "maxLength": 3}, "abcd"),
        ({"type": "boolean"}, "perhaps"),
        (TITLED, "blue"),
        (TITLED, "3"),
        (MANY, "a,z"),
    ],
)
def test_what_does_not_do_is_asked_again(schema: dict[str, Any], typed: str) -> None:
    with pytest.raises(Invalid):
        field(schema).read(typed)


def test_what_is_not_required_may_stay_empty() -> None:
    assert field({"type": "string"}, required=False).read("") is None


def test_the_prompt_says_what_is_wanted() -> None:
    assert field({"type": "integer", "title": "Age"}).prompt == "  Age (integer): "
    assert field({"type": "string", "default": "x"}).prompt == "  it (string) [x]: "
    assert "may be empty" in field({"type": "string"}, required=False).prompt


def test_a_form_is_in_the_schemas_order() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}, "required": ["a"]}
    assert [(one.key, one.required) for one in fields(schema)] == [("b", False), ("a", True)]
