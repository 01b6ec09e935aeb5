"""Frames: what is one, what is not, and what survives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway.protocol import errors, frames
from gateway.protocol.frames import Frame, Malformed, decode, id_key, number, open_array, open_object, quote, seal, text

SURROGATES = st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), SURROGATES, st.sampled_from('\ue000\uf8ff\\"/u')))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def one(data: bytes) -> Frame:
    frame = decode(data)
    assert isinstance(frame, Frame)
    return frame


def refused(data: bytes) -> tuple[int, bytes]:
    with pytest.raises(Malformed) as caught:
        decode(data)
    return caught.value.code, caught.value.id


@pytest.mark.parametrize(
    ("data", "code", "id"),
    [
        (b"", -32700, b"null"),
        (b"{", -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, b"null"),
        (b'{"jsonrpc":5,"id":1', -32700, b"null"),
        (b'"abc', -32700, b"null"),
        (b"nul", -32700, b"null"),
        (b"1,2", -32700, b"null"),
        (b"\x00", -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\x00', -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\x00"}}', -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xed\xa0\x80"}}', -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {"x":1}', -32700, b"null"),
        (b"[" * 1_000_000, -32700, b"null"),
        (b'{"a":' * 200_000, -32700, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * 5000 + b"]" * 5000 + b"}", -32700, b"null"),
        (b"1", -32600, b"null"),
        (b'"text"', -32600, b"null"),
        (b"null", -32600, b"null"),
        (b"[]", -32600, b"null"),
        (b"{}", -32600, b"null"),
        (b'{"jsonrpc":"2.0"}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":1}', -32600, b"1"),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, b"1"),
        (b'{"id":"a","method":"ping"}', -32600, b'"a"'),
        (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600, b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, b"1"),
        (b'{"jsonrpc":"2.0","id":[1],"method":5}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","result":{}}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', -32600, b"null"),
        # Under an id of ours, an error would look like the answer to a request of theirs.
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","result":{},"error":null}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","error":null}', -32600, b"null"),
        (b'{"jsonrpc":"1.0","id":1,"result":{}}', -32600, b"null"),
        (b'{"jsonrpc":5,"id":1,"result":{}}', -32600, b"null"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', -32600, b"null"),
    ],
)
def test_what_is_no_frame_is_refused_by_its_code(data: bytes, code: int, id: bytes) -> None:
    assert refused(data) == (code, id)


@pytest.mark.parametrize("id", [b"0", b"1", b"-1", b"1.5", b"1e3", b'"1"', b'""', b'"\\u0041"', b"9" * 70])
def test_an_id_keeps_its_type_and_spelling(id: bytes) -> None:
    frame = one(b'{"jsonrpc":"2.0","id":' + id + b',"method":"ping"}')
    assert frame.is_request
    assert bytes(frame.id) == id


def test_two_spellings_of_an_id_are_one_and_two_types_are_two() -> None:
    assert id_key(b'"\\u0041"') == id_key(b'"A"')
    assert id_key(b'"\\ud83d"') == id_key(b'"\\uD83D"')
    assert id_key(b"1") != id_key(b'"1"')


def test_a_null_id_is_right_only_in_an_error() -> None:
    frame = one(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}')
    assert frame.method is None
    assert not frame.is_request


@pytest.mark.parametrize(
    ("members", "result", "error"),
    [
        (b'"id":1,"result":{},"error":null', b"{}", b""),
        (b'"id":1,"error":null,"result":null', b"null", b""),
        (b'"id":1,"result":null,"error":{"code":1}', b"", b'{"code":1}'),
        (b'"id":null,"result":null,"error":{"code":1}', b"", b'{"code":1}'),
    ],
)
def test_a_member_that_is_null_beside_the_other_is_as_good_as_absent(
    members: bytes, result: bytes, error: bytes
) -> None:
    frame = one(b'{"jsonrpc":"2.0",%b}' % members)
    assert (bytes(frame.result), bytes(frame.error)) == (result, error)


@pytest.mark.parametrize(
    ("id", "value"),
    [
        (b"7", 7),
        (b"7.0", 7),
        (b'"7"', 7),
        (b"7.5", 0),
        (b'"7.0"', 0),
        (b"-7", -7),
        (b'"seven"', 0),
        (b"null", 0),
        (b"", 0),
        (b"7" * 5000, 0),
    ],
)
def test_a_number_of_ours_is_known_however_it_comes_back(id: bytes, value: int) -> None:
    assert number(id) == value


def test_notifications_are_told_apart() -> None:
    frame = one(b'{"jsonrpc":"2.0","method":"notifications/x"}')
    assert frame.is_notification
    assert not frame.is_request


def test_a_batch_is_taken_part_by_part() -> None:
    parts = decode(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}, 1, [], {"jsonrpc":"2.0","method":"x"}]')
    assert isinstance(parts, list)
    assert [part.code if isinstance(part, Malformed) else part.method for part in parts] == [
        "ping",
        -32600,
        -32600,
        "x",
    ]


def test_white_space_between_tokens_never_becomes_a_line() -> None:
    frame = one(b'{"jsonrpc":"2.0",\r\n"id":1,"method":"x","params":{"a":\r1,\n"b":[\r\n2]}}')
    written = frames.request(frame.id, "x", frame.params)
    assert b"\r" not in written
    assert b"\n" not in written
    assert json.loads(written)["params"] == {"a": 1, "b": [2]}


@pytest.mark.parametrize("id", [b"0", b"1", b"8", b"83", b'"u"', b'"e0"', b'"\\ud83d"'])
def test_an_id_is_not_mistaken_for_a_piece_of_half_a_character(id: bytes) -> None:
    frame = one(b'{"jsonrpc":"2.0","params":{"x":"\\ud83d","y":"\\uDC01\\ue000"},"method":"m","id":' + id + b"}")
    assert bytes(frame.id) == id
    assert bytes(frame.params) == b'{"x":"\\ud83d","y":"\\uDC01\\ue000"}'


def test_a_method_with_half_a_character_is_spelled_as_it_was() -> None:
    frame = one(b'{"jsonrpc":"2.0","id":1,"method":"x\\ud83d"}')
    assert frames.request(frame.id, frame.method or "") == b'{"jsonrpc":"2.0","id":1,"method":"x\\ud83d"}'


def test_all_spellings_of_half_characters_survive_together() -> None:
    halves = b"".join(b"\\u%04x " % code for code in range(0xD800, 0xE000))
    payload = b'{"a":"' + halves + b'","b":"\\\\ud800 \xee\x80\x80 \\uE001 \\ud83d\\ude00"}'
    frame = one(b'{"jsonrpc":"2.0","id":1,"result":' + payload + b"}")
    assert bytes(frame.result) == payload
    assert seal(open_object(frame.result)) == payload


@pytest.mark.parametrize("depth", range(900, 1010))
def test_what_was_taken_can_be_opened_or_is_refused(depth: int) -> None:
    """The limit of nesting depends on the depth of the stack: no opening may fail otherwise than by `Malformed`."""
    data = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * depth + b"]" * depth + b"}}"

    def deeper(levels: int, raw: Raw) -> object:
        return open_object(raw) if not levels else deeper(levels - 1, raw)

    try:
        frame = one(data)
        deeper(20, frame.params)
    except Malformed as malformed:
        assert malformed.code == -32700


@given(VALUES, st.booleans())
def test_any_json_survives_as_payload(value: Any, ascii: bool) -> None:
    payload = json.dumps(value, ensure_ascii=True).encode()
    if ascii is False:
        spelled = json.dumps(value, ensure_ascii=False)
        payload = spelled.encode("utf-8") if not _has_half(spelled) else payload
    frame = one(b'{"jsonrpc":"2.0","id":0,"result":%b}' % payload)
    assert bytes(frame.result) == payload
    assert frames.result(frame.id, frame.result) == b'{"jsonrpc":"2.0","id":0,"result":%b}' % payload


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_an_opened_object_is_sealed_with_its_values_as_they_were(value: dict[str, Any]) -> None:
    payload = json.dumps(value).encode()
    opened = open_object(payload)
    assert list(opened) == list(value)
    assert [bytes(raw) for raw in opened.values()] == [json.dumps(member).encode() for member in value.values()]
    assert json.loads(seal(opened)) == value


@given(st.lists(VALUES, max_size=5))
def test_an_opened_array_holds_its_items_as_they_were(value: list[Any]) -> None:
    assert [bytes(raw) for raw in open_array(json.dumps(value).encode())] == [json.dumps(v).encode() for v in value]


@given(TEXT)
def test_any_string_is_read_and_quoted(value: str) -> None:
    assert text(json.dumps(value).encode()) == value
    assert json.loads(bytes(quote(value))) == value
    assert text(quote(value)) == value


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        decode(data)
    except Malformed as malformed:
        assert malformed.code in (-32700, -32600)


def _has_half(value: str) -> bool:
    return any(0xD800 <= ord(char) <= 0xDFFF for char in value)


@pytest.mark.parametrize("opening", [open_object, open_array])
@pytest.mark.parametrize("spelled", [b'"\\ud83d"', b'"a\\ud83dz"', b'"\\ude00"'])
def test_half_a_surrogate_pair_alone_is_neither_an_object_nor_an_array(
    opening: Callable[[bytes], object], spelled: bytes
) -> None:
    with pytest.raises(Malformed) as caught:
        opening(spelled)
    assert caught.value.code == errors.INVALID_PARAMS
