"""How each protocol era speaks an exchange, on either side."""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw

from gateway.exchange import Exchange
from gateway.protocol.versions import Era


class Dialect(Protocol):
    """An era on the upstream's side."""

    era: Era
    probe: str
    """A request that any server of this era answers."""

    def frame(self, exchange: Exchange, id: int) -> bytes:
        """The request as the upstream gets it, under our id, which is also the progress token.

        Raises:
            Malformed: it is none that a server of this era could understand.
        """
        ...

    def answered(self, exchange: Exchange, result: Raw) -> None:
        """Hand the result to who asked, as what it is."""
        ...
