"""The HTTP headers of 2026-07-28 that repeat what a request's body says. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final, cast

from msgspec import Raw

from gateway.protocol import methods
from gateway.protocol.frames import Malformed, open_object, text

VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
PARAM: Final = "Mcp-Param-"
SESSION: Final = "Mcp-Session-Id"
LAST_EVENT: Final = "Last-Event-ID"

NAMED: Final = {methods.TOOLS_CALL: "name", methods.PROMPTS_GET: "name", methods.RESOURCES_READ: "uri"}
"""Which parameter of a method `Mcp-Name` repeats."""
ANNOTATION: Final = "x-mcp-header"

Path = tuple[str, ...]
Mirrored = Mapping[Path, str]
"""Where in the arguments each header's value is found."""

_VERSION, _METHOD, _NAME = (name.lower().encode() for name in (VERSION, METHOD, NAME))
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TYPES = frozenset(("string", "integer", "boolean"))
_ONE = frozenset(
    ("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties",
     "not", "if", "then", "else", "contentSchema")
)  # fmt: skip
_SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))


def encoded(value: str) -> str:
    """A value as a header can carry it: plain where it survives, else in base64."""
    if _PLAIN.fullmatch(value) and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def mirrored(input_schema: bytes | Raw) -> dict[Path, str] | None:
    """The headers a tool's schema asks for, by the path of the argument; `None` if it asks wrongly.

    A tool that asks wrongly is to be left out by clients, and gets no headers.
    """
    if b"x-mcp-header" not in bytes(input_schema):
        return {}
    try:
        root: object = json.loads(bytes(input_schema))
    except ValueError:
        return None
    found: dict[Path, str] = {}
    seen: set[str] = set()
    for path, schema in _positions(root):
        if ANNOTATION not in schema:
            continue
        token, kind = schema[ANNOTATION], schema.get("type")
        if not path or not isinstance(token, str) or not _TOKEN.fullmatch(token):
            return None
        if not isinstance(kind, str) or kind not in _TYPES or token.lower() in seen:
            return None
        seen.add(token.lower())
        found[path] = PARAM + token
    return found


def standard(version: str, method: str, params: Mapping[str, Raw] | Raw) -> dict[str, str]:
    """The headers of every request: its version, its method, and the name it bears."""
    headers = {VERSION: version, METHOD: encoded(method)}
    key = NAMED.get(method)
    if key is not None:
        name = text(_opened(params).get(key))
        if name is not None:
            headers[NAME] = _encodable(name)
    return headers


def parameters(wanted: Mirrored, params: Mapping[str, Raw] | Raw) -> dict[str, str]:
    """The `Mcp-Param-*` headers of one call: a value that is absent, null or no scalar has none."""
    headers: dict[str, str] = {}
    if wanted:
        arguments = _opened(params).get("arguments", Raw())
        for path, name in wanted.items():
            value = _at(arguments, path)
            if value is not None:
                headers[name] = _encodable(value)
    return headers


def mismatch(
    sent: Mapping[bytes, bytes], version: str, method: str, params: Mapping[str, Raw], wanted: Mirrored
) -> str | None:
    """What the headers of a request say otherwise than its body, in words; they come with names in lower case."""
    if sent.get(_VERSION) != version.encode():
        return f"{VERSION} does not match the version in the body"
    if decoded(sent.get(_METHOD)) != method:
        return f"{METHOD} does not match the method in the body"
    key = NAMED.get(method)
    name = text(params.get(key)) if key is not None else None
    if name is not None and decoded(sent.get(_NAME)) != name:
        return f"{NAME} does not match {key} in the body"
    if not wanted:
        return None
    arguments = params.get("arguments", Raw())
    for path, header in wanted.items():
        value, given = _at(arguments, path), sent.get(header.lower().encode())
        if (value is None) != (given is None):
            return f"{header} and the argument {'.'.join(path)} must be given together"
        if value is not None and not _same(decoded(given), value):
            return f"{header} does not match the argument {'.'.join(path)}"
    return None


def decoded(sent: bytes | None) -> str | None:
    """What a header carries; `None` if it claims to be base64 and is not."""
    if sent is None:
        return None
    value = sent.decode("latin-1")
    if not value.startswith("=?") or not _WRAPPED.fullmatch(value):
        return value
    inner = value.removeprefix("=?base64?").removesuffix("?=")
    try:
        whole = base64.b64decode(inner, validate=True)
        return whole.decode() if base64.b64encode(whole).decode() == inner else None
    except ValueError:
        return None


def _same(given: str | None, value: str) -> bool:
    if given is None or given == value:
        return given == value
    # 42 and 42.0 are one integer.
    return bool(_DECIMAL.fullmatch(given) and _DECIMAL.fullmatch(value)) and Decimal(given) == Decimal(value)


def _encodable(value: str) -> str:
    try:
        return encoded(value)
    except UnicodeEncodeError:  # half a surrogate pair has no bytes
        return encoded(value.encode(errors="replace").decode())


def _opened(params: Mapping[str, Raw] | Raw) -> Mapping[str, Raw]:
    if not isinstance(params, Raw):
        return params
    try:
        return open_object(params)
    except Malformed:
        return {}


def _at(raw: Raw, path: Path) -> str | None:
    for key in path:
        try:
            raw = open_object(raw).get(key, Raw())
        except Malformed:
            return None
    if not raw:
        return None
    try:
        value: object = json.loads(bytes(raw))
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, str | int | float) else None
    except ValueError:  # an integer of thousands of digits
        return None


def _positions(root: object) -> Iterator[tuple[Path | None, dict[str, object]]]:
    """Every schema in a schema, with its path where only `properties` lead to it."""
    stack: list[tuple[Path | None, object]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        schema = cast(dict[str, object], node)
        yield path, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                for name, inner in cast(dict[str, object], value).items():
                    stack.append(((*path, name) if path is not None else None, inner))
            elif keyword in _ONE:
                stack.append((None, value))
            elif keyword in _SEVERAL and isinstance(value, list):
                stack.extend((None, inner) for inner in cast(list[object], value))
            elif keyword in _NAMED and isinstance(value, dict):
                stack.extend((None, inner) for inner in cast(dict[str, object], value).values())
