"""Replace `${VAR}` and `${VAR:-default}` in a text by what the environment says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# A default ends at the first closing brace: there is no nesting and no escaping, so what is written can be read.
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

SHORTEST_SECRET = 4
_NO_SECRETS = frozenset({"true", "false", "null", "none"})
# Their values stand in every path and log line; masking them would hide everything and protect nothing.
_PUBLIC = ("HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER")


class Unset(Exception):
    """A variable without a default that the environment does not have."""

    def __init__(self, variable: str) -> None:
        super().__init__(variable)
        self.variable = variable


class Expanded(NamedTuple):
    """A text with its variables replaced, and the values that came from the environment."""

    text: str
    values: frozenset[str] = frozenset()


def expand(text: str, environ: Mapping[str, str]) -> Expanded:
    """Replace the variables of a text, once: what a value contains is not expanded again.

    Raises:
        Unset: for the first variable that has neither value nor default.
    """
    values: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        value = environ.get(name)
        if default is not None and not value:
            return default
        if value is None:
            raise Unset(name)
        values.add(value)
        return value

    return Expanded(_VARIABLE.sub(value_of, text), frozenset(values))


def names(text: str) -> tuple[str, ...]:
    """The variables a text would read, in order."""
    return tuple(match.group(1) for match in _VARIABLE.finditer(text))


def secrets(values: Iterable[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Those of the values that are worth masking wherever they are shown."""
    public = {environ.get(name) for name in _PUBLIC}
    return frozenset(
        value
        for value in values
        if len(value) >= SHORTEST_SECRET and value.lower() not in _NO_SECRETS and value not in public
    )
