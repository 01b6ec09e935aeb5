"""Find the keys of a configuration that mean nothing, and what they may be misspellings of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple, cast, get_args, get_origin

from pydantic import BaseModel

from configs.document import Json, KeyPath
from configs.entries import ENTRY_KEYS, HEALTH_KEYS
from configs.section import OTHER_VARIABLES
from configs.settings import PREFIX, FilterPart, Section, is_ours, normal

NEARLY = 0.75
"""How alike a variable must be to a setting: it may be somebody's own."""
_CAMEL = {"maxframe": "maxFrame", "bodylimit": "bodyLimit", "readonly": "readOnly"}


class UnknownKey(NamedTuple):
    """A key nobody reads, below the section or entry it stands in."""

    path: KeyPath
    nearest: str | None
    """The known key it resembles."""


def unknown_gateway_keys(section: Mapping[str, Json]) -> tuple[UnknownKey, ...]:
    """Every unknown key of a `gateway` section."""
    return tuple(_below(section, Section, ()))


def unknown_server_keys(entry: Mapping[str, Json]) -> tuple[UnknownKey, ...]:
    """Every unknown key of one entry of `mcpServers`."""
    found = [*_unknown(entry, ENTRY_KEYS, ())]
    tools, health = entry.get("tools"), entry.get("health")
    if isinstance(tools, dict):
        found += _unknown(tools, FilterPart.model_fields, ("tools",))
    if isinstance(health, dict):
        found += _unknown(health, HEALTH_KEYS, ("health",))
    return tuple(found)


def unknown_variables(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Variables that are nearly settings, each with the one it resembles; others may be anybody's."""
    for name in names:
        if not is_ours(name) or name in OTHER_VARIABLES:
            continue
        nested: Json = ""
        for key in reversed(normal(name).removeprefix(PREFIX.lower()).split("__")):
            nested = {_CAMEL.get(key, key): nested}
        for path, nearest in unknown_gateway_keys(cast("dict[str, Json]", nested)):
            if nearest and get_close_matches(str(path[-1]), [nearest], 1, NEARLY):
                yield name, PREFIX + "__".join(map(str, (*path[:-1], nearest))).upper()


def _unknown(values: Mapping[str, Json], known: Iterable[str], path: KeyPath) -> Iterator[UnknownKey]:
    names = tuple(known)
    for key in values:
        if key not in names:
            yield UnknownKey((*path, key), next(iter(get_close_matches(key, names, 1)), None))


def _model(kinds: Iterable[object]) -> object:
    """The model, or the map of models, among the parts of an annotation."""
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
        if get_args(kind) and (found := _model(get_args(kind))):
            return cast("object", kind) if get_origin(kind) is dict else found
    return None


def _below(values: Mapping[str, Json], kind: object, path: KeyPath) -> Iterator[UnknownKey]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _unknown(values, kind.model_fields, path)
        kinds = {name: _model((field.annotation,)) for name, field in kind.model_fields.items()}
    else:
        # A map by name, like `profiles`: its keys are the user's, its values are of one kind.
        kinds = dict.fromkeys(values, _model(get_args(kind)))
    for key, value in values.items():
        if isinstance(value, dict) and kinds.get(key) is not None:
            yield from _below(value, kinds[key], (*path, key))
