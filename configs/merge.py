"""Lay the entries of all layers over each other and expand their variables into servers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from configs import checks, claims
from configs.document import Json, KeyPath
from configs.entries import Entry, Layer, read_entry
from configs.models import Claim, Health, Rules, Server, Transport
from configs.variables import Unset, expand, secrets

T = TypeVar("T")

KIMI = "kimi"
DEFAULT_TIMEOUT = 60.0


class Surroundings(NamedTuple):
    """What an entry's meaning depends on besides the entry."""

    home: Path
    environ: Mapping[str, str]
    health: Health
    kimi: bool
    """Whether the built-in server has the name `kimi`."""
    judge: Callable[[Claim], Claim]
    """What the user has said to what a project asks for."""
    claims: list[Claim]
    """What was asked for, with the answers."""


def servers(layers: Iterable[Layer], around: Surroundings) -> dict[str, Server]:
    """All servers, sorted by name; later layers over earlier ones."""
    stacks: dict[str, _Stack] = {}
    for layer in layers:
        for name, value in layer.entries.items():
            if entry := _read(layer, name, value, around):
                _add(stacks, _allowed(entry, stacks.get(name), around))
    return {name: _build(stacks[name], around) for name in sorted(stacks)}


@dataclass(slots=True)
class _Stack:
    """The entries of one name: the one that starts the server, and what was said above it."""

    base: Entry
    transport: Transport
    overlays: list[Entry] = field(default_factory=list[Entry])
    rules: tuple[Rules, ...] = ()

    @property
    def enabled(self) -> bool:
        return _last(entry.enabled for entry in (self.base, *self.overlays)) is not False

    @property
    def timeout(self) -> float:
        return _last(entry.timeout for entry in (self.base, *self.overlays)) or DEFAULT_TIMEOUT


def _read(layer: Layer, name: str, value: Json, around: Surroundings) -> Entry | None:
    if name == KIMI and around.kimi:
        message = f'the name "{KIMI}" belongs to the built-in server'
        fix = 'Rename the entry, or write "kimi": false under "gateway".'
        layer.notes.add((*layer.path, name), message, fix, server=name, at_key=True)
        return None
    return read_entry(layer, name, value)


def _allowed(entry: Entry, below: _Stack | None, around: Surroundings) -> Entry:
    """The entry, or of a project's that is not trusted what only narrows; a server of it says that it may not start."""
    if entry.layer.scope != "project":
        return entry
    if entry.transport is not None:
        overrides = str(below.base.layer.source) if below else ""
        claim = around.judge(claims.server(entry, overrides, around.environ))
        allowed = entry if claim.trusted else entry._replace(problem=claims.refusal(claim), trusted=False)
    elif below is None or (allowed := claims.narrowed(entry, below.enabled, below.timeout)) == entry:
        return entry
    else:
        claim = around.judge(claims.overlay(entry))
        allowed = entry if claim.trusted else allowed
    around.claims.append(claim)
    return allowed


def _add(stacks: dict[str, _Stack], entry: Entry) -> None:
    below = stacks.get(entry.name)
    # A filter below stays also where the server itself is replaced: a project can only narrow.
    rules = (*(below.rules if below else ()), *((entry.rules,) if entry.rules else ()))
    if entry.transport is not None:
        stacks[entry.name] = _Stack(entry, entry.transport, rules=rules)
    elif below is not None:
        below.overlays.append(entry)
        below.rules = rules
    else:
        fix = 'Write "command" or "url" here, or correct the name.'
        message = "has neither command nor url, and there is no server of this name for it to change"
        entry.layer.notes.add(entry.path, message, fix, server=entry.name, at_key=True)


def _build(stack: _Stack, around: Surroundings) -> Server:
    base, entries = stack.base, (stack.base, *stack.overlays)
    enabled = stack.enabled
    health, timeouts = around.health, dict[str, float]()
    for entry in entries:
        health = entry.health.over(health)
        timeouts.update(entry.timeouts or {})
    if not base.trusted:
        # No fingerprint either: what it once listed is not to be recalled.
        return Server(
            base.name, stack.transport, base.layer.source, command=base.command, args=base.args, url=base.url,
            enabled=enabled, timeout=stack.timeout, timeouts=timeouts, rules=stack.rules, problem=base.problem,
        )  # fmt: skip
    # What a disabled server would need is nobody's problem.
    expanding = _Expanding(base, around, silent=not enabled)
    server = Server(
        base.name,
        stack.transport,
        base.layer.source,
        command=expanding.text(base.command, "command"),
        args=tuple(expanding.text(argument, "args", index) for index, argument in enumerate(base.args)),
        env=expanding.values(base.env, "env"),
        cwd=expanding.directory(),
        url=expanding.url(),
        headers=expanding.headers(),
        enabled=enabled,
        timeout=stack.timeout,
        timeouts=timeouts,
        health=health,
        rules=stack.rules,
        fingerprint=fingerprint(base),
    )
    problem = next((entry.problem for entry in entries if entry.problem), "") or expanding.problem
    return replace(server, problem=problem, secrets=secrets(expanding.sensitive, around.environ))


def fingerprint(entry: Entry) -> str:
    """Digest of an entry as written; where its meaning depends on a directory, of that too."""
    written: dict[str, object] = {
        "type": entry.kind, "command": entry.command, "args": entry.args, "env": entry.env,
        "cwd": entry.cwd, "url": entry.url, "headers": entry.headers,
    }  # fmt: skip
    # `python server.py` is another server in another project.
    relative = entry.cwd is not None and not entry.cwd.startswith(("/", "~"))
    if relative or entry.layer.scope != "global":
        written["project"] = os.path.realpath(entry.layer.base)
    canonical = json.dumps(written, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class _Expanding:
    """Expands the texts of one entry, and keeps what is sensitive in them and the first thing that is wrong."""

    def __init__(self, entry: Entry, around: Surroundings, *, silent: bool) -> None:
        self._entry = entry
        self._around = around
        self._silent = silent
        self.problem = ""
        self.sensitive: set[str] = set()

    def text(self, text: str, *keys: str | int, sensitive: bool = False) -> str:
        """A text expanded; where that is impossible as written, with the problem noted."""
        try:
            expanded = expand(text, self._around.environ)
        except Unset as unset:
            name = unset.variable
            self._report(keys, f"the variable {name} is not set", f"Set {name}, or write ${{{name}:-default}}.")
            return text
        self.sensitive |= expanded.values
        if sensitive:
            # `Bearer abc`: elsewhere the token appears without its scheme.
            long_parts = (part for part in expanded.text.split() if len(part) >= 8)
            self.sensitive.update((expanded.text, *long_parts))
        return expanded.text

    def values(self, written: Mapping[str, str], key: str) -> dict[str, str]:
        """The values of `env` or `headers`: all of them are sensitive."""
        return {name: self.text(value, key, name, sensitive=True) for name, value in written.items()}

    def headers(self) -> dict[str, str]:
        found = self.values(self._entry.headers, "headers")
        for name, value in found.items():
            self._check(checks.header_value, value, "headers", name)
        return found

    def url(self) -> str:
        url = self.text(self._entry.url, "url")
        if url and not self.problem and self._entry.transport != "stdio" and not self._entry.problem:
            self._check(checks.address, url, "url")
        return url

    def directory(self) -> Path | None:
        """`cwd`, from the user's home or the layer's directory where it is not absolute."""
        if self._entry.cwd is None:
            return None
        cwd = self.text(self._entry.cwd, "cwd")
        if cwd == "~" or cwd.startswith("~/"):
            cwd = str(self._around.home) + cwd[1:]
        return Path(os.path.normpath(self._entry.layer.base / cwd))

    def _check(self, check: Callable[[str], None], text: str, *keys: str | int) -> None:
        try:
            check(text)
        except checks.Wrong as wrong:
            self._report(keys, wrong.message, wrong.fix)

    def _report(self, keys: KeyPath, message: str, fix: str) -> None:
        if self._silent:
            return
        layer, name = self._entry.layer, self._entry.name
        problem = layer.notes.add((*self._entry.path, *keys), message, fix, server=name)
        self.problem = self.problem or f"{problem.key}: {message}. {fix}"


def _last(values: Iterable[T | None]) -> T | None:
    """The topmost value that is written."""
    return next((value for value in reversed(tuple(values)) if value is not None), None)
