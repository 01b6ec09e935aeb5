from __future__ import annotations

import json
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.document import Fault, parse
from configs.edit import drop, put

ENTRY: Any = {"command": "npx", "args": ["-y", "é"], "env": {"T": "${T}"}}
PATH = ("mcpServers", "new")

FULL = """{
  "primaryApiKey": "sk-ant-1234567890",
  "history": ["ls",   "cat \\u00e9"],   "numStartups":12e0,
  "mcpServers": {
    "a": { "command":"x" , "args":[ ] }
  },
  "projects": {"/home/me": {"allowedTools": [], "mcpServers": {}}}
}
"""
WITH_COMMENTS = """// mine
{
\t/* keep */ "mcpServers": {
\t\t// the first
\t\t"a": {"command": "x"}, // about a
\t\t"b": {"command": "y"}, // about b
\t\t// none below
\t}, // end
}
"""
SHAPES = [
    FULL,
    WITH_COMMENTS,
    FULL.replace("\n", "\r\n"),
    "\ufeff" + FULL,
    '{"mcpServers":{"a":{"command":"x"}},"z":1}',
    '{"mcpServers": {"a": {"command": "x"}}, "z": 1}\n',
    '{ "mcpServers": { "a": 1, } }',
    '{\n    "mcpServers": {}\n}\n',
    '{\n    "mcpServers": {},\n    "z": 1 }',
    '{"z": 1, "mcpServers": {}}',
    '{\n  "mcpServers": {\n    "a": 1\n  } // end\n}',
]


@pytest.mark.parametrize("text", SHAPES)
def test_what_was_added_and_removed_leaves_the_bytes_as_they_were(text: str) -> None:
    changed = put(parse(text), PATH, ENTRY)
    before, after = parse(text).value, parse(changed).value
    servers: Any = before["mcpServers"]
    assert after == {**before, "mcpServers": {**servers, "new": ENTRY}}
    assert drop(parse(changed), PATH) == text


def test_an_addition_is_one_stretch_and_looks_like_its_neighbours() -> None:
    changed = put(parse(FULL), PATH, ENTRY)
    added = """,
    "new": {
      "command": "npx",
      "args": [
        "-y",
        "é"
      ],
      "env": {
        "T": "${T}"
      }
    }"""
    assert changed == FULL.replace('"args":[ ] }', '"args":[ ] }' + added)
    assert '\t\t"new": {\n\t\t\t"command": "npx"' in put(parse(WITH_COMMENTS), PATH, ENTRY)
    assert put(parse('{"mcpServers":{"a":1}}'), PATH, {"url": "u"}) == '{"mcpServers":{"a":1,"new":{"url":"u"}}}'


@pytest.mark.parametrize(
    "text", ["", "  \n", "\ufeff", "// nothing yet\n", "{}", "{ }", "{\n}", "{\n  // nothing yet\n}"]
)
def test_missing_holders_are_made(text: str) -> None:
    changed = put(parse(text), PATH, {"url": "u"})
    assert parse(changed).value == {"mcpServers": {"new": {"url": "u"}}}
    assert ("nothing yet" in changed) == ("nothing yet" in text) and changed.startswith("\ufeff") == (text == "\ufeff")


def test_a_deep_path_is_made_in_what_is_there() -> None:
    changed = put(parse(FULL), ("projects", "/home/me", "mcpServers", "n"), {"url": "u"})
    assert parse(changed).value["projects"]["/home/me"] == {"allowedTools": [], "mcpServers": {"n": {"url": "u"}}}  # type: ignore[index,call-overload]


def test_what_is_no_object_is_not_overwritten() -> None:
    with pytest.raises(Fault, match="mcpServers must be an object"):
        put(parse('{\n "mcpServers": []\n}'), PATH, ENTRY)


def test_a_value_is_replaced_where_it_stands() -> None:
    text = '{"mcpServers": {"a": {"enabled": false /* for now */, "command": "x"}}}'
    changed = put(parse(text), ("mcpServers", "a", "enabled"), True)
    assert changed == text.replace("false", "true")


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("a", WITH_COMMENTS.replace('\n\t\t"a": {"command": "x"}, // about a', "")),
        ("b", WITH_COMMENTS.replace('\n\t\t"b": {"command": "y"}, // about b', "")),
    ],
)
def test_a_removed_entry_takes_only_its_own_line_along(key: str, left: str) -> None:
    assert drop(parse(WITH_COMMENTS), ("mcpServers", key)) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2}'),
        ('{"b": 2, "a": 1}', '{"b": 2}'),
        ('{"b": 2, "a": 1, "c": 3}', '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "a": 3}', '{"b": 2}'),
        ('{"a":1}', "{}"),
        ('{\n  "b": 2, // x\n  "a": 1}', '{\n  "b": 2 // x\n  }'),
        ('{ // x\n  "a": 1}', "{ // x\n  }"),
        ('{"b": "," /* , */, "a": 1}', '{"b": "," /* , */ }'),
    ],
)
def test_commas_and_comments_stay_right(text: str, left: str) -> None:
    assert drop(parse(text), ("a",)) == left
    assert "a" not in parse(left).value


def test_what_is_not_there_is_dropped_for_nothing() -> None:
    assert drop(parse(FULL), ("mcpServers", "zzz")) == FULL


@given(st.integers(), st.booleans())
def test_comments_and_trailing_commas_anywhere_never_break_a_file(seed: int, many_lines: bool) -> None:
    chance = Random(seed)

    def spell(value: Any, indent: str) -> str:
        if not isinstance(value, dict):
            return json.dumps(value)
        holder = cast("dict[str, Any]", value)
        lines = [f"{indent}  {json.dumps(key)}: {spell(below, indent + '  ')}" for key, below in holder.items()]
        gaps = ("", "", " ", " // , }\n", "/* , { */", "\n/*\n*/")
        text = "".join(f"{chance.choice(gaps)}\n{line}{chance.choice(gaps)}," for line in lines)
        text = text if chance.random() < 0.3 else text[:-1]
        whole = f"{{{text}{chance.choice(gaps)}\n{indent}}}"
        return whole if many_lines or "//" in whole else whole.replace("\n", "")

    servers = {name: {"command": "}, //"} for name in "abc"[: chance.randint(0, 3)]}
    content: dict[str, Any] = {"first": {"x": "/*"}, "mcpServers": servers, "last": {}}
    text = spell(content, "")
    changed = parse(put(parse(text), PATH, ENTRY))
    assert changed.value == {**content, "mcpServers": {**servers, "new": ENTRY}}
    assert parse(drop(changed, PATH)).value == content
    for name in servers:
        rest = {key: value for key, value in servers.items() if key != name}
        assert parse(drop(parse(text), ("mcpServers", name))).value == {**content, "mcpServers": rest}


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSONS, max_size=4)


@given(
    OBJECTS,
    OBJECTS,
    st.text(),
    JSONS,
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.booleans(),
    st.sampled_from("\n\r"),
)
def test_any_file_survives(
    others: Any, servers: Any, name: str, value: Any, indent: Any, ascii: bool, line: str
) -> None:
    others = {**others, "mcpServers": {key: value for key, value in servers.items() if key != name}}
    text = json.dumps(others, indent=indent, ensure_ascii=ascii)
    text = text.replace("\n", "\r\n" if line == "\r" else "\n")
    changed = put(parse(text), ("mcpServers", name), value)
    assert parse(changed).value == {**others, "mcpServers": {**others["mcpServers"], name: value}}
    assert [*parse(changed).value] == [*others]
    assert drop(parse(changed), ("mcpServers", name)) == text
