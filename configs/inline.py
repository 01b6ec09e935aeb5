"""Spot secrets that are written out in an entry, and name the variable to write instead. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from configs.document import Json
from configs.variables import names

_NAME = re.compile(r"(?i)(?:^|[^a-z])(?:api|access|private|secret)?[_-]?(?:key|token|secret|passw(?:or)?d|pat|auth|"
                   r"authorization|credentials?|cookie|dsn)s?(?:$|[^a-z])")  # fmt: skip
_LOOKS = re.compile(
    r"(?:^|[\s=:])(?:gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|sk-[\w-]{8,}|xox[a-z]-[\w-]{8,}|AKIA\w{12,}"
    r"|AIza[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]+\.?[\w-]*)"
)
_HUMP = re.compile(r"([a-z0-9])([A-Z])")
_OPTION = re.compile(r"(?s)(--?[\w-]+)=(.*)")
_SCHEME = re.compile(r"(?i)(bearer|basic|token)\s+")
HIDDEN = "•••"


class Secret(NamedTuple):
    """A secret written out."""

    key: str
    """Where: `env.TOKEN`, `args[3]`."""
    better: str
    """What to write there."""
    text: str
    """The whole value as it stands."""


def secrets(server: str, entry: Mapping[str, Json]) -> tuple[Secret, ...]:
    """Every secret of an entry that is not left to a variable."""
    return (*_of_map(server, entry, "env"), *_of_map(server, entry, "headers"), *_of_args(server, entry),
            *_of_url(server, entry))  # fmt: skip


def is_secret(name: str, value: str) -> bool:
    """Whether a value of this name is one nobody should see."""
    if not value or names(value):
        return False
    named = bool(_NAME.search(_HUMP.sub(r"\1_\2", name)))
    return bool(_LOOKS.search(value)) or (named and value.lower() not in ("true", "false", "1", "0"))


def _of_map(server: str, entry: Mapping[str, Json], key: str) -> Iterator[Secret]:
    values = entry.get(key)
    for name, value in (values if isinstance(values, dict) else {}).items():
        if isinstance(value, str) and is_secret(name, value):
            scheme = _SCHEME.match(value)
            variable = _variable(name) if key == "env" else _variable(server, "token")
            yield Secret(f"{key}.{name}", f"{scheme[0] if scheme else ''}${{{variable}}}", value)


def _of_args(server: str, entry: Mapping[str, Json]) -> Iterator[Secret]:
    args = entry.get("args")
    option = ""
    for index, value in enumerate(args if isinstance(args, list) else []):
        if not isinstance(value, str):
            continue
        joined = _OPTION.fullmatch(value)
        name, text = (joined[1], joined[2]) if joined else (option, value)
        option = "" if joined or not value.startswith("-") else value
        if is_secret(name, text) and value != option:
            variable = _variable(server, name.strip("-") or "token")
            yield Secret(f"args[{index}]", f"{name}=${{{variable}}}" if joined else f"${{{variable}}}", value)


def _of_url(server: str, entry: Mapping[str, Json]) -> Iterator[Secret]:
    url = entry.get("url")
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return
    found = [value for name, value in parse_qsl(parts.query) if is_secret(name, value)]
    if parts.password and not names(parts.password):
        found.append(parts.password)
    for value in found:
        yield Secret("url", f"${{{_variable(server, 'token')}}} in place of it", value)


def _variable(*words: str) -> str:
    name = re.sub(r"\W+|-", "_", "_".join(words), flags=re.ASCII).strip("_").upper()
    return f"_{name}" if name[:1].isdigit() else name or "TOKEN"
