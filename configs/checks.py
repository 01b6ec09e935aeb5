"""Check one plain value of a configuration file and say what is wrong with it. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from configs.document import Json, KeyPath

T = TypeVar("T")

LONGEST_TIMEOUT = 3600.0

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Wrong(Exception):
    """A value that does not fit: what is wrong, what to write instead, and where below the value it is."""

    def __init__(self, message: str, fix: str, at: KeyPath = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.at = at


def kind(value: Json) -> str:
    """What a value is, in words."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object"


def below(check: Callable[[Json], T], value: Json, key: str | int) -> T:
    """Check what stands under a key, so that a complaint names the key."""
    try:
        return check(value)
    except Wrong as wrong:
        raise Wrong(wrong.message, wrong.fix, (key, *wrong.at)) from None


def member(holder: Mapping[str, Json], key: str, check: Callable[[Json], T], default: T) -> T:
    """A checked member of an object, or the default where it is not written."""
    return below(check, holder[key], key) if key in holder else default


def text(value: Json) -> str:
    if not isinstance(value, str):
        quoted = json.dumps(value) if isinstance(value, bool | int | float) else "…"
        fix = f'Write "{quoted if len(quoted) < 20 else "…"}", in quotes.'
        raise Wrong(f"must be text, not {kind(value)}", fix)
    # Neither an argument list nor a header can carry these; better said here than by a failing spawn.
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Wrong("holds a character that cannot be passed on", "Remove the NUL or the half of a surrogate pair.")
    return value


def filled(value: Json) -> str:
    if not text(value).strip():
        raise Wrong("is empty", "Write something, or remove the key.")
    return text(value)


def command(value: Json) -> str:
    if isinstance(value, list):
        raise Wrong("must be text, not a list", 'Write the program as "command" and the rest as "args": ["…"].')
    return filled(value)


def flag(value: Json) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {kind(value)}", "Write true or false, without quotes.")
    return value


def seconds(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Wrong(f"must be a number of seconds, not {kind(value)}", "Write a number like 60, without quotes.")
    if not 0 < value < math.inf:
        raise Wrong("must be more than 0 seconds", "Write a number like 60.")
    return float(min(value, 1e12))


def count(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(f"must be a whole number, not {kind(value)}", "Write a number like 2, without quotes.")
    if value < 1:
        raise Wrong("must be at least 1", "Write a number like 2.")
    return value


def mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise Wrong(f"must be an object, not {kind(value)}", "Write { … }.")
    return value


def texts(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Wrong(f"must be a list of texts, not {kind(value)}", 'Write ["…", "…"].')
    return tuple(below(text, item, index) for index, item in enumerate(value))


def text_map(value: Json) -> Mapping[str, str]:
    return {key: below(text, item, key) for key, item in mapping(value).items()}


def environment(value: Json) -> Mapping[str, str]:
    for name in mapping(value):
        if not name or "=" in name or "\0" in name:
            raise Wrong("is no name for a variable", 'Write a name without "=".', (name,))
    return text_map(value)


def headers(value: Json) -> Mapping[str, str]:
    for name in mapping(value):
        if not _HEADER_NAME.fullmatch(name):
            raise Wrong("is no name for a header", 'Write a name like "Authorization".', (name,))
    return text_map(value)


def timeouts(value: Json) -> Mapping[str, float]:
    return {name: below(seconds, item, name) for name, item in mapping(value).items()}


def address(url: str) -> None:
    """Check a URL whose variables are expanded; it may hold a secret, so it is not quoted."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(character.isspace() for character in url):
        raise Wrong("is not a web address", 'Write a url like "https://example.com/mcp".')


def header_value(value: str) -> None:
    if "\r" in value or "\n" in value:
        raise Wrong("holds a line break", "Write it in one line; check the variable it comes from.")
