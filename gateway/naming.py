"""Turn `server:tool` into the name on the wire. Pure.

Why two names never meet, even after a client folds all but letters and digits to `_`:

- A server that owns its folded name puts `name__` before its tools. Such a name holds no `__` and does not
  end in `_`, so the first `__` of a folded wire name ends it, and no two servers own the same one.
- All other names (the server gives way, or is too long) hold no `__` and end in a hash of `server:tool`.
- Within a server plain names are given first; a name with a hash steps aside for those already given.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count

from configs.models import Naming

LIMIT = 45
"""So that `mcp__kimi-gateway__` and the name stay within 64 characters."""
HASH = 8
LONGEST_PREFIX = 24
"""A longer server name is cut where a hash is added: less would be left of the tool's name than it needs."""
SHOWN = 5
"""Rivals named in a clash."""

_fold = re.compile(r"[^A-Za-z0-9]").sub
_clean = re.compile(r"[^A-Za-z0-9_-]").sub
_allowed = re.compile(r"[A-Za-z0-9_-]*").fullmatch
_runs = re.compile(r"[_-]{2,}").sub


def canonical(server: str, tool: str) -> str:
    """The registry's key."""
    return f"{server}:{tool}"


def split(key: str) -> tuple[str, str]:
    """Server and tool of a key: a tool's name may hold `:`, a server's may not. Without any: no server."""
    server, colon, tool = key.partition(":")
    return (server, tool) if colon else ("", key)


def fold(name: str) -> str:
    """What the crudest client makes of a name."""
    return _fold("_", name)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a server's name contributes to the names of its tools."""

    server: str
    naming: Naming
    """`bare` only for the server whose prefix is really dropped."""
    text: str
    """Its own folded name space, `github__`; empty if it has none."""
    plain: bool
    """Names need no hash on the server's account."""
    rivals: tuple[str, ...] = ()
    """Servers that fold to the same name."""
    reserved: tuple[str, ...] = ()
    """Folded beginnings that no bare name may have."""


def server_prefixes(servers: Iterable[str], naming: Naming = "safe", *, kimi: str = "kimi") -> dict[str, Prefix]:
    """Prefixes of all servers: all that the names of one server may depend on besides its own tools."""
    names = sorted(set(servers))
    same: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        same[fold(name)].append(name)
    besides = [name for name in names if name != kimi]
    prefixes: dict[str, Prefix] = {}
    for name in names:
        folded = fold(name)
        rivals = tuple(rival for rival in same[folded] if rival != name)
        owns = (not rivals or name == folded) and "__" not in folded and not folded.endswith("_")
        bare = naming == "bare" and besides == [name]
        prefixes[name] = Prefix(
            server=name,
            naming=naming if naming == "canonical" else "bare" if bare else "safe",
            text=f"{_clean('_', name)}__" if owns else "",
            plain=owns and _allowed(name) is not None,
            rivals=rivals,
            reserved=(f"{fold(kimi)}__", f"{folded}__") if bare else (),
        )
    return prefixes


def tool_names(prefix: Prefix, tools: Iterable[str]) -> dict[str, str]:
    """Wire names of one server's tools (or prompts), whatever the order they come in."""
    ordered = sorted(set(tools))
    if prefix.naming == "canonical":
        return {tool: canonical(prefix.server, tool) for tool in ordered}
    names: dict[str, str] = {}
    # Of those that fold alike, one that is its own folded form keeps its name.
    crowded = {tool for folded, crowd in _crowds(ordered).items() for tool in crowd if tool != folded}
    for tool in ordered:
        name = None if tool in crowded else _plain(prefix, tool)
        if name is not None:
            names[tool] = name
    if len(names) < len(ordered):
        taken = {fold(name) for name in names.values()}
        for tool in ordered:
            if tool not in names:
                names[tool] = name = _hashed(prefix, tool, taken)
                taken.add(fold(name))
    return names


def wire_names(
    tools: Mapping[str, Sequence[str]], naming: Naming = "safe", *, kimi: str = "kimi"
) -> dict[str, dict[str, str]]:
    """server -> tool -> wire name, for all servers at once."""
    prefixes = server_prefixes(tools, naming, kimi=kimi)
    return {server: tool_names(prefix, tools[server]) for server, prefix in prefixes.items()}


@dataclass(frozen=True, slots=True)
class Clash:
    """One key that clients could not tell from others, and the name it has for that reason."""

    key: str
    """`server:tool`, or a server's name where all its tools are concerned."""
    rivals: tuple[str, ...]
    wire: str = ""

    def __str__(self) -> str:
        rivals = ", ".join(self.rivals)
        if self.wire == self.key:
            return f"{self.key}: some clients cannot tell it from {rivals} and drop one; naming safe avoids this"
        if self.wire:
            return f"{self.key} is {self.wire} on the wire: clients could not tell it from {rivals}"
        return f"{self.key}: its tools carry a hash, as clients could not tell its name from {rivals}; rename it"


def clashes(tools: Mapping[str, Sequence[str]], naming: Naming = "safe", *, kimi: str = "kimi") -> tuple[Clash, ...]:
    """Whose names had to change because of another's, sorted; who kept its name is not listed."""
    if naming == "canonical":
        keys = [canonical(server, tool) for server in tools for tool in tools[server]]
        crowded = [Clash(key, _others(key, crowd), key) for crowd in _crowds(keys).values() for key in crowd]
        return tuple(sorted(crowded, key=lambda clash: clash.key))
    found: list[Clash] = []
    for server, prefix in server_prefixes(tools, naming, kimi=kimi).items():
        if prefix.rivals and not prefix.text:
            found.append(Clash(server, prefix.rivals))
        crowds = _crowds(tools[server])
        names = tool_names(prefix, tools[server]) if crowds else {}
        for folded, crowd in sorted(crowds.items()):
            for tool in crowd:
                if tool != folded:
                    rivals = tuple(canonical(server, rival) for rival in _others(tool, crowd))
                    found.append(Clash(canonical(server, tool), rivals, names[tool]))
    return tuple(found)


def _crowds(names: Iterable[str]) -> dict[str, list[str]]:
    """Different names that fold to the same, by that; one that is that comes first."""
    first: dict[str, str] = {}
    crowds: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        folded = _fold("_", name)
        if first.setdefault(folded, name) != name:
            crowds[folded].update((first[folded], name))
    return {folded: sorted(crowd, key=lambda name: (name != folded, name)) for folded, crowd in crowds.items()}


def _others(name: str, crowd: Sequence[str]) -> tuple[str, ...]:
    """Some of a crowd to name to people: it may be as large as a hostile server likes."""
    return tuple(other for other in crowd[: SHOWN + 1] if other != name)[:SHOWN]


def _plain(prefix: Prefix, tool: str) -> str | None:
    if not _allowed(tool):
        return None
    if prefix.naming == "bare" and 0 < len(tool) <= LIMIT and not fold(tool).startswith(prefix.reserved):
        return tool
    if prefix.plain and len(prefix.text) + len(tool) <= LIMIT:
        return prefix.text + tool
    return None


def _hashed(prefix: Prefix, tool: str, taken: set[str]) -> str:
    space = bool(prefix.text) and len(prefix.text) <= LONGEST_PREFIX + 2
    text = _cut_in_space(prefix.text, tool) if space else _cut_in_none(prefix.server, tool)
    key = canonical(prefix.server, tool)
    attempts = (text + _digest(key, attempt) for attempt in count())
    return next(name for name in attempts if fold(name) not in taken)


def _cut_in_space(space: str, tool: str) -> str:
    text = _clean("_", tool)[: LIMIT - HASH - 1 - len(space)].rstrip("_-")
    return f"{space}{text}_" if text else space


def _cut_in_none(server: str, tool: str) -> str:
    """Both parts without any `__`, the server's cut first, as the tool's says more."""
    room = LIMIT - HASH - 1
    parts = [_runs("_", _clean("_", part)).strip("_-") for part in (server, tool)]
    parts[0] = parts[0][: max(room // 3, room - 1 - len(parts[1]))].rstrip("_-")
    text = "_".join(part for part in parts if part)[:room].rstrip("_-")
    return f"{text}_" if text else ""


def _digest(key: str, attempt: int) -> str:
    salted = f"{key}\n{attempt}" if attempt else key
    return b32encode(sha256(salted.encode("utf-8", "surrogatepass")).digest())[:HASH].decode().lower()
