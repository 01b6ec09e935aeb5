"""The headers of 2026-07-28, against the SDK's own reading of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound
from msgspec import Raw

from gateway.protocol import headers

SCALARS = st.one_of(
    st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.none()
)
TOKENS = st.sampled_from(["Region", "region", "X-1", "", "no token", "ü", 5, None])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "boolean", "number", "object", ["string"]]),
            "x-mcp-header": TOKENS,
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "type": st.just("object"),
            "default": st.just({"x-mcp-header": "no"}),
        },
    ),
    max_leaves=8,
)


@given(st.text())
def test_a_value_survives_as_a_header(value: str) -> None:
    encoded = headers.encoded(value)
    assert encoded == inbound.encode_header_value(value)
    assert inbound.decode_header_value(encoded) == value


@given(SCHEMAS)
def test_a_schema_asks_for_the_headers_the_sdk_sees(schema: dict[str, Any]) -> None:
    wanted = headers.mirrored(json.dumps(schema).encode())
    if inbound.find_invalid_x_mcp_header(schema) is not None:
        assert wanted is None
    else:
        assert wanted == {path: "Mcp-Param-" + name for path, name in inbound.x_mcp_header_map(schema).items()}


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(SCALARS, st.dictionaries(st.just("c"), SCALARS))))
def test_arguments_fill_the_headers_as_the_sdk_fills_them(arguments: dict[str, Any]) -> None:
    paths = {("a",): "A", ("b", "c"): "C", ("b",): "B"}
    params = {"name": Raw(b'"t"'), "arguments": Raw(json.dumps(arguments).encode())}
    wanted = {path: "Mcp-Param-" + name for path, name in paths.items()}
    assert headers.parameters(wanted, params) == inbound.mcp_param_headers(paths, arguments)


@pytest.mark.parametrize("method", sorted(inbound.NAME_BEARING_METHODS))
def test_a_request_names_what_its_body_names(method: str) -> None:
    key = inbound.NAME_BEARING_METHODS[method]
    params = {key: Raw(json.dumps("zoë").encode())}
    found = headers.standard("2026-07-28", method, params)
    assert inbound.decode_header_value(found["Mcp-Name"]) == "zoë"
    assert headers.standard("2026-07-28", method, Raw(json.dumps({key: "zoë"}).encode())) == found
    assert found["Mcp-Method"] == method


def test_an_integer_beyond_all_measure_gets_no_header() -> None:
    assert headers.parameters({("n",): "Mcp-Param-N"}, Raw(b'{"arguments":{"n":%b}}' % (b"9" * 5000))) == {}
