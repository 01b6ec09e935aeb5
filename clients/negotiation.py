"""Introduce ourselves to a new connection, and read all that it offers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from time import monotonic

from msgspec import Raw

from clients.causes import DiedOnProbe, GaveUp, Lost, Refused
from clients.connection import Connection
from gateway import __version__
from gateway.eras.session import SessionDialect
from gateway.eras.stateless import StatelessDialect
from gateway.protocol import methods
from gateway.protocol.errors import UNSUPPORTED_VERSION
from gateway.protocol.frames import Malformed, Object, encode, notification, open_array, open_object, seal, text
from gateway.protocol.versions import LATEST, LATEST_SESSION, SESSION_VERSIONS, STATELESS_VERSIONS, Era
from gateway.registry import KINDS, Kind, Listing

logger = logging.getLogger("kimi_gateway.upstream")

PAGES = 10_000
LISTED = 256 * 1024 * 1024
"""Pages and bytes of one list, and as its timeout says seconds: of one that is longer the rest is left out."""
PROBE = 1.0
"""Seconds a server of unknown era has for a question that only the newer one knows."""
RECALLED = 5.0
"""The same for one that spoke the newer era before: a start may take that long, and a call waits longer."""
ONCE_MORE = (0.0, 0.5)
"""Seconds before each further try of a tool list that was refused, before the server itself is tried again."""
CLIENT_INFO = {"name": "kimi-gateway", "title": "kimi-gateway", "version": __version__}
EMPTY = b'""'
EXTRAS = ("experimental", "extensions")
"""Capabilities that we know nothing of."""
NEEDS: dict[Kind, str] = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"}


@dataclass(frozen=True, slots=True)
class Introduction:
    """What an upstream said of itself."""

    era: Era
    version: str
    capabilities: Object = field(default_factory=dict[str, Raw])
    instructions: str = ""
    server_info: Object = field(default_factory=dict[str, Raw])


async def introduce(
    connection: Connection, capabilities: bytes, remembered: Era | None, *, timeout: float, probe: float = PROBE
) -> Introduction:
    """Find the era a server speaks, and shake hands in it.

    Raises:
        DiedOnProbe: it ended when asked for the newer era; started again, it should not be asked.
        GaveUp: it speaks no version we know.
        Lost: it did not answer, or not with what an answer must hold.
    """
    probed = remembered != "session"
    if probed:
        info = await _discover(connection, timeout=min(timeout, RECALLED) if remembered == "stateless" else probe)
        if info is not None:
            return info
        if connection.over:
            raise connection.cause or DiedOnProbe(connection.gone.result())
    try:
        return await _initialize(connection, capabilities, timeout=timeout)
    except Lost as lost:
        # One that is slow to start reads the probe long after we stopped waiting for its answer.
        if probed and connection.over and connection.cause is None:
            raise DiedOnProbe(lost.reason) from lost
        raise
    except Refused as refused:
        # An answer to a probe we no longer waited for may have fixed the era; or a memory of ours is out of date.
        info = await _discover(connection, timeout=timeout)
        if info is None:
            raise Lost(str(refused)) from refused
        return info


async def _discover(connection: Connection, *, timeout: float) -> Introduction | None:
    """What a server of the stateless era says of itself; `None` from any other."""
    connection.dialect = StatelessDialect(LATEST, CLIENT_INFO)
    try:
        answer = open_object(await _ask_who_it_is(connection, timeout=timeout))
        versions = [text(raw) for raw in open_array(answer.get("supportedVersions", b"[]"))]
        shared = next((version for version in STATELESS_VERSIONS if version in versions), None)
        if shared is not None:
            info = Introduction(
                "stateless",
                shared,
                open_object(answer.get("capabilities", b"")),
                text(answer.get("instructions")) or "",
            )
            connection.capabilities = info.capabilities
            if connection.channel is not None:
                connection.channel.negotiated(shared)
            return info
    except (Refused, Lost, Malformed):
        pass
    connection.dialect = SessionDialect()
    return None


async def _ask_who_it_is(connection: Connection, *, timeout: float) -> Raw:
    """Ask `server/discover`; once more if it is refused as a version that the refusal itself says is spoken."""
    try:
        return await connection.request(methods.DISCOVER, b"{}", timeout=timeout)
    except Refused as refused:
        error = open_object(Raw(refused.error))
        if bytes(error.get("code", b"")) != b"%d" % UNSUPPORTED_VERSION:
            raise
        supported = open_array(open_object(error.get("data", b"")).get("supported", b"[]"))
        if LATEST not in map(text, supported):
            raise
        return await connection.request(methods.DISCOVER, b"{}", timeout=timeout)


async def _initialize(connection: Connection, capabilities: bytes, *, timeout: float) -> Introduction:
    params = open_object(encode({"protocolVersion": LATEST_SESSION, "clientInfo": CLIENT_INFO}))
    params["capabilities"] = Raw(capabilities)
    try:
        answer = open_object(await connection.request(methods.INITIALIZE, seal(params), timeout=timeout))
        version = text(answer.get("protocolVersion")) or ""
        info = Introduction(
            "session",
            version,
            open_object(answer.get("capabilities", b"")),
            text(answer.get("instructions")) or "",
            open_object(answer.get("serverInfo", b"")),
        )
    except Malformed as malformed:
        raise Lost("answered initialize with something else than an object") from malformed
    if version not in SESSION_VERSIONS:
        raise GaveUp(f"speaks protocol version {version or 'unknown'}, which we do not", "Update kimi-gateway.")
    connection.capabilities = info.capabilities
    if connection.channel is not None:
        connection.channel.negotiated(version)
    connection.write(notification(methods.INITIALIZED))
    return info


async def read_listing(connection: Connection, info: Introduction, *, timeout: float) -> Listing:
    """All four lists, page by page.

    Raises:
        Lost: the connection broke, or `tools/list` was refused.
    """
    found: dict[Kind, tuple[bytes, ...]] = {}
    keeping = Keeping()
    for kind in KINDS:
        found[kind] = await read_list(connection, kind, timeout=timeout, keeping=keeping)
    return Listing(
        tools=found["tools"],
        prompts=found["prompts"],
        resources=found["resources"],
        templates=found["templates"],
        capabilities=frozenset(info.capabilities),
        instructions=info.instructions,
        extras=tuple((name, bytes(info.capabilities[name])) for name in EXTRAS if name in info.capabilities),
        ttl=keeping.ttl,
        public=keeping.public and keeping.ttl is not None,
    )


@dataclass(slots=True)
class Keeping:
    """How long a server lets its lists be kept, and for whom: the least that any page says."""

    ttl: int | None = None
    public: bool = True

    def note(self, page: Object) -> None:
        said = bytes(page.get("ttlMs", b""))
        if said.isdigit() and len(said) < 16:
            self.ttl = min(int(said), self.ttl if self.ttl is not None else int(said))
        self.public = self.public and text(page.get("cacheScope")) == "public"


async def read_list(
    connection: Connection, kind: Kind, *, timeout: float, keeping: Keeping | None = None
) -> tuple[bytes, ...]:
    """One list to its end; what is declared and then refused is empty, but for tools."""
    if NEEDS[kind] not in connection.capabilities:
        return ()
    items: list[bytes] = []
    cursor: bytes | None = None
    seen: set[bytes] = set()
    size, begun = 0, monotonic()
    try:
        while True:
            params = seal({"cursor": Raw(cursor)}) if cursor is not None else b""
            page = open_object(await _read_page(connection, kind, params, timeout=timeout))
            if keeping is not None:
                keeping.note(page)
            found = [bytes(item) for item in open_array(page.get(methods.RESULT_KEYS[kind], b"[]"))]
            items += found
            cursor = bytes(page.get("nextCursor", b"null"))
            if cursor == b"null" or cursor in seen:
                break
            seen.add(cursor)
            size += sum(map(len, found))
            if len(seen) >= PAGES or size > LISTED or monotonic() - begun > timeout:
                logger.warning(
                    "%s: %s has no end; left out after page %d", connection.name, methods.LISTS[kind], len(seen)
                )
                break
    except Refused as refused:
        # Servers that spell "no more" as an empty cursor refuse it when it comes back.
        if cursor != EMPTY and kind == "tools":
            raise Lost(str(refused), withdraw=True) from refused
        if cursor != EMPTY:
            return ()
    except Lost as lost:
        if connection.over:
            raise
        if kind == "tools":
            raise Lost(lost.reason, withdraw=True) from lost
        return ()
    except Malformed as malformed:
        if kind == "tools":
            raise Lost("answered tools/list with something else than a list of tools", withdraw=True) from malformed
        return ()
    if kind == "tools" and connection.channel is not None:
        return tuple(connection.channel.listed(items))
    return tuple(items)


async def _read_page(connection: Connection, kind: Kind, params: bytes, *, timeout: float) -> Raw:
    """One page. A server that has only just started may refuse its tools for a moment, and a new one would again."""
    for pause in ONCE_MORE if kind == "tools" and not params else ():
        try:
            return await connection.request(methods.LISTS[kind], params, timeout=timeout)
        except Refused:
            await asyncio.sleep(pause)
    return await connection.request(methods.LISTS[kind], params, timeout=timeout)
