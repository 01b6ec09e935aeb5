"""Decide which tools and which servers a caller may see, and say why not. Pure.

How a pattern is read (`*`, `?`, `[…]`; case counts):

- In a server's own rules it is held against the tool's name; one with a `:` also against `server:tool`.
- In the gateway's and a profile's rules one with a `:` is held against `server:tool`. One without is held
  against the tool's name on any server, in a deny list against `server:tool` too: in doubt a rule narrows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate

from configs.models import Config, Globs, Rules, Source

NOTHING = r"(?!)"
"""An expression that matches nothing."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """The rule that hides something, and the place it was written."""

    reason: str
    """`deny "delete_*"`"""
    label: str
    source: Source

    def __str__(self) -> str:
        return f"hidden by {self.reason} ({self.label} in {self.source})"


class ToolFilter:
    """All levels of rules for one caller: every level must agree, so each can only narrow."""

    def __init__(
        self,
        servers: Mapping[str, Sequence[Rules]],
        gateway: Sequence[Rules] = (),
        profile: Sequence[Rules] = (),
    ) -> None:
        self._own = {name: tuple(_Level(rules, own=True) for rules in levels) for name, levels in servers.items()}
        self._shared = tuple(level for rules in (*gateway, *profile) if not (level := _Level(rules)).trivial)

    @classmethod
    def of(cls, config: Config, profile: str | None = None) -> ToolFilter:
        """The filter of a configuration under a profile.

        Raises:
            KeyError: there is no such profile.
        """
        servers = {name: server.rules for name, server in config.servers.items()}
        return cls(servers, config.rules, config.profiles[profile] if profile is not None else ())

    def hidden_by(self, server: str, tool: str, read_only_hint: bool) -> Hidden | None:
        """The first rule that hides a tool; `None` if it is visible."""
        return next(self._reasons(server, tool, read_only_hint), None)

    def server_hidden(self, server: str, tools: Iterable[tuple[str, bool]]) -> Hidden | None:
        """The rule that hides a server whole, given all tools it offers with their read-only hints.

        A level with `servers` decides by those. The others decide together: the server is hidden if they take
        a tool from it and none is left. A server that offers no tool is hidden if no allow pattern could name
        one of it, or a deny pattern names all there could be. Its own rules alone never hide it.
        """
        for level in self._shared:
            if level.servers and (hidden := level.servers.hidden(server)):
                return hidden
        judges = [level for level in self._shared if not level.servers]
        if not judges:
            return None
        offered = [(f"{server}:{tool}", hint) for tool, hint in tools]
        if not offered:
            return next((level.leaves_none() for level in judges if not level.could_show(server)), None)
        everyone = (*self._own.get(server, ()), *judges)
        if any(not any(level.hides(*tool) for level in everyone) for tool in offered):
            return None
        taken = [sum(level.hides(*tool) for tool in offered) for level in judges]
        return judges[taken.index(most)].leaves_none() if (most := max(taken)) else None

    def visible(self, server: str, tools: Iterable[tuple[str, bool]]) -> bool:
        """Whether a server's prompts, resources, completions, notifications and instructions may be seen."""
        return self.server_hidden(server, tools) is None

    def explain(self, name: str, read_only_hint: bool) -> str:
        """Every rule that hides `server:tool`, in a sentence."""
        server, _, tool = name.partition(":")
        reasons = "; ".join(map(str, self._reasons(server, tool, read_only_hint)))
        return f"{name} is {reasons or 'visible'}"

    def _reasons(self, server: str, tool: str, read_only_hint: bool) -> Iterator[Hidden]:
        key = f"{server}:{tool}"
        for level in (*self._own.get(server, ()), *self._shared):
            if level.hides(key, read_only_hint):
                yield level.why(key)
            if level.servers and (hidden := level.servers.hidden(server)):
                yield hidden


class _Level:
    """One set of rules, compiled."""

    __slots__ = ("_allow", "_deny", "_read_only", "_rules", "servers")

    def __init__(self, rules: Rules, *, own: bool = False) -> None:
        self._rules = rules
        self._read_only = rules.read_only
        self._allow = _Patterns(rules.tools.allow, _on_own if own else _in_allow)
        self._deny = _Patterns(rules.tools.deny, _on_own if own else _in_deny)
        self.servers = None if own or rules.servers is None else _ServerNames(rules, rules.servers)

    @property
    def trivial(self) -> bool:
        return self._allow.all and not (self._rules.tools.deny or self._read_only or self.servers)

    def hides(self, key: str, read_only_hint: bool) -> bool:
        if self._read_only and not read_only_hint:
            return True
        return self._deny.match(key) is not None or not (self._allow.all or self._allow.match(key))

    def why(self, key: str) -> Hidden:
        """The reason for a tool that is hidden here."""
        denied = self._deny.which(key)
        if denied is not None:
            return self._hidden(f'deny "{denied}"')
        if self._allow.match(key):
            return self._hidden("readOnly, as it does not say readOnlyHint: true")
        return self._hidden(f"allow {_quoted(self._rules.tools.allow)}, which does not match it")

    def could_show(self, server: str) -> bool:
        """Whether a tool of this server, whatever its name, could be visible."""
        allow, deny = self._rules.tools.allow, self._rules.tools.deny
        if any(fnmatchcase(f"{server}:", pattern) for pattern in deny if pattern.endswith("*")):
            return False
        return any(":" not in pattern or fnmatchcase(server, pattern.partition(":")[0]) for pattern in allow)

    def leaves_none(self) -> Hidden:
        return self._hidden("a filter that leaves it no tool")

    def _hidden(self, reason: str) -> Hidden:
        return Hidden(reason, self._rules.label, self._rules.source)


class _ServerNames:
    """The `servers` beside a level's `tools`, compiled."""

    __slots__ = ("_allow", "_deny", "_globs", "_label", "_source")

    def __init__(self, rules: Rules, globs: Globs) -> None:
        self._label = f"{rules.label.removesuffix('.tools')}.servers"
        self._source = rules.source
        self._globs = globs
        self._allow = _Patterns(globs.allow, translate)
        self._deny = _Patterns(globs.deny, translate)

    def hidden(self, server: str) -> Hidden | None:
        denied = self._deny.which(server)
        if denied is not None:
            return Hidden(f'deny "{denied}"', self._label, self._source)
        if self._allow.match(server):
            return None
        reason = f"allow {_quoted(self._globs.allow)}, which does not match it"
        return Hidden(reason, self._label, self._source)


class _Patterns:
    """Glob patterns as one expression, a group for each."""

    __slots__ = ("_patterns", "all", "match")

    match: Callable[[str], re.Match[str] | None]

    def __init__(self, patterns: Sequence[str], expression: Callable[[str], str]) -> None:
        self.all = "*" in patterns
        # One that takes all makes the others idle.
        self._patterns = ("*",) if self.all else tuple(patterns)
        groups = "|".join(f"({expression(pattern)})" for pattern in self._patterns)
        self.match = re.compile(groups or NOTHING).match

    def which(self, text: str) -> str | None:
        found = self.match(text)
        return self._patterns[found.lastindex - 1] if found and found.lastindex else None


def _on_tool(pattern: str) -> str:
    """Held against a key, matches where the pattern matches the tool's name."""
    return f"[^:]*:{translate(pattern)}"


def _on_own(pattern: str) -> str:
    return f"{_on_tool(pattern)}|{translate(pattern)}" if ":" in pattern else _on_tool(pattern)


def _in_allow(pattern: str) -> str:
    return translate(pattern) if ":" in pattern else _on_tool(pattern)


def _in_deny(pattern: str) -> str:
    return translate(pattern) if ":" in pattern else f"{_on_tool(pattern)}|{translate(pattern)}"


def _quoted(patterns: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{pattern}"' for pattern in patterns) + "]"
