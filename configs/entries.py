"""Read one `mcpServers` entry as one file has it: checked, variables not yet expanded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from configs import checks
from configs.document import Json, KeyPath, dotted
from configs.models import Health, Rules, Scope, Source, Transport
from configs.notes import Notes
from configs.rules import closed, read_server_rules

T = TypeVar("T")

LAUNCH_KEYS = ("type", "command", "args", "env", "cwd", "url", "headers")
OVERLAY_KEYS = ("enabled", "tools", "timeout", "timeouts", "health")
ENTRY_KEYS = (*LAUNCH_KEYS, *OVERLAY_KEYS)
HEALTH_KEYS = ("interval", "timeout", "misses")
TYPES: Mapping[str, Transport] = {
    "stdio": "stdio", "sse": "sse", "http": "http", "streamable-http": "http", "streamableHttp": "http"
}  # fmt: skip


NAME_RULE = 'a server\'s name may not be empty nor hold ":" or control characters'


def is_name(name: str) -> bool:
    """Whether a server may be called so."""
    return bool(name.strip()) and ":" not in name and name.isprintable()


class Layer(NamedTuple):
    """The servers of one file's section."""

    scope: Scope
    file: Path
    notes: Notes
    path: KeyPath
    entries: Mapping[str, Json]
    base: Path
    """What a relative `cwd` starts from."""

    @property
    def source(self) -> Source:
        return Source(self.file, self.scope)


class HealthPart(NamedTuple):
    """The keys of a `health` object that are written."""

    interval: float | None = None
    timeout: float | None = None
    misses: int | None = None

    def over(self, below: Health) -> Health:
        return Health(
            below.interval if self.interval is None else self.interval,
            below.timeout if self.timeout is None else self.timeout,
            below.misses if self.misses is None else self.misses,
        )


class Entry(NamedTuple):
    """One server's entry in one layer; `None` is what is not written."""

    name: str
    layer: Layer
    transport: Transport | None
    """`None`: an overlay, which only changes the server of a layer below."""
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    url: str
    headers: Mapping[str, str]
    enabled: bool | None
    timeout: float | None
    timeouts: Mapping[str, float] | None
    health: HealthPart
    rules: Rules | None
    kind: str | None
    """`type` as written."""
    problem: str
    trusted: bool = True
    """`False`: nothing of it is expanded or started."""

    @property
    def path(self) -> KeyPath:
        return (*self.layer.path, self.name)


def read_entry(layer: Layer, name: str, value: Json) -> Entry | None:
    """An entry, or `None` where what is written is no entry at all."""
    path = (*layer.path, name)
    if not is_name(name):
        layer.notes.add(path, NAME_RULE, 'Rename it, for example to "github".', at_key=True)
        return None
    written = layer.notes.check(checks.mapping, value, path, server=name)
    return None if written is None else _Reader(layer, name, written).entry()


def faults(name: str, value: Json) -> list[str]:
    """All that would be wrong with an entry, were it written so."""
    notes = Notes(None, None, lambda path: dotted(path[1:]))
    read_entry(Layer("global", Path(), notes, (), {name: value}, Path()), name, value)
    return [f"{problem.key}: {problem.message}. {problem.fix}".removeprefix(": ") for problem in notes.problems]


class _Reader:
    """Reads the keys of one entry and remembers the first thing that is wrong."""

    def __init__(self, layer: Layer, name: str, written: dict[str, Json]) -> None:
        self._layer = layer
        self._name = name
        self._path = (*layer.path, name)
        self._written = written
        self._kind: str | None = None
        self._problem = ""

    def entry(self) -> Entry:
        transport = None if self._is_overlay() else self._transport()
        if transport is None:
            self._report_ineffective()
        return Entry(
            self._name,
            self._layer,
            transport,
            command=self._take("command", checks.command, ""),
            args=self._take("args", checks.texts, ()),
            env=self._take("env", checks.environment, {}),
            cwd=self._take("cwd", checks.filled, None),
            url=self._take("url", checks.filled, ""),
            headers=self._take("headers", checks.headers, {}),
            enabled=self._take("enabled", checks.flag, None),
            timeout=self._timeout(),
            timeouts=self._take("timeouts", self._bounded, None),
            health=self._take("health", _health, HealthPart()),
            rules=self._rules(),
            kind=self._kind,
            problem=self._problem,
        )

    def _is_overlay(self) -> bool:
        return self._layer.scope != "global" and not {"command", "url"} & self._written.keys()

    def _take(self, key: str, check: Callable[[Json], T], default: T) -> T:
        if key not in self._written:
            return default
        before = len(self._layer.notes.problems)
        found = self._layer.notes.check(check, self._written[key], (*self._path, key), server=self._name)
        for problem in self._layer.notes.problems[before:] if found is None else ():
            self._fail(f"{problem.key} {problem.message}. {problem.fix}")
        return default if found is None else found

    def _fail(self, words: str) -> None:
        self._problem = self._problem or words

    def _report(self, key: str, message: str, fix: str, *, at_key: bool = False) -> None:
        """Note a problem that takes the server out."""
        path = (*self._path, key) if key else self._path
        problem = self._layer.notes.add(path, message, fix, server=self._name, at_key=at_key)
        self._fail(f"{problem.key}: {message}. {fix}")

    def _transport(self) -> Transport:
        """How to reach the server; where that is not clear the nearest guess, with the problem noted."""
        has_command, has_url = "command" in self._written, "url" in self._written
        named = self._kind = self._take("type", checks.filled, None)
        if named is not None and named not in TYPES:
            self._report(
                "type", f'the type "{named}" is not one this gateway speaks', 'Write "stdio", "sse" or "http".'
            )
        elif not has_command and not has_url:
            self._report("", "has neither a command nor a url", 'Write "command" or "url".', at_key=True)
        elif named is None and has_command and has_url:
            self._report("", "has both a command and a url", 'Remove one, or write "type".', at_key=True)
        transport = TYPES.get(named) if named else None
        if transport is None:
            return "stdio" if has_command else "auto"
        if has_command or has_url:
            needed = "command" if transport == "stdio" else "url"
            if needed not in self._written:
                self._report("type", f'is "{named}", but there is no {needed}', f'Write "{needed}", or remove "type".')
        return transport

    def _report_ineffective(self) -> None:
        for key in (key for key in LAUNCH_KEYS if key in self._written):
            message = "has no effect in an entry without command or url"
            fix = 'Such an entry changes only "enabled", "tools", "timeout" and "health" of the server below it.'
            self._layer.notes.add((*self._path, key), message, fix, server=self._name, at_key=True)

    def _timeout(self) -> float | None:
        found = self._take("timeout", checks.seconds, None)
        return None if found is None else self._clamp(found, "timeout")

    def _bounded(self, value: Json) -> Mapping[str, float]:
        return {tool: self._clamp(limit, "timeouts", tool) for tool, limit in checks.timeouts(value).items()}

    def _clamp(self, found: float, *keys: str) -> float:
        if found <= checks.LONGEST_TIMEOUT:
            return found
        fix = f"Write seconds, not milliseconds; {checks.LONGEST_TIMEOUT:.0f} is used."
        message = f"is longer than {checks.LONGEST_TIMEOUT:.0f} seconds"
        self._layer.notes.add((*self._path, *keys), message, fix, server=self._name)
        return checks.LONGEST_TIMEOUT

    def _rules(self) -> Rules | None:
        if "tools" not in self._written:
            return None
        path = (*self._path, "tools")
        source = self._layer.source
        rules = read_server_rules(self._layer.notes, source, path, self._written["tools"], self._name)
        if rules is None:
            problem = self._layer.notes.problems[-1]
            self._fail(f"{problem.key} {problem.message}. {problem.fix}")
            return closed(problem.key, source)
        return rules


def _health(value: Json) -> HealthPart:
    holder = checks.mapping(value)
    return HealthPart(
        checks.member(holder, "interval", checks.seconds, None),
        checks.member(holder, "timeout", checks.seconds, None),
        checks.member(holder, "misses", checks.count, None),
    )
