"""Ask the person at the terminal, and show what a project asks of them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO, cast

from configs import claims, trust
from configs.locate import NAME
from configs.models import Claim, Config
from gateway.cli.shown import command_line, values, visible

_PLAIN = re.compile(r"[\w.@/-]{1,40}", re.ASCII)
MOST_NAMES = 10
NARROWEST = 40
INDENT = 14
"""Where the facts begin, behind their labels."""


def can_ask() -> bool:
    """Whether a person sits there: input and messages are a terminal, and it is ours to read from."""
    try:
        # A job in the background would be stopped by asking.
        mine = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
    return mine and sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> str:
    """The answer to a question, asked on the terminal itself: stdin may be meant for the protocol."""
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    try:
        with Path("/dev/tty").open(encoding="utf-8", errors="replace") as terminal:
            answer = terminal.readline()
    except OSError:
        return ""
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer.strip()


def agrees(question: str) -> bool:
    return ask(f"{question} [y/N]").lower() in ("y", "yes")


def ask_for_trust(config: Config, read: Callable[[], Config]) -> Config:
    """What the project asks for, shown and asked about where somebody can answer; the configuration after that."""
    waiting = config.untrusted
    if not waiting or not can_ask():
        return config
    for line in described(config, sys.stderr):
        sys.stderr.write(f"{line}\n")
    if not agrees("Trust this?"):
        sys.stderr.write(f"Not trusted, so left out. `{claims.COMMAND}` asks again.\n")
        return config
    trust.grant(trust.record_file(Path.home(), os.environ), waiting)
    return read()


def untrusted_words(config: Config) -> str:
    """What the endpoint tells its clients of a project's servers that are left out; nothing where none is."""
    waiting = config.untrusted
    if not waiting:
        return ""
    # The names are the project's: they must not become instructions of their own.
    names = sorted(claim.name for claim in waiting if claim.kind == "server")
    plain = [name for name in names if _PLAIN.fullmatch(name)][:MOST_NAMES]
    more = len(names) - len(plain)
    listed = ", ".join((*plain, *((f"{more} more",) if more else ())))
    missing = f" Not started: {listed}." if names else ""
    return (
        f"This project's {NAME} asks for things the user has not allowed.{missing} "
        f"If they are needed, ask the user to run `{claims.COMMAND}` in a terminal in the project's directory; "
        "nothing else starts them."
    )


def described(config: Config, stream: TextIO) -> Iterator[str]:
    """All that a project asks for and is not trusted, in lines for people."""
    width = max(shutil.get_terminal_size().columns, NARROWEST) if stream.isatty() else None
    for line in _described(config.untrusted):
        yield from _fitting(line, width) if width else (line,)


def _fitting(line: str, width: int) -> Iterator[str]:
    """The line in parts that a terminal shows as they are, all but the first indented.

    Left to the terminal, the rest of a long line begins at its edge, and padded well it looks like a line of ours.
    """
    from rich.cells import cell_len, chop_cells

    if cell_len(line) <= width:
        yield line
        return
    head, tail = line[:INDENT], line[INDENT:]
    first, *rest = chop_cells(tail, width - cell_len(head))
    yield head + first
    for part in chop_cells("".join(rest), width - INDENT):
        yield " " * INDENT + part


def _described(waiting: Sequence[Claim]) -> Iterator[str]:
    yield f"{waiting[0].source} comes with the project and asks for:"
    for claim in waiting:
        yield ""
        yield f"  {visible(claim.name)}: {_KINDS[claim.kind](claim)}"
        for label, text in _facts(claim):
            yield f"    {label:<9} {text}"  # INDENT characters before the text
    yield ""


def _server(claim: Claim) -> str:
    act = "starts a program" if claim.transport == "stdio" else "connects to a server"
    return f"{act}, in place of your own {visible(claim.name)} in {claim.overrides}" if claim.overrides else act


_KINDS: Mapping[str, Callable[[Claim], str]] = {
    "server": _server,
    "overlay": lambda claim: f"changes your server {visible(claim.name)}",
    "settings": lambda claim: "changes settings of the gateway",
}


def _facts(claim: Claim) -> Iterator[tuple[str, str]]:
    if claim.kind != "server":
        yield "sets", ", ".join(values(claim.written))
    elif claim.transport == "stdio":
        args = cast("list[object]", claim.written.get("args", []))
        yield "command", command_line(str(claim.written.get("command", "")), map(str, args))
        yield "program", visible(claim.executable) or "not found now"
        yield "in", visible(claim.cwd)
    else:
        yield "url", visible(str(claim.written.get("url", "")))
    for key in ("env", "headers") if claim.kind == "server" else ():
        if given := cast("Mapping[str, object]", claim.written.get(key) or {}):
            yield key, ", ".join(values(given))
    if read := claims.variables(claim):
        yield "reads", ", ".join(read)
    yield from _labelled("changed", claim.changes)


def _labelled(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield label, visible(line)
        label = ""
