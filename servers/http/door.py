"""Who may come in: the Host and Origin of a request, and whose token it bears."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from configs.models import Http

LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Guest:
    """Whoever a token belongs to: two are the same if all of it is."""

    mark: str
    """Tells tokens apart without telling them."""
    profile: str | None = None
    """The only one its token is for."""


OWNER = Guest("owner")


class Door:
    """Decides before anything is parsed."""

    def __init__(self, http: Http, port: int, token: str | None) -> None:
        """Without a token everybody may come in who comes from this machine."""
        self._hosts = frozenset((*(f"{host}:{port}" for host in LOCAL), *(LOCAL if port == 80 else ())))
        self._named = frozenset(host.lower() for host in http.hosts)
        self._open = token is None
        self._tokens = [(token.encode(), OWNER)] if token is not None else []
        self._tokens += [(one.token.encode(), Guest(_mark(one.token), one.profile)) for one in http.tokens]

    @property
    def guests(self) -> frozenset[Guest]:
        """All who may come in."""
        return frozenset((*(guest for _, guest in self._tokens), *((OWNER,) if self._open else ())))

    def refuses(self, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        """Why a page of somebody else's, or a name that leads here by accident, is turned away."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_ours(host):
            return 421, "this address is not one of ours; name it in gateway.http.hosts"
        origin = headers.get(b"origin")
        if origin is not None:
            scheme, _, where = origin.decode("latin-1").lower().partition("://")
            if scheme not in ("http", "https") or not self._is_ours(where):
                return 403, "this origin is not one of ours"
        return None

    def guest(self, authorization: bytes | None) -> Guest | None:
        """Whose token it is; nobody's gets nobody."""
        if authorization is None:
            return OWNER if self._open else None
        scheme, _, given = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return OWNER if self._open else None
        found: Guest | None = None
        for token, guest in self._tokens:  # all of them, so that the time taken tells nothing
            if hmac.compare_digest(token, given.strip()):
                found = found or guest
        return OWNER if found is None and self._open else found

    def _is_ours(self, host: str) -> bool:
        return host in self._hosts or host in self._named or host.rpartition(":")[0] in self._named


def _mark(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
