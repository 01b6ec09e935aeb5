"""What a configuration means once it is read: frozen values, nothing loose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Scope = Literal["global", "kode-project", "project", "environment", "builtin"]
Transport = Literal["stdio", "sse", "http", "auto"]
Naming = Literal["safe", "canonical", "bare"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was written."""

    file: Path | None
    scope: Scope

    def __str__(self) -> str:
        return str(self.file) if self.file else self.scope


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a configuration file, with the place and the way out."""

    file: Path | None
    line: int
    column: int
    key: str
    message: str
    fix: str
    server: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.file else "environment"
        key = f" {self.key}:" if self.key else ""
        return f"{place}:{key} {self.message}. {self.fix}".rstrip()


@dataclass(frozen=True, slots=True)
class Globs:
    """An allow list and a deny list of glob patterns; deny wins."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """One level of filtering and the place it was written."""

    label: str
    """Its name for people: `mcpServers.github.tools`, `gateway.tools`, `gateway.profiles.reviewer.tools`."""
    source: Source
    tools: Globs = Globs()
    read_only: bool = False
    servers: Globs | None = None
    """`None`: a server left without tools is hidden whole. Given: these decide instead."""


@dataclass(frozen=True, slots=True)
class Health:
    interval: float = 30.0
    timeout: float = 10.0
    misses: int = 2


@dataclass(frozen=True, slots=True)
class Server:
    """One upstream as configured, variables expanded."""

    name: str
    transport: Transport
    source: Source
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None
    """Absolute; `None` means the project directory."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    enabled: bool = True
    timeout: float = 60.0
    timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    """By tool name."""
    health: Health = Health()
    rules: tuple[Rules, ...] = ()
    """Server level filters, one per file that has any: each may only narrow."""
    problem: str = ""
    """Why it cannot be started as written (unset variable, unknown type): state `failed`, in these words."""
    fingerprint: str = ""
    """Digest of the entry as written, variables not expanded: the catalogue's key."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that came from env, headers or a variable: masked wherever shown."""

    def masked(self, words: str) -> str:
        """The words without any value the entry keeps secret: a server may quote what it was given."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            words = words.replace(secret, "***")
        return words

    @property
    def launch(self) -> tuple[object, ...]:
        """What a running connection depends on: when this changes the connection is replaced."""
        return (self.transport, self.command, self.args, tuple(sorted(self.env.items())), self.cwd, self.url,
                tuple(sorted(self.headers.items())), self.enabled, self.problem)  # fmt: skip


ClaimKind = Literal["server", "overlay", "settings"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a project's file asks for that only the user can allow."""

    kind: ClaimKind
    name: str
    """The server's; for settings the section's."""
    project: str
    """The project's directory, links resolved."""
    source: Source
    transport: str = ""
    written: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    """What needs the user's word, as written, variables not expanded."""
    executable: str = ""
    """Where the command was found; empty if nowhere, or if only a variable can tell."""
    cwd: str = ""
    enabled: bool = True
    overrides: str = ""
    """Where the server of the same name is written that this one takes the place of."""
    trusted: bool = False
    changes: tuple[str, ...] = ()
    """What differs from what was trusted before, in words; empty for what is new."""


@dataclass(frozen=True, slots=True)
class HttpToken:
    name: str
    token: str = field(repr=False)
    profile: str | None


@dataclass(frozen=True, slots=True)
class Http:
    hosts: tuple[str, ...] = ()
    tokens: tuple[HttpToken, ...] = ()
    body_limit: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kimi:
    enabled: bool = True
    tools: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the files and the environment say, layered: project over global."""

    project: Path
    files: tuple[Path, ...]
    """The files that matter, whether or not they exist: what a watcher watches."""
    servers: Mapping[str, Server]
    """Sorted by name."""
    rules: tuple[Rules, ...] = ()
    """Gateway level filters, one per layer that has any; all must agree."""
    profiles: Mapping[str, tuple[Rules, ...]] = field(default_factory=dict[str, "tuple[Rules, ...]"])
    naming: Naming = "safe"
    kimi: Kimi = Kimi()
    health: Health = Health()
    http: Http = Http()
    frame_limit: int = 64 * 1024 * 1024
    claims: tuple[Claim, ...] = ()
    """All that the project's file asks for and needs trust for, trusted or not."""
    problems: tuple[Problem, ...] = ()
    broken: tuple[Path, ...] = ()
    """Files that are there and could not be read at all: their layer counts as absent."""

    @property
    def untrusted(self) -> tuple[Claim, ...]:
        """What is asked for and neither granted nor switched off."""
        return tuple(claim for claim in self.claims if claim.enabled and not claim.trusted)
