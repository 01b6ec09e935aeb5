"""Answer a name that nobody has with the nearest there is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gateway.naming import split


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant; of `server:tool` names a tool's alone is enough."""
    names = list(known)
    lower = {one.lower(): one for one in reversed(names)}
    found = get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    if found:
        return lower[found[0]]
    tool = split(name)[1].lower()
    alone = {split(one)[1].lower(): one for one in reversed(names)}
    found = get_close_matches(tool, list(alone), n=1, cutoff=0.6)
    return alone[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    near = nearest(name, known)
    return f"Did you mean {near}?" if near else otherwise
