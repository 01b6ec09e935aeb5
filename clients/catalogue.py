"""The last-known listing of every server, on disk, so that the first listing is complete at once."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Raw

from gateway.protocol.versions import Era
from gateway.registry import Listing

FORMAT = 2


class Memory(msgspec.Struct, frozen=True):
    """What is remembered of one entry."""

    format: int = FORMAT
    era: Era | None = None
    """The era it speaks, once known."""
    asks: bool = False
    """It was seen asking its client for something."""
    listed: bool = False
    """Whether the listing is one; a server that gave nothing is remembered too."""
    tools: tuple[Raw, ...] = ()
    prompts: tuple[Raw, ...] = ()
    resources: tuple[Raw, ...] = ()
    templates: tuple[Raw, ...] = ()
    capabilities: tuple[str, ...] = ()
    instructions: str = ""
    extras: tuple[tuple[str, Raw], ...] = ()
    ttl: int | None = None
    public: bool = False

    @property
    def listing(self) -> Listing:
        return Listing(
            *(
                tuple(bytes(item) for item in items)
                for items in (self.tools, self.prompts, self.resources, self.templates)
            ),
            capabilities=frozenset(self.capabilities),
            instructions=self.instructions,
            extras=tuple((name, bytes(value)) for name, value in self.extras),
            ttl=self.ttl,
            public=self.public,
        )

    def of_era(self, era: Era) -> Memory:
        return msgspec.structs.replace(self, era=era)

    def as_asking(self) -> Memory:
        return msgspec.structs.replace(self, asks=True)

    def with_listing(self, listing: Listing) -> Memory:
        return msgspec.structs.replace(
            self,
            listed=True,
            tools=tuple(map(Raw, listing.tools)),
            prompts=tuple(map(Raw, listing.prompts)),
            resources=tuple(map(Raw, listing.resources)),
            templates=tuple(map(Raw, listing.templates)),
            capabilities=tuple(sorted(listing.capabilities)),
            # Half a surrogate pair has no place in a file.
            instructions=listing.instructions.encode(errors="replace").decode(),
            extras=tuple((name, Raw(value)) for name, value in listing.extras),
            ttl=listing.ttl,
            public=listing.public,
        )


_decode = msgspec.json.Decoder(Memory).decode
_encode = msgspec.json.Encoder().encode


class Catalogue:
    """One file per entry, named by its fingerprint. Without a directory nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._known: dict[str, bytes] = {}

    def recall(self, fingerprint: str) -> Memory | None:
        if self._directory is None or not fingerprint:
            return None
        try:
            data = self._file(fingerprint).read_bytes()
            memory = _decode(data)
        except (OSError, msgspec.DecodeError):
            return None
        if memory.format != FORMAT:
            return None
        self._known[fingerprint] = data
        return memory

    def remember(self, fingerprint: str, memory: Memory) -> None:
        """Write it if it is new; a disk that refuses costs only the next start its speed."""
        if self._directory is None or not fingerprint:
            return
        data = _encode(memory)
        if self._known.get(fingerprint) == data:
            return
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            written = self._directory / f"{fingerprint}.{os.getpid()}"
            try:
                handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                written.replace(self._file(fingerprint))
            except OSError:
                written.unlink(missing_ok=True)
                raise
            self._known[fingerprint] = data

    def _file(self, fingerprint: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{fingerprint}.json"
