"""One `subscriptions/listen` of a client's: what it wants to hear, and how it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Raw

from gateway.protocol import methods
from gateway.protocol.frames import Object, encode, open_array, open_object, seal, text
from gateway.protocol.versions import META_SUBSCRIPTION
from gateway.registry import KINDS, Kind, Route, View

WISHES: dict[Kind, str] = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
    "templates": "resourcesListChanged",
}
RESOURCES = "resourceSubscriptions"


class Subscription:
    """A filter, and what its client could have seen so far."""

    def __init__(self, id: bytes, wanted: Object) -> None:
        self.id = id
        self._kinds: list[Kind] = [kind for kind in KINDS if bytes(wanted.get(WISHES[kind], b"")) == b"true"]
        self._uris = [uri for raw in open_array(wanted.get(RESOURCES, b"[]")) if (uri := text(raw)) is not None]
        self._routes: dict[str, tuple[str, str]] = {}
        self._seen: dict[Kind, bytes] = {}

    def begin(self, view: View, find: Callable[[str], Route | None]) -> None:
        """All that there is at the start is listed: whose each resource is, and from now on differences count."""
        for uri in self._uris:
            route = find(uri)
            if route is not None:
                self._routes[uri] = route.server, route.name
        self._seen.update((kind, view.array(kind)) for kind in self._kinds)

    def acknowledgement(self) -> bytes:
        """What of its wishes is granted: all of them."""
        granted: dict[str, object] = {WISHES[kind]: True for kind in self._kinds}
        if self._uris:
            granted[RESOURCES] = self._uris
        return self.marked(encode({"notifications": granted}))

    def marked(self, params: bytes | Raw) -> bytes:
        """Params with the mark of this stream."""
        opened = open_object(params)
        meta = open_object(opened.get("_meta", b""))
        meta[META_SUBSCRIPTION] = Raw(self.id)
        opened["_meta"] = Raw(seal(meta))
        return seal(opened)

    def result(self) -> bytes:
        """The last word, when we are the ones to end it."""
        return self.marked(b'{"resultType":"complete"}')

    def changed(self, kinds: Iterable[Kind], view: View, server: str | None) -> list[str]:
        """The notices due; with a server: that one says so, whatever we see."""
        due: dict[str, None] = {}
        for kind in KINDS:
            if kind not in kinds or kind not in self._seen:
                continue
            array = view.array(kind)
            if server in view.servers if server is not None else self._seen[kind] != array:
                due[methods.CHANGED[kind]] = None
            self._seen[kind] = array
        return list(due)

    def followed(self) -> Iterable[tuple[str, str]]:
        return self._routes.values()

    def shown(self, server: str, uri: str, view: View) -> str | None:
        """The name under which the client is to hear of this: its own for what it asked for; `None` if it did not."""
        covered = [(shown, route) for shown, route in self._routes.items() if covers(route, server, uri)]
        if not covered:
            return None
        return next((shown for shown, route in covered if route == (server, uri)), view.outward(server, uri))


def covers(followed: tuple[str, str], server: str, uri: str) -> bool:
    """Whether news of a resource concern who follows another: itself, or what it is a part of."""
    return followed[0] == server and (followed[1] == uri or uri.startswith(followed[1].rstrip("/") + "/"))
