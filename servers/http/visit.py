"""One HTTP request: who makes it, what it says, and where its answer goes."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.conversation import House
from servers.http.door import Guest
from servers.http.link import Link
from servers.http.sessions import Limits, Sessions


class Gone(Exception):
    """The client went before its request was whole."""


class TooLarge(Exception):
    """A body over the limit."""


@dataclass(slots=True)
class Visit:
    house: House
    sessions: Sessions
    limits: Limits
    guest: Guest
    profile: str | None
    headers: dict[bytes, bytes]
    query: bytes
    link: Link

    async def body(self) -> bytes:
        """All of it.

        Raises:
            TooLarge: it is over the limit.
            Gone: it never ended.
        """
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self.limits.body:
            raise TooLarge
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self.link.receive()
            if message["type"] != "http.request":
                raise Gone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > self.limits.body:
                raise TooLarge
            if not message.get("more_body"):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def accepts(self, kind: bytes) -> bool:
        accepted = self.headers.get(b"accept", b"*/*").lower()
        return kind in accepted or b"*/*" in accepted or kind.partition(b"/")[0] + b"/*" in accepted
