"""The one `subscriptions/listen` of a stateless upstream: all that its clients together want to hear."""

from __future__ import annotations

from time import monotonic

from msgspec import Raw

from clients.connection import Connection, Unheard
from gateway.exchange import Exchange, Failure
from gateway.protocol import methods
from gateway.protocol.frames import Object, encode, quote, text
from gateway.protocol.versions import Era

PAUSE = 1.0
"""Seconds between a stream that ended and the next; twice as many each time it does not last."""
LONGEST_PAUSE = 30.0
WANTED = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class Listening(Unheard):
    """Keeps one stream open and renews it with the union whenever somebody's wishes change."""

    def __init__(self, connection: Connection, uris: set[str]) -> None:
        self._connection = connection
        self._uris = set(uris)
        self._current: Exchange | None = None
        self._began = 0.0
        self._pause = PAUSE
        self._deaf = False
        """The stream broke off: what the server said since, nobody has heard."""
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
        if exchange is self._current and not self._connection.over:
            self._current = None
            self._deaf = True
            # One that ends every stream at once is not asked, and its lists are not read, once a second for ever.
            if monotonic() - self._began > LONGEST_PAUSE:
                self._pause = PAUSE
            self._connection.later(self._pause, self._renew)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        self.finished(exchange, Raw(b"{}"), "stateless")

    def acknowledged(self) -> bool:
        """It is heard from now on; whether something may have been missed before."""
        missed, self._deaf = self._deaf, False
        return missed

    def _renew(self) -> None:
        self._began = monotonic()
        before, self._current = self._current, None
        wanted: dict[str, object] = {
            key: True for capability, key in WANTED.items() if capability in self._connection.capabilities
        }
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        if wanted and not self._connection.over:
            params: Object = {"notifications": Raw(encode(wanted))}
            self._current = Exchange(self, b"", methods.LISTEN, params)
            self._connection.send(self._current, float("inf"))
        if before is not None:
            # Only now: nothing that happens between the two is missed.
            self._connection.cancel(before, {"reason": quote("renewed")})
