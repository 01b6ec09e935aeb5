"""The words after a tool's name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.arguments import coerce, parse_arguments, unknown_parameters
from gateway.cli.usage import Usage

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Size": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "where": {"type": "object"},
        "size": {"$ref": "#/$defs/Size"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["string", "integer"]},
        "level": {"enum": [1, 2, "high"]},
        "one_or_many": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "anything": {},
    },
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["text=5"], {"text": "5"}),
        (["text=true"], {"text": "true"}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["count=5"], {"count": 5}),
        (["count=5.0"], {"count": 5}),
        (["ratio=5"], {"ratio": 5}),
        (["ratio=1e3"], {"ratio": 1000.0}),
        (["on=true", "text=x"], {"on": True, "text": "x"}),
        (["on=False"], {"on": False}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=5"], {"tags": ["a", "5"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
        (['where={"x": 1}'], {"where": {"x": 1}}),
        (["size=3"], {"size": 3}),
        (["size=null"], {"size": None}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=5"], {"maybe": "5"}),
        (["either=5"], {"either": 5}),
        (["either=five"], {"either": "five"}),
        (["level=2"], {"level": 2}),
        (["level=high"], {"level": "high"}),
        (["one_or_many=a"], {"one_or_many": "a"}),
        (["one_or_many=a", "one_or_many=b"], {"one_or_many": ["a", "b"]}),
        (["anything=5"], {"anything": 5}),
        (["anything=x y"], {"anything": "x y"}),
        (["unheard_of=5"], {"unheard_of": 5}),
        (["unheard_of=a", "unheard_of=b"], {"unheard_of": ["a", "b"]}),
        ([], {}),
        (['{"text": 5}'], {"text": 5}),
    ],
)
def test_words_are_read_as_the_schema_says(words: list[str], arguments: dict[str, Any]) -> None:
    assert json.loads(parse_arguments(words, SCHEMA)) == arguments


def test_an_object_is_sent_as_it_is_spelled() -> None:
    words = '{"big": 123456789012345678901234567890, "exact": 1.10}'
    assert parse_arguments([words], SCHEMA) == words


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["count=five"], "count must be integer, not 'five'"),
        (["count=5.5"], "count must be integer"),
        (["on=5"], "on must be boolean"),
        (["where=x"], "where must be object"),
        (["numbers=x"], "numbers must be integer"),
        (["text=a", "text=b"], "text is given 2 times"),
        (["text"], "neither a JSON object nor key=value"),
        (["=x"], "neither a JSON object nor key=value"),
        (['{"text": '], "not JSON"),
    ],
)
def test_what_cannot_be_read_so_is_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(Usage, match=complaint):
        parse_arguments(words, SCHEMA)


def test_a_misspelled_parameter_is_pointed_out() -> None:
    assert unknown_parameters(["cuont=5"], SCHEMA) == ["It has no parameter 'cuont'. Did you mean count?"]
    (sentence,) = unknown_parameters(["zzz=5"], SCHEMA)
    assert "It has: text, count" in sentence
    assert unknown_parameters(["zzz=5"], {}) == []


@given(st.text())
def test_a_text_stays_what_was_typed(value: str) -> None:
    assert coerce("text", [value], SCHEMA["properties"]["text"], SCHEMA) == value


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_what_has_no_schema_is_json_where_it_parses(value: Any) -> None:
    assert coerce("x", [json.dumps(value)], None, {}) == value
