from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.document import Document, Fault, Json, KeyPath, Place, blank, dotted, parse, read

SAMPLE = """{
  // who
  "mcpServers": {
    "fs": { "command": "x", "args": ["a", "b",], }, /* the
    only one */
  },
}
"""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(st.text(), values, max_size=5)


def fault(text: str) -> Fault:
    with pytest.raises(Fault) as caught:
        parse(text)
    return caught.value


def spelled(document: Document, path: KeyPath) -> str:
    member = document.find(path)
    assert member is not None
    return document.text[member.value_span.start : member.value_span.end]


def paths(value: Json, path: KeyPath = ()) -> list[tuple[KeyPath, Json]]:
    found: list[tuple[KeyPath, Json]] = [(path, value)] if path else []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        found += paths(inner, (*path, key))
    return found


def test_comments_and_trailing_commas_are_allowed() -> None:
    assert parse(SAMPLE).value == {"mcpServers": {"fs": {"command": "x", "args": ["a", "b"]}}}


def test_what_looks_like_a_comment_inside_a_text_stays() -> None:
    value = {"url": "https://x//y", "glob": "/* ,} */", "quote": 'a"//b', "end": "\\"}
    assert parse(json.dumps(value)[:-1] + ", // really\n}").value == value


def test_a_value_has_its_line_and_column_and_so_has_its_key() -> None:
    document = parse(SAMPLE)
    assert document.place(("mcpServers", "fs", "args", 1)) == Place(4, 43)
    assert document.place(("mcpServers", "fs"), key=True) == Place(4, 5)


def test_what_is_not_written_is_placed_at_the_key_that_would_hold_it() -> None:
    assert parse(SAMPLE).place(("mcpServers", "fs", "env", "X")) == Place(4, 5)
    assert parse(SAMPLE).place(("gateway",)) == Place(1, 1)


def test_lines_after_a_comment_of_several_lines_are_counted_right() -> None:
    assert parse('{ /* 1\n2\n3 */ "a": 1,\n"b": [2,]}').place(("b",)) == Place(4, 6)


@given(objects)
def test_every_span_holds_exactly_its_value(value: dict[str, Any]) -> None:
    document = parse(json.dumps(value, indent=1))
    assert document.value == value
    for path, inner in paths(value):
        assert json.loads(spelled(document, path)) == inner


@given(objects)
def test_blanking_changes_no_strict_json(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert blank(text) == text


@given(st.text(alphabet='{}[]",:/*\\ \n\tab1-.\ufeff'))
def test_any_text_is_a_document_or_a_fault_inside_it(text: str) -> None:
    assert len(blank(text)) == len(text)
    try:
        parse(text)
    except Fault as caught:
        assert 1 <= caught.place.line <= text.count("\n") + 1
        assert caught.place.column <= max(len(line) for line in text.split("\n")) + 1
        assert caught.message


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "comma"),
        ('{"a" 1}', 1, 6, "colon"),
        ('{"a": }', 1, 7, "value"),
        ("{a: 1}", 1, 2, "key"),
        ("{'a': 1}", 1, 2, "single quotes"),
        ('{"a": "x}', 1, 7, "closing quote"),
        ('{"a": "x\n"}', 1, 9, "line"),
        ('{"a": "\\q"}', 1, 8, "backslash"),
        ('{"a": [1, 2', 1, 12, "ends too early"),
        ("{} {}", 1, 4, "ended before"),
        ('{"a": 1} /* x', 1, 10, "comment is not closed"),
        ("[1]", 1, 1, "one JSON object"),
        ('\ufeff{"a" 1}', 1, 6, "colon"),
        ('{\r\n"a" 1}', 2, 5, "colon"),
    ],
)
def test_a_syntax_error_says_where_and_what(text: str, line: int, column: int, words: str) -> None:
    caught = fault(text)
    assert (caught.place, words in caught.message) == (Place(line, column), True), caught


@pytest.mark.parametrize("text", ["", " \r\n", "// nothing yet\n", "\ufeff"])
def test_an_empty_file_is_an_empty_document(text: str) -> None:
    assert parse(text).value == {}


def test_a_byte_order_mark_and_windows_line_ends_change_no_place() -> None:
    document = parse('\ufeff{"a": 1,\r\n"b": 2}')
    assert document.value == {"a": 1, "b": 2}
    assert (document.place(("a",)), document.place(("b",))) == (Place(1, 7), Place(2, 6))
    assert spelled(document, ("b",)) == "2"


def test_of_duplicate_keys_the_last_counts_and_both_are_known() -> None:
    document = parse('{"s": {"a": 1,\n"b": {"x": 1, "x": 2}, "a": 3}}')
    assert document.value == {"s": {"a": 3, "b": {"x": 2}}}
    assert spelled(document, ("s", "a")) == "3"
    assert [*document.duplicates(("s",))] == [(("s", "b", "x"), Place(2, 7)), (("s", "a"), Place(1, 8))]


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 200_000, '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"])
def test_nesting_without_end_is_a_fault(text: str) -> None:
    assert "nested too deeply" in fault(text).message


def test_a_number_too_long_for_python_spoils_nothing() -> None:
    assert parse('{"n": ' + "9" * 10_000 + ', "a": 1}').value["a"] == 1


def test_hostile_texts_of_megabytes_are_faults() -> None:
    for text in ('{"a":"' + '\\"' * 1_000_000, "{" + "/* " * 700_000, "{" + ", " * 700_000, "{/" + "*" * 2_000_000):
        assert fault(text).place.line == 1


def test_no_file_is_no_document_and_no_fault(tmp_path: Path) -> None:
    assert read(tmp_path / "none.json") is None


def test_what_is_no_readable_file_is_a_fault(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, words in (("", "directory"), ("fifo", "not a regular file"), ("loop", "cannot be read")):
        with pytest.raises(Fault, match=words):
            read(tmp_path / name)


def test_what_is_not_utf_8_is_a_fault_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "latin.json"
    file.write_bytes(b'{"a": 1,\n "\xc3\xa4\xe4": 2}')
    with pytest.raises(Fault) as caught:
        read(file)
    assert (caught.value.place, caught.value.message) == (Place(2, 4), "the file is not UTF-8")


def test_a_path_is_written_as_people_would() -> None:
    assert dotted(("mcpServers", "brave-search", "args", 2)) == "mcpServers.brave-search.args[2]"
    assert dotted(("projects", "/a/b", "mcpServers")) == 'projects["/a/b"].mcpServers'
