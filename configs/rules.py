"""Read `tools` and `servers` filters into rules; a filter that cannot be read hides everything."""

from __future__ import annotations

from typing import NamedTuple

from configs import checks
from configs.document import Json, KeyPath, dotted
from configs.models import Globs, Rules, Source
from configs.notes import Notes


class Filter(NamedTuple):
    """A `tools` object."""

    globs: Globs
    read_only: bool


def read_rules(notes: Notes, source: Source, path: KeyPath, holder: dict[str, Json]) -> Rules | None:
    """The rules of what holds `tools` and `servers` (a `gateway` section or a profile); `None` if it has neither."""
    label = dotted((*path, "tools"))
    tools: Filter | None = Filter(Globs(), read_only=False)
    servers: Globs | None = None
    if "tools" in holder:
        tools = notes.check(_filter, holder["tools"], (*path, "tools"))
    elif "servers" not in holder:
        return None
    if "servers" in holder:
        servers = notes.check(_globs, holder["servers"], (*path, "servers"))
        tools = tools if servers else None
    return Rules(label, source, tools.globs, tools.read_only, servers) if tools else closed(label, source)


def read_server_rules(notes: Notes, source: Source, path: KeyPath, value: Json, server: str) -> Rules | None:
    """The rules of one server's `tools`, or `None` with the problem noted."""
    tools = notes.check(_filter, value, path, server=server)
    return Rules(dotted(path), source, tools.globs, tools.read_only) if tools else None


def read_profiles(notes: Notes, source: Source, path: KeyPath, value: Json) -> dict[str, Rules]:
    """One layer's profiles by name."""
    profiles: dict[str, Rules] = {}
    for name, profile in (notes.check(checks.mapping, value, path) or {}).items():
        here = (*path, name)
        label = dotted((*here, "tools"))
        holder = notes.check(checks.mapping, profile, here)
        if holder is None:
            profiles[name] = closed(label, source)
        else:
            profiles[name] = read_rules(notes, source, here, holder) or Rules(label, source)
    return profiles


def closed(label: str, source: Source) -> Rules:
    """A rule that lets nothing through: what a filter we cannot read was meant to hide, nobody knows."""
    return Rules(label, source, Globs(allow=()), servers=Globs(allow=()))


def _filter(value: Json) -> Filter:
    holder = checks.mapping(value)
    return Filter(_globs(value), checks.member(holder, "readOnly", checks.flag, False))


def _globs(value: Json) -> Globs:
    holder = checks.mapping(value)
    allow = checks.member(holder, "allow", checks.texts, ("*",))
    return Globs(allow, checks.member(holder, "deny", checks.texts, ()))
