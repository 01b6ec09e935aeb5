"""What a reader of another tool's file is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from configs.document import Json


class Where(NamedTuple):
    """What the meaning of a file depends on besides the file."""

    project: Path


class Found(NamedTuple):
    """One server of another tool's, as an entry of ours."""

    name: str
    entry: dict[str, Json]
    notes: tuple[str, ...] = ()
    """What could not be said in our words, or needs the user's hand."""
    refusal: str = ""
    """Why it cannot be taken at all."""


Values: TypeAlias = Mapping[str, Json]
Reader: TypeAlias = Callable[[Values, Where], list[Found]]


class Tool(NamedTuple):
    """Another tool whose servers can be imported."""

    name: str
    title: str
    personal: tuple[str, ...]
    """Its files, from the home directory."""
    shared: tuple[str, ...]
    """Its files, from a project's directory."""
    read: Reader
    aliases: tuple[str, ...] = ()


def section(values: Values, *keys: str) -> dict[str, Json]:
    """The object at a path of keys; empty where there is none."""
    found: Json = dict(values)
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
