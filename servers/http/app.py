"""The endpoint: who may come in, and which request is of which era."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import replace

from gateway.conversation import House
from gateway.eras.stateless import speaks
from gateway.protocol import errors, headers, methods
from gateway.protocol.frames import NULL, Frame, Malformed, decode
from gateway.protocol.versions import SESSION_VERSIONS, STATELESS_VERSIONS
from servers.http import legacy, replies, stateless, streamable
from servers.http.door import Door, Guest
from servers.http.link import CLOSE, Link
from servers.http.request import Request
from servers.http.sessions import Limits, Sessions
from servers.http.visit import Visit

CHALLENGE = (b"www-authenticate", b'Bearer realm="kimi-gateway"')
SWEEP = 5.0
"""Seconds between two looks at who is still there."""
ALLOWED = {"/mcp": b"GET, POST, DELETE", "/sse": b"GET", "/messages": b"POST", "/health": b"GET"}
_VERSION = headers.VERSION.lower().encode()
_SESSION = headers.SESSION.lower().encode()
_DECIDING = (b"host", b"origin", b"authorization")
_ROUTING = frozenset(name.lower().encode() for name in (headers.VERSION, headers.METHOD, headers.NAME))


class Endpoint:
    """Streamable HTTP at `/mcp`, a profile at `/mcp/p/NAME`, HTTP+SSE at `/sse`, `/health`."""

    def __init__(
        self,
        house: House,
        door: Callable[[], Door],
        *,
        profiles: Callable[[], Container[str]],
        profile: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`profile` is shown where an address names none; `profiles` are those that it may name."""
        self.limits = limits or Limits()
        self.sessions = Sessions(self.limits)
        self.listeners = stateless.Listeners()
        self._house = house
        self._restricted = replace(house, answers={})
        """For guests who may see one profile, and not how the gateway is."""
        self._door = door
        self._last_door = door()
        self._ending: tuple[int, str] | None = None
        """What everybody is told who comes from now on."""
        self._profile = profile
        self._profiles = profiles

    async def sweep(self) -> None:
        """End what nobody uses, and what nobody may use any more, for as long as we run."""
        while True:
            await asyncio.sleep(min(self.limits.idle / 4, SWEEP))
            self.sessions.sweep()
            self._admit()

    def _admit(self) -> Door:
        """The door as it is now; whoever it would not let in again goes."""
        door = self._door()
        if door is not self._last_door:
            self._last_door = door
            self.sessions.expel(door.guests)
            self.listeners.conclude(door.guests)
        return door

    def enter(self, request: Request, link: Link) -> Visit | None:
        """Look at a request before its body has come; one that may not come in is told why."""
        sent, method = request.headers, request.method
        door = self._admit()
        refused = _ambiguous(request) or door.refuses(sent) or self._ending
        if refused is not None:
            replies.refuse(link, refused[0], errors.INVALID_REQUEST, refused[1], headers=(CLOSE,))
            return None
        if request.path == "/health" and method in ("GET", "HEAD"):
            link.answer(200, ((b"content-type", b"text/plain"),), b"ok")
            return None
        guest = door.guest(sent.get(b"authorization"))
        if guest is None:
            message = "A bearer token is needed; `kimi-gateway serve --http` prints it when it starts"
            replies.refuse(link, 401, errors.INVALID_REQUEST, message, headers=(CHALLENGE, CLOSE))
            return None
        base, inner, named = request.path.partition("/p/")
        if not self._may_see(guest, base, named if inner else None):
            replies.refuse(link, 404, errors.INVALID_REQUEST, "Not found")
            return None
        profile = named or guest.profile or self._profile
        house = self._restricted if guest.profile is not None else self._house
        twice = _twice(request) if request.repeated else None
        visit = Visit(house, self.sessions, self.limits, guest, profile, method, base, request.query, sent, twice, link)
        return visit if self._may_go_on(visit) else None

    def _may_go_on(self, visit: Visit) -> bool:
        """Whether it is worth reading the body."""
        match visit.path, visit.method:
            case "/mcp", "POST":
                if visit.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
                    message = "Content-Type must be application/json"
                    replies.refuse(visit.link, 415, errors.INVALID_REQUEST, message, headers=(CLOSE,))
                    return False
                if not visit.accepts(b"application/json"):
                    message = "Accept application/json and text/event-stream"
                    replies.refuse(visit.link, 406, errors.INVALID_REQUEST, message, headers=(CLOSE,))
                    return False
            case "/mcp", "GET" | "DELETE" if _version(visit) in STATELESS_VERSIONS:
                message = "Method not allowed: the stateless era has neither sessions nor their stream"
                replies.refuse(visit.link, 405, errors.INVALID_REQUEST, message, headers=((b"allow", b"POST"),))
                return False
            case "/mcp", "GET" | "DELETE" if _is_unsupported(visit):
                _refuse_version(visit)
                return False
            case ("/mcp", "GET" | "DELETE") | ("/sse", "GET") | ("/messages", "POST"):
                pass
            case _:
                allow = (b"allow", ALLOWED[visit.path])
                replies.refuse(visit.link, 405, errors.INVALID_REQUEST, "Method not allowed", headers=(allow,))
                return False
        declared = visit.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self.limits.body:
            self.too_large(visit.link)
            return False
        return True

    def too_large(self, link: Link) -> None:
        """Its body is more than anybody may send."""
        message = f"The request is over the size limit of {self.limits.body} bytes"
        replies.refuse(link, 413, errors.INVALID_REQUEST, message, headers=(CLOSE,))

    def serve(self, visit: Visit, body: bytes) -> None:
        """Answer a request that was let in and has all come."""
        try:
            match visit.path, visit.method:
                case "/mcp", "POST":
                    self._post(visit, decode(body))
                case "/mcp", "GET":
                    streamable.get(visit)
                case "/mcp", "DELETE":
                    streamable.delete(visit)
                case "/sse", _:
                    legacy.listen(visit)
                case _:
                    legacy.message(visit, body)
        except Malformed as malformed:
            replies.refuse(visit.link, 400, malformed.code, malformed.message, id=malformed.id, data=malformed.data)

    def close(self) -> None:
        """Whoever would wait for ever gets a last word; what is under way to its client still gets there."""
        self._ending = 503, "The gateway is shutting down"
        self.listeners.conclude()
        self.sessions.conclude()

    def _may_see(self, guest: Guest, base: str, named: str | None) -> bool:
        """An address that is not there, and one that is not for this guest, are the same."""
        if guest.profile is not None and (guest.profile not in self._profiles() or named not in (None, guest.profile)):
            return False
        if named is None:
            return base in ALLOWED
        return base in ("/mcp", "/sse") and named in self._profiles()

    def _post(self, visit: Visit, message: Frame | list[Frame | Malformed]) -> None:
        if _is_unsupported(visit) and not (isinstance(message, Frame) and _is_newer_request(visit, message)):
            _refuse_version(visit, message.id if isinstance(message, Frame) and message.is_request else NULL)
        elif isinstance(message, Frame) and _is_stateless(visit, message):
            stateless.post(visit, message, self.listeners)
        else:
            streamable.post(visit, message)


def _is_stateless(visit: Visit, frame: Frame) -> bool:
    """The header says so, or the body does: whichever it is, the other must agree."""
    version = _version(visit)
    if version is not None and version not in SESSION_VERSIONS:
        return True
    return frame.method != methods.INITIALIZE and _SESSION not in visit.headers and speaks(frame.params)


def _is_newer_request(visit: Visit, frame: Frame) -> bool:
    """One without a session, which is judged by what its body says of its version."""
    return frame.is_request and _SESSION not in visit.headers


def _version(visit: Visit) -> str | None:
    version = visit.headers.get(_VERSION)
    return None if version is None else version.decode("latin-1")


def _is_unsupported(visit: Visit) -> bool:
    """The header names a version of neither era."""
    version = _version(visit)
    return version is not None and version not in SESSION_VERSIONS and version not in STATELESS_VERSIONS


def _refuse_version(visit: Visit, id: bytes = NULL) -> None:
    supported = SESSION_VERSIONS if _SESSION in visit.headers else STATELESS_VERSIONS
    data = {"supported": list(supported), "requested": _version(visit)}
    words = "Unsupported protocol version"
    replies.refuse(visit.link, 400, errors.UNSUPPORTED_VERSION, words, id=id, data=data)


def _ambiguous(request: Request) -> tuple[int, str] | None:
    """What decides who may come in must not be said twice: whoever is in between may have read the other."""
    for name in request.repeated:
        if name in _DECIDING:
            return 400, f"The header {name.decode()} came more than once"
    return None


def _twice(request: Request) -> str | None:
    """A header that repeats part of the body and came more than once."""
    for name in request.repeated:
        if name in _ROUTING or name.startswith(b"mcp-param-"):
            return name.decode("latin-1")
    return None
