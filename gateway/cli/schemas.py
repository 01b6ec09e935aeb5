"""Read a tool's JSON Schema as people do: what a parameter may be, in a word or two. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]
DEEPEST = 16
"""References to follow before a schema counts as one that only refers to itself."""
MOST = 64
"""Alternatives to look at."""
SHOWN = 8
"""Members of an enumeration to show."""


def resolve(schema: object, root: Schema, depth: int = 0) -> Schema:
    """The schema behind a local reference; what cannot be resolved allows anything."""
    if not isinstance(schema, dict):
        return {}
    opened = cast("Schema", schema)
    reference: object = opened.get("$ref")
    if not isinstance(reference, str):
        return opened
    if depth >= DEEPEST or not reference.startswith("#"):
        return {}
    found: Any = root
    for part in filter(None, reference[1:].split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = cast("Schema", found).get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(key)]
        else:
            return {}
    rest = {key: value for key, value in opened.items() if key != "$ref"}
    return {**resolve(found, root, depth + 1), **rest}


def variants(schema: object, root: Schema) -> list[Schema]:
    """The alternatives of a schema, each without any of its own; of very many the first."""
    return list(islice(_variants(schema, root, 0), MOST))


def _variants(schema: object, root: Schema, depth: int) -> Iterator[Schema]:
    opened = resolve(schema, root)
    alternatives: object = opened.get("anyOf") or opened.get("oneOf")
    kinds: object = opened.get("type")
    if depth >= DEEPEST:
        yield {}
    elif isinstance(alternatives, list):
        for one in cast("list[object]", alternatives):
            yield from _variants(one, root, depth + 1)
    elif isinstance(opened.get("allOf"), list):
        merged: Schema = {key: value for key, value in opened.items() if key != "allOf"}
        for one in cast("list[object]", opened["allOf"])[:MOST]:
            # Each must be looked at, so a schema made of itself would take for ever: two levels are enough.
            for part in islice(_variants(one, root, depth + DEEPEST // 2), 1):
                merged = {**part, **merged}
        yield merged
    elif isinstance(kinds, list):
        yield from ({**opened, "type": kind} for kind in cast("list[object]", kinds))
    else:
        yield opened


def parameters(schema: Schema) -> dict[str, Schema]:
    """Name to schema, references resolved."""
    found: object = resolve(schema, schema).get("properties")
    return {key: resolve(one, schema) for key, one in cast("Schema", found).items()} if isinstance(found, dict) else {}


def required(schema: Schema) -> frozenset[str]:
    names: object = resolve(schema, schema).get("required")
    return frozenset(map(str, cast("list[object]", names))) if isinstance(names, list) else frozenset()


def kind(schema: object, root: Schema, depth: int = 0) -> str:
    """What a value may be: `string`, `"open" | "closed"`, `number[]`."""
    names = dict.fromkeys(_name(one, root, depth) for one in variants(schema, root))
    return "any" if "any" in names else " | ".join(names)


def signature(name: str, schema: Schema, output: Schema | None = None) -> str:
    """A tool as a function: `files:move(source: string, force?: boolean = false) -> {moved: boolean}`."""
    needed = required(schema)
    words: list[str] = []
    for key, one in sorted(parameters(schema).items(), key=lambda item: item[0] not in needed):
        default = f" = {_json(one['default'])}" if one.get("default") is not None else ""
        words.append(f"{key}{'' if key in needed else '?'}: {kind(one, schema)}{default}")
    answer = f" -> {kind(output, output)}" if output else ""
    return f"{name}({', '.join(words)}){answer}"


def _name(schema: Schema, root: Schema, depth: int) -> str:
    if "const" in schema:
        return _json(schema["const"])
    if isinstance(schema.get("enum"), list):
        members = [_json(member) for member in cast("list[object]", schema["enum"])]
        return " | ".join([*members[:SHOWN], "…"] if len(members) > SHOWN else members)
    found: object = schema.get("type")
    if found == "array":
        item = kind(schema.get("items"), root, depth + 1) if depth < 2 else "any"
        return f"({item})[]" if "|" in item else f"{item}[]"
    inside: object = schema.get("properties")
    if found == "object" and depth < 2 and isinstance(inside, dict) and inside:
        needed = required(schema)
        members = [
            f"{key}{'' if key in needed else '?'}: {kind(one, root, depth + 1)}"
            for key, one in cast("Schema", inside).items()
        ]
        return f"{{{', '.join(members)}}}"
    return str(found) if isinstance(found, str) else "any"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
