"""One HTTP request that was let in: who makes it, what it says, and where its answer goes."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.conversation import House
from servers.http.door import Guest
from servers.http.link import Link
from servers.http.sessions import Limits, Sessions


@dataclass(slots=True)
class Visit:
    house: House
    sessions: Sessions
    limits: Limits
    guest: Guest
    profile: str | None
    method: str
    path: str
    """Without the profile that it may name."""
    query: bytes
    headers: dict[bytes, bytes]
    twice: str | None
    """A header that repeats part of the body and came more than once: readers would disagree which counts."""
    link: Link

    def accepts(self, kind: bytes) -> bool:
        accepted = self.headers.get(b"accept", b"*/*").lower()
        return kind in accepted or b"*/*" in accepted or kind.partition(b"/")[0] + b"/*" in accepted
