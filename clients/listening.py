"""The one `subscriptions/listen` of a stateless upstream: all that its clients together want to hear."""

from __future__ import annotations

from msgspec import Raw

from clients.connection import Connection, Unheard
from gateway.exchange import Exchange, Failure
from gateway.protocol import methods
from gateway.protocol.frames import Object, encode, quote, text
from gateway.protocol.versions import Era

WANTED = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Listening(Unheard):
    """Keeps one stream open and renews it with the union whenever somebody's wishes change."""

    def __init__(self, connection: Connection, uris: set[str]) -> None:
        self._connection = connection
        self._uris = set(uris)
        self._current: Exchange | None = None
        self._renew()

    def takes(self, exchange: Exchange) -> bool:
        """Whether it is a wish for this stream, which a server of this era has no request for."""
        if exchange.method not in (methods.SUBSCRIBE, methods.UNSUBSCRIBE):
            return False
        uri = text(exchange.params.get("uri")) or ""
        if exchange.method == methods.SUBSCRIBE:
            self.follow(uri)
        else:
            self.unfollow(uri)
        exchange.caller.finished(exchange, Raw(b"{}"), "session")
        return True

    def follow(self, uri: str) -> None:
        if uri not in self._uris:
            self._uris.add(uri)
            self._renew()

    def unfollow(self, uri: str) -> None:
        if uri in self._uris:
            self._uris.discard(uri)
            self._renew()

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        """The server closed the stream in good order; it is wanted still."""
        if exchange is self._current and not self._connection.gone.done():
            self._current = None
            self._connection.later(1.0, self._renew)

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        self.finished(exchange, Raw(b"{}"), "stateless")

    def _renew(self) -> None:
        before, self._current = self._current, None
        wanted: dict[str, object] = {
            key: True for capability, key in WANTED.items() if capability in self._connection.capabilities
        }
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        if wanted and not self._connection.gone.done():
            params: Object = {"notifications": Raw(encode(wanted))}
            self._current = Exchange(self, b"", methods.LISTEN, params)
            self._connection.send(self._current, float("inf"))
        if before is not None:
            # Only now: nothing that happens between the two is missed.
            self._connection.cancel(before, {"reason": quote("renewed")})
