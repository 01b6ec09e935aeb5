"""Turn the words after a tool's name into its arguments, as its schema says. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from gateway.cli.nearest import did_you_mean
from gateway.cli.schemas import Schema, kind, parameters, variants
from gateway.cli.usage import Usage

_NOT_JSON: Any = object()


def parse_arguments(words: Sequence[str], schema: Schema) -> str:
    """One JSON object as it stands, or `key=value` pairs read as the schema says; JSON text either way.

    Raises:
        Usage: neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            _loads(words[0])
        except (ValueError, RecursionError) as error:
            raise Usage(f"the arguments are not JSON: {error}") from error
        return words[0]
    given: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise Usage(f"{word!r} is neither a JSON object nor key=value")
        given.setdefault(key, []).append(value)
    known = parameters(schema)
    return json.dumps({key: coerce(key, values, known.get(key), schema) for key, values in given.items()})


def unknown_parameters(words: Sequence[str], schema: Schema) -> list[str]:
    """A sentence for each key the schema does not have; the server may still take it."""
    known = parameters(schema)
    if not known or (len(words) == 1 and words[0].lstrip().startswith("{")):
        return []
    otherwise = f"It has: {', '.join(known)}."
    keys = dict.fromkeys(word.partition("=")[0] for word in words)
    return [f"It has no parameter {key!r}. {did_you_mean(key, known, otherwise)}" for key in keys if key not in known]


def coerce(key: str, values: Sequence[str], schema: object, root: Schema) -> Any:
    """The value as its schema wants it; where that says nothing, JSON if it parses, else text.

    A key that is given several times is a list.

    Raises:
        Usage: it cannot be read so.
    """
    choices = variants(schema, root)
    lists = [one for one in choices if one.get("type") == "array"]
    if len(values) > 1:
        if not lists and not any(_anything(one) for one in choices):
            raise Usage(f"{key} is given {len(values)} times, but it is no list")
        items: object = lists[0].get("items") if lists else {}
        return [coerce(key, [value], items, root) for value in values]
    value = values[0]
    found = _read(value, choices)
    if found is not _NOT_JSON:
        return found
    if lists:
        # One file is a list of files too.
        return [coerce(key, [value], lists[0].get("items"), root)]
    raise Usage(f"{key} must be {kind(schema, root)}, not {value!r}")


def _read(value: str, choices: Sequence[Schema]) -> Any:
    """The value as one of the alternatives, the more particular first; `_NOT_JSON` if none takes it."""
    for member in (member for one in choices for member in _members(one)):
        if member == value or (not isinstance(member, str) and json.dumps(member) == value):
            return member
    parsed = _parsed(value, choices)
    if parsed is not _NOT_JSON:
        for one in choices:
            if one.get("type") != "string" and not _anything(one) and _fits(parsed, one):
                return int(parsed) if isinstance(parsed, float) and one.get("type") == "integer" else parsed
    if any(one.get("type") == "string" for one in choices):
        return value
    if any(_anything(one) for one in choices):
        return value if parsed is _NOT_JSON else parsed
    return _NOT_JSON


def _parsed(value: str, choices: Sequence[Schema]) -> Any:
    if value.lower() in ("true", "false") and any(one.get("type") == "boolean" for one in choices):
        return value.lower() == "true"
    try:
        return _loads(value, _finite)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _loads(text: str, number: Callable[[str], float] = float) -> Any:
    return json.loads(text, parse_float=number, parse_constant=_no_number)


def _no_number(name: str) -> Any:
    """Python reads NaN and its like where JSON has no such thing."""
    raise ValueError(f"{name} is no number in JSON")


def _finite(digits: str) -> float:
    found = float(digits)
    return found if math.isfinite(found) else _no_number(digits)


def _members(schema: Schema) -> list[object]:
    if "const" in schema:
        return [schema["const"]]
    return cast("list[object]", schema["enum"]) if isinstance(schema.get("enum"), list) else []


def _anything(schema: Schema) -> bool:
    return not isinstance(schema.get("type"), str)


def _fits(value: object, schema: Schema) -> bool:
    match schema.get("type"):
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return False
