"""Translate one entry key by key: each tool has a table of what its keys mean here. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from configs.checks import LONGEST_TIMEOUT, kind
from configs.document import Json
from configs.entries import ENTRY_KEYS, TYPES, faults
from configs.imports.reading import Found, Values, Where
from configs.imports.texts import Around, Convert, Input, plain

SILENT = frozenset({"$schema", "alwaysAllow", "autoApprove", "description", "gallery", "name", "trust", "version"})
"""Keys that say nothing about how a server is reached or what of it is shown."""


class Wrong(Exception):
    """A value that is not what its tool allows there."""


class Draft:
    """The entry of ours in the making."""

    def __init__(self, around: Around, convert: Convert) -> None:
        self.entry: dict[str, Json] = {}
        self.notes: list[str] = []
        self._around = around
        self._convert = convert

    def text(self, value: Json) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Wrong(f"must be text, not {kind(value)}")
        return self._convert(str(value), self._around, self.notes)

    def texts(self, value: Json) -> list[Json]:
        if not isinstance(value, list):
            raise Wrong(f"must be a list, not {kind(value)}")
        return [self.text(item) for item in value]

    def filter(self, key: str, value: Json) -> None:
        tools = self.entry.setdefault("tools", {})
        assert isinstance(tools, dict)
        tools[key] = self.texts(value)

    def header(self, name: str, value: str) -> None:
        headers = self.entry.setdefault("headers", {})
        assert isinstance(headers, dict)
        headers[name] = value


Key: TypeAlias = Callable[[Draft, Json], None]
"""Takes the value of one key into a draft."""


def _named(key: str) -> Key:
    def take(draft: Draft, value: Json) -> None:
        draft.entry[key] = draft.text(value)

    return take


def address(transport: str | None, *, always: bool = False) -> Key:
    """A URL that is spoken to in one way, unless the entry names another; or `always`, whatever else it says."""

    def take(draft: Draft, value: Json) -> None:
        draft.entry["url"] = draft.text(value)
        if transport and (always or "type" not in draft.entry):
            draft.entry["type"] = transport

    return take


def _args(draft: Draft, value: Json) -> None:
    draft.entry["args"] = draft.texts(value)


def _map(key: str) -> Key:
    def take(draft: Draft, value: Json) -> None:
        if not isinstance(value, dict):
            raise Wrong(f"must be an object, not {kind(value)}")
        into = draft.entry.setdefault(key, {})
        assert isinstance(into, dict)
        into.update({name: draft.text(item) for name, item in value.items() if item is not None})

    return take


def transport(draft: Draft, value: Json) -> None:
    draft.entry["type"] = draft.text(value)


def flag(*, inverted: bool = False) -> Key:
    def take(draft: Draft, value: Json) -> None:
        if not isinstance(value, bool):
            raise Wrong(f"must be true or false, not {kind(value)}")
        if value is inverted:
            draft.entry["enabled"] = False

    return take


def seconds(per_second: int = 1) -> Key:
    def take(draft: Draft, value: Json) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise Wrong("must be a number above 0")
        limit = min(value / per_second, LONGEST_TIMEOUT)
        draft.entry["timeout"] = int(limit) if limit == int(limit) else limit

    return take


def allow(draft: Draft, value: Json) -> None:
    draft.filter("allow", value)


def deny(draft: Draft, value: Json) -> None:
    draft.filter("deny", value)


def bearer(draft: Draft, value: Json) -> None:
    """The name of the variable that has the token."""
    draft.header("Authorization", f"Bearer ${{{draft.text(value)}}}")


def header_variables(draft: Draft, value: Json) -> None:
    """Headers whose values are names of variables."""
    for name, variable in (value if isinstance(value, dict) else {}).items():
        draft.header(name, f"${{{draft.text(variable)}}}")


def passed_variables(draft: Draft, value: Json) -> None:
    """Names of variables handed on to the server where they are set."""
    into = draft.entry.setdefault("env", {})
    assert isinstance(into, dict)
    for item in value if isinstance(value, list) else []:
        name = item.get("name") if isinstance(item, dict) else item
        if isinstance(name, str):
            into.setdefault(name, f"${{{name}:-}}")


def variable_file(draft: Draft, value: Json) -> None:
    draft.notes.append(f"its variables are in the file {value}, which is not read: put them under env")


STANDARD: Mapping[str, Key] = {
    "type": transport,
    "command": _named("command"),
    "args": _args,
    "env": _map("env"),
    "cwd": _named("cwd"),
    "url": address(None),
    "headers": _map("headers"),
}
"""The keys that nearly all tools share."""
HEADERS = _map("headers")


class Dialect(NamedTuple):
    """How one tool writes its entries."""

    keys: Mapping[str, Key] = STANDARD
    convert: Convert = plain


def translate(
    servers: Values, dialect: Dialect, where: Where, inputs: Mapping[str, Input] | None = None
) -> list[Found]:
    """All servers of a section."""
    return [_one(name, written, dialect, where, inputs or {}) for name, written in servers.items()]


def _one(name: str, written: Json, dialect: Dialect, where: Where, inputs: Mapping[str, Input]) -> Found:
    if not isinstance(written, dict):
        return Found(name, {}, refusal=f"its entry is {kind(written)}, no object")
    here = written.get("cwd") in (None, ".", "${workspaceFolder}")
    draft = Draft(Around("." if here else str(where.project), where.project.name, inputs), dialect.convert)
    for key in sorted(written.keys() & dialect.keys.keys(), key=tuple(dialect.keys).index):
        try:
            dialect.keys[key](draft, written[key])
        except Wrong as wrong:
            return Found(name, {}, refusal=f"{key} {wrong}")
    left = sorted(written.keys() - dialect.keys.keys() - SILENT)
    if left:
        draft.notes.append(f"not taken: {', '.join(left)}")
    entry = _tidy(draft.entry)
    refusal = next(iter(faults(name, entry)), "")
    return Found(name, entry, tuple(draft.notes), refusal)


def _tidy(entry: dict[str, Json]) -> dict[str, Json]:
    """In our order, without what is empty, and with our names of the transports."""
    named = entry.get("type")
    if isinstance(named, str) and named in TYPES:
        entry["type"] = TYPES[named]
    return {key: entry[key] for key in ENTRY_KEYS if key in entry and entry[key] not in ({}, [])}
