"""Decide what an import would do: what is new, what is there already, what stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from configs.document import Json
from configs.entries import TYPES
from configs.imports.reading import Found
from configs.imports.sources import Reading, Source
from configs.store import Standing

State = Literal["new", "same", "clash", "refused"]
OURSELVES = "kimi-gateway"


class Target(NamedTuple):
    """The file that a source's servers go into."""

    file: Path
    scope: Literal["global", "project"]


class Row(NamedTuple):
    """One server of one source, and what is to become of it."""

    found: Found
    source: Source
    target: Target
    state: State
    reason: str = ""


def plan(
    readings: Iterable[Reading],
    standing: Mapping[str, tuple[Standing, ...]],
    target: Callable[[Source], Target],
    reserved: Iterable[str] = (),
) -> list[Row]:
    """A row for each server found, in the order found; the first of two that clash is taken."""
    rows: list[Row] = []
    for reading in readings:
        for found in reading.found:
            into = target(reading.source)
            before = [row for row in rows if row.found.name == found.name and row.state == "new"]
            rows.append(Row(found, reading.source, into, *_judge(found, into, before, standing, reserved)))
    return rows


def is_gateway(entry: Mapping[str, Json]) -> bool:
    """Whether an entry leads back to this gateway."""
    args = entry.get("args")
    words = (entry.get("command"), *(args if isinstance(args, list) else ()), None)
    for word, after in pairwise(words):
        named = isinstance(word, str) and PurePath(word).name == OURSELVES
        if named and (word is words[0] or after in ("serve", "kimi")):
            return True
    try:
        parts = urlsplit(str(entry.get("url", "")))
        local = parts.hostname in ("127.0.0.1", "localhost", "::1")
        return local and parts.port == 8765 and parts.path.rstrip("/") == "/mcp"
    except ValueError:
        return False


def meaning(entry: Json) -> Json:
    """An entry without what only differs in writing."""
    if not isinstance(entry, dict):
        return entry
    kind = entry.get("type")
    named = TYPES.get(kind, kind) if isinstance(kind, str) else kind
    plain: dict[str, Json] = {key: value for key, value in entry.items() if value not in ({}, [])}
    plain.pop("type", None)
    if plain.get("enabled") is True:
        del plain["enabled"]
    return {**plain, "type": named or ("stdio" if "command" in entry else "auto")}


def _judge(
    found: Found,
    into: Target,
    before: list[Row],
    standing: Mapping[str, tuple[Standing, ...]],
    reserved: Iterable[str],
) -> tuple[State, str]:
    if found.refusal:
        return "refused", found.refusal
    if found.name in reserved:
        return "refused", "this name belongs to the built-in server"
    if is_gateway(found.entry):
        return "refused", "this is the gateway itself"
    there = standing.get(found.name, ())
    for one in there:
        if meaning(one.value) == meaning(found.entry):
            return "same", f"in {one.file}"
    for row in before:
        if meaning(row.found.entry) == meaning(found.entry):
            return "same", f"from {row.source.file}"
    in_the_way = [one.file for one in there if one.scope == into.scope]
    in_the_way += [row.source.file for row in before if row.target == into]
    return ("clash", f"another {found.name} is in {in_the_way[0]}") if in_the_way else ("new", "")
