"""Show what somebody else wrote so that it cannot pass for anything else. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from configs.document import Json
from configs.inline import HIDDEN, is_secret, secrets


def visible(text: str) -> str:
    """The text with everything spelled out that a terminal would act on, hide or show in another order."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def command_line(command: str, args: Iterable[str]) -> str:
    """A command as a shell would take it."""
    return visible(shlex.join((command, *args)))


def values(mapping: Mapping[str, object]) -> Iterator[str]:
    """`NAME=value` as written; what looks like a secret is hidden."""
    for name, value in mapping.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield visible(f"{name}={HIDDEN if is_secret(name, text) else text}")


def launch(server: str, entry: Mapping[str, object]) -> str:
    """What an entry starts or dials, in one line, its secrets hidden."""
    written = cast("Mapping[str, Json]", entry)
    line = visible(str(written.get("url", "")))
    if "command" in written:
        args = written.get("args")
        words = (item for item in (args if isinstance(args, list) else []) if isinstance(item, str))
        line = command_line(str(written["command"]), words)
    for secret in secrets(server, written):
        if secret.key.startswith(("args", "url")):
            line = line.replace(visible(secret.text), HIDDEN)
    return line
