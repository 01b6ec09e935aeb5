"""The ToolRegistry: upstream listings in, one read-only table of `server:tool` out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Raw

from configs.models import Globs, Naming, Rules, Source
from gateway.filters import Hidden, ToolFilter
from gateway.naming import Prefix, canonical, server_prefixes, tool_names
from gateway.protocol.frames import Malformed, Object, open_object, quote, seal, text
from gateway.protocol.headers import Mirrored, mirrored
from gateway.uris import Template, gateway_uri, split_gateway_uri

Kind = Literal["tools", "prompts", "resources", "templates"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources", "templates")
INSTRUCTIONS_LIMIT = 4096
NOTHING_ALLOWED = (Rules("a profile that is gone", Source(None, "builtin"), Globs(()), servers=Globs(())),)


@dataclass(frozen=True, slots=True)
class Listing:
    """What one upstream offers, item by item as it sent them."""

    tools: tuple[bytes, ...] = ()
    prompts: tuple[bytes, ...] = ()
    resources: tuple[bytes, ...] = ()
    templates: tuple[bytes, ...] = ()
    capabilities: frozenset[str] = frozenset()
    instructions: str = ""
    extras: tuple[tuple[str, bytes], ...] = ()
    """Capabilities that mean something only to this server and its client: `experimental`, `extensions`."""
    ttl: int | None = None
    """Milliseconds its lists may be kept, where it said so."""
    public: bool = False
    """Whether its lists may be kept for anybody."""


class Route(NamedTuple):
    """Where a name or URI leads."""

    server: str
    name: str
    raw: Raw
    """The name as the upstream knows it, as JSON text."""
    mirrored: Mirrored | None = None
    """Where in a tool's arguments the values are that headers must repeat."""


class Item(NamedTuple):
    """One tool, prompt, resource or template, ready to be listed."""

    name: str
    wire: str
    encoded: bytes
    original: bytes
    read_only: bool
    mirrored: Mirrored | None = None


@dataclass(frozen=True, slots=True)
class Shelf:
    """One server's listing under the names it has on the wire."""

    server: str
    listing: Listing
    tools: tuple[Item, ...] = ()
    prompts: tuple[Item, ...] = ()
    resources: tuple[Item, ...] = ()
    templates: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Policy:
    """What decides how listings are shown: known before any upstream is."""

    servers: tuple[str, ...] = ()
    naming: Naming = "safe"
    server_rules: Mapping[str, tuple[Rules, ...]] = field(default_factory=dict[str, "tuple[Rules, ...]"])
    rules: tuple[Rules, ...] = ()
    profiles: Mapping[str, tuple[Rules, ...]] = field(default_factory=dict[str, "tuple[Rules, ...]"])

    @cached_property
    def prefixes(self) -> dict[str, Prefix]:
        return server_prefixes(self.servers, self.naming)

    def filter(self, profile: str | None) -> ToolFilter:
        """What a profile lets through; one that is no longer there, nothing."""
        rules = self.profiles.get(profile, NOTHING_ALLOWED) if profile is not None else ()
        return ToolFilter(self.server_rules, self.rules, rules)


class View:
    """What one profile sees of a snapshot: joined once, then only read."""

    def __init__(self, shelves: Iterable[Shelf], filter: ToolFilter, *, single: bool = False) -> None:
        self._single = single
        self._filter = filter
        self._hidden: set[str] = set()
        """Servers that have listed what they offer, and may not be seen."""
        self.routes: dict[Kind, dict[str, Route]] = {kind: {} for kind in KINDS}
        self.hidden: dict[str, Hidden] = {}
        self.servers: dict[str, Shelf] = {}
        self.renamed: set[str] = set()
        """Servers that own a URI we had to rename."""
        self._arrays: dict[Kind, bytes] = {}
        encoded: dict[Kind, list[tuple[str, bytes]]] = {kind: [] for kind in KINDS}
        taken: dict[Kind, dict[str, str]] = {"resources": {}, "templates": {}}
        for shelf in shelves:
            shown = self._shown(shelf, filter)
            for kind in ("resources", "templates"):
                for item in getattr(shelf, kind):
                    taken[kind].setdefault(item.name, shelf.server)
            if not filter.visible(shelf.server, [(item.name, item.read_only) for item in shelf.tools]):
                self._hidden.add(shelf.server)
                continue
            self.servers[shelf.server] = shelf
            for item in shown:
                self._route("tools", shelf.server, item)
                encoded["tools"].append((item.wire, item.encoded))
            for item in shelf.prompts:
                self._route("prompts", shelf.server, item)
                encoded["prompts"].append((item.wire, item.encoded))
            for kind in ("resources", "templates"):
                for item in getattr(shelf, kind):
                    encoded[kind].append(self._place(kind, shelf.server, item, taken[kind][item.name]))
        # By what the client reads, not by server: `s10__x` comes before `s1__x`.
        self._arrays = {kind: b"[" + b",".join(item for _, item in sorted(encoded[kind])) + b"]" for kind in KINDS}

    def array(self, kind: Kind) -> bytes:
        """The JSON array of a list's answer."""
        return self._arrays[kind]

    def hears(self, server: str) -> bool:
        """Whether what a server says may be heard; one that has not listed anything yet is judged by its name."""
        return server in self.servers or (server not in self._hidden and self._filter.visible(server, ()))

    def find(self, kind: Kind, name: str) -> Route | None:
        return self.routes[kind].get(name)

    def find_resource(self, uri: str) -> Route | None:
        """Who is asked for a URI: who lists it, else whose template matches, else the only one with resources."""
        route = self.routes["resources"].get(uri)
        if route is not None:
            return route
        server, original = split_gateway_uri(uri)
        if server in self.servers:
            return Route(server, original, quote(original))
        for route, template in self._templates:
            if template.matches(uri):
                return Route(route.server, uri, quote(uri))
        return Route(self.readers[0], uri, quote(uri)) if len(self.readers) == 1 else None

    @cached_property
    def readers(self) -> list[str]:
        """Servers that resources can be read from: with one of them, nobody else can be meant by a URI."""
        return [name for name, shelf in self.servers.items() if "resources" in shelf.listing.capabilities]

    @cached_property
    def linking(self) -> frozenset[str]:
        """Servers whose results may hold a URI of interest: renamed ones, and links, which of several readers only
        their issuer knows."""
        shared = [server for server in self.servers if any(reader != server for reader in self.readers)]
        return frozenset((*self.renamed, *shared))

    @property
    def extras(self) -> Object:
        """Capabilities we know nothing of: they pass where only one upstream can be meant."""
        if not self._single:
            return {}
        others = (shelf.listing.extras for name, shelf in self.servers.items() if name != "kimi")
        return {key: Raw(value) for extras in others for key, value in extras}

    @cached_property
    def ttl(self) -> int:
        """Milliseconds that the lists may be kept: the least that any server allows."""
        return min((shelf.listing.ttl or 0 for shelf in self.servers.values()), default=0)

    @cached_property
    def public(self) -> bool:
        """Whether the lists may be kept for anybody: only if all servers say so."""
        return bool(self.servers) and all(shelf.listing.public for shelf in self.servers.values())

    def outward(self, server: str, uri: str) -> str:
        """The URI under which the client knows a server's resource."""
        for kind in ("resources", "templates"):
            route = self.routes[kind].get(uri)
            if route is not None:
                return uri if route.server == server else gateway_uri(server, uri)
        return uri

    def expanded(self, server: str, uri: str) -> str:
        """The same where the client reads by names of ours: what a template of ours stands for has one too."""
        if self.find("resources", uri) is None and any(
            name == server and template.matches(uri) for name, template in self._renamed_templates
        ):
            return gateway_uri(server, uri)
        return self.outward(server, uri)

    @cached_property
    def instructions(self) -> str:
        """Each server's own, under its name; a long one gives way to the others."""
        told = {name: shelf.listing.instructions for name, shelf in self.servers.items() if shelf.listing.instructions}
        if not told:
            return ""
        share = INSTRUCTIONS_LIMIT // len(told) - 2
        parts: list[str] = []
        for name, words in told.items():
            part = f"# {name}\n{words.strip()}"
            parts.append(part if len(part) <= share else part[: max(share - 1, 0)] + "…")
        whole = "\n\n".join(f"# {name}\n{words.strip()}" for name, words in told.items())
        return whole if len(whole) <= INSTRUCTIONS_LIMIT else "\n\n".join(parts)[:INSTRUCTIONS_LIMIT]

    @cached_property
    def _templates(self) -> list[tuple[Route, Template]]:
        return [(route, Template(name)) for name, route in self.routes["templates"].items()]

    @cached_property
    def _renamed_templates(self) -> list[tuple[str, Template]]:
        """Those that another server has too, as their own server spells them."""
        renamed = [route for shown, route in self.routes["templates"].items() if shown != route.name]
        return [(route.server, Template(route.name)) for route in renamed]

    def _shown(self, shelf: Shelf, filter: ToolFilter) -> list[Item]:
        shown: list[Item] = []
        for item in shelf.tools:
            hidden = filter.hidden_by(shelf.server, item.name, item.read_only)
            if hidden is None:
                shown.append(item)
            else:
                self.hidden[canonical(shelf.server, item.name)] = hidden
        return shown

    def _route(self, kind: Kind, server: str, item: Item) -> None:
        route = Route(server, item.name, quote(item.name), item.mirrored)
        # The canonical name is always accepted, but never takes a wire name from its owner.
        self.routes[kind][item.wire] = route
        self.routes[kind].setdefault(canonical(server, item.name), route)

    def _place(self, kind: Kind, server: str, item: Item, owner: str) -> tuple[str, bytes]:
        """Make it reachable, and tell the URI and the text it is listed with."""
        route = Route(server, item.name, quote(item.name))
        if owner == server:
            self.routes[kind][item.name] = route
            return item.name, item.original
        self.renamed.add(server)
        uri = gateway_uri(server, item.name)
        self.routes[kind][uri] = route
        opened = open_object(item.original)
        opened["uri" if kind == "resources" else "uriTemplate"] = quote(uri)
        return uri, seal(opened)


class Snapshot:
    """All shelves at one moment, never edited."""

    def __init__(self, policy: Policy, shelves: Mapping[str, Shelf]) -> None:
        self.policy = policy
        self.shelves = MappingProxyType(dict(sorted(shelves.items())))
        self.views = Views(policy, self.shelves)


class Views(dict[str | None, View]):
    """The view of each profile, joined on first use; every call looks here, so it is a plain look-up after that."""

    def __init__(self, policy: Policy, shelves: Mapping[str, Shelf]) -> None:
        super().__init__()
        self._policy = policy
        self._shelves = shelves

    def __missing__(self, profile: str | None) -> View:
        single = len([name for name in self._policy.servers if name != "kimi"]) == 1
        view = self[profile] = View(self._shelves.values(), self._policy.filter(profile), single=single)
        return view


class ToolRegistry:
    """One table over all upstreams. Readers take the snapshot; writers swap it."""

    def __init__(self, policy: Policy) -> None:
        self.snapshot = Snapshot(policy, {})

    def publish(self, server: str, listing: Listing) -> frozenset[Kind]:
        """Show this listing for the server; says which kinds are really different now."""
        old = self.snapshot.shelves.get(server)
        if old is not None and old.listing == listing:
            return frozenset()
        shelf = _shelf(self.snapshot.policy, server, listing)
        self.snapshot = Snapshot(self.snapshot.policy, {**self.snapshot.shelves, server: shelf})
        return _changed(old, shelf)

    def withdraw(self, server: str) -> frozenset[Kind]:
        """Show nothing of this server any more."""
        old = self.snapshot.shelves.get(server)
        if old is None:
            return frozenset()
        shelves = {name: shelf for name, shelf in self.snapshot.shelves.items() if name != server}
        self.snapshot = Snapshot(self.snapshot.policy, shelves)
        return _changed(old, None)

    def find(self, key: str, profile: str | None = None) -> Route | None:
        """The tool behind a `server:tool` key or a wire name."""
        return self.view(profile).find("tools", key)

    def listing(self, profile: str | None = None) -> bytes:
        """The tools a profile sees, as the JSON array of a `tools/list` answer."""
        return self.view(profile).array("tools")

    def view(self, profile: str | None = None) -> View:
        return self.snapshot.views[profile]

    def apply(self, policy: Policy) -> None:
        """Show the same listings under another policy."""
        known = set(policy.servers)
        shelves = {
            name: _shelf(policy, name, shelf.listing) for name, shelf in self.snapshot.shelves.items() if name in known
        }
        self.snapshot = Snapshot(policy, shelves)

    def explain(self, key: str, profile: str | None = None) -> str | None:
        """Which rule in which file hides a tool; `None` if none does."""
        hidden = self.view(profile).hidden.get(key)
        return None if hidden is None else str(hidden)


def _shelf(policy: Policy, server: str, listing: Listing) -> Shelf:
    return Shelf(
        server,
        listing,
        tools=_named(policy, server, listing.tools),
        prompts=_named(policy, server, listing.prompts),
        resources=_located(listing.resources, "uri"),
        templates=_located(listing.templates, "uriTemplate"),
    )


def _named(policy: Policy, server: str, originals: Iterable[bytes]) -> tuple[Item, ...]:
    opened = _opened(originals, "name")
    prefix = policy.prefixes.get(server) or server_prefixes([*policy.servers, server], policy.naming)[server]
    items: list[Item] = []
    for name, wire in tool_names(prefix, opened).items():
        original, members = opened[name]
        encoded = original if wire == name else seal({**members, "name": quote(wire)})
        asked = mirrored(members["inputSchema"]) if "inputSchema" in members and b"x-mcp-header" in original else None
        items.append(Item(name, wire, encoded, original, _read_only(members), asked or None))
    return tuple(sorted(items, key=lambda item: item[:4]))


def _located(originals: Iterable[bytes], key: str) -> tuple[Item, ...]:
    opened = _opened(originals, key)
    return tuple(Item(uri, uri, original, original, False) for uri, (original, _) in sorted(opened.items()))


def _opened(originals: Iterable[bytes], key: str) -> dict[str, tuple[bytes, Object]]:
    """By name; an item without one cannot be reached, and of two with the same the first stays."""
    found: dict[str, tuple[bytes, Object]] = {}
    for original in originals:
        try:
            members = open_object(original)
        except Malformed:
            continue
        name = text(members.get(key))
        if name is not None:
            found.setdefault(name, (original, members))
    return found


def _read_only(members: Object) -> bool:
    try:
        return bytes(open_object(members.get("annotations", b"")).get("readOnlyHint", b"")) == b"true"
    except Malformed:
        return False


def _changed(old: Shelf | None, new: Shelf | None) -> frozenset[Kind]:
    def items(shelf: Shelf | None, kind: Kind) -> tuple[Item, ...]:
        return () if shelf is None else getattr(shelf, kind)

    return frozenset(kind for kind in KINDS if items(old, kind) != items(new, kind))
