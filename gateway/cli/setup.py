"""The grammar of the commands that write configuration."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Command = Callable[[str, str, str], argparse.ArgumentParser]
"""Makes the parser of a command from its name, its help and an example."""

_ALONE = ("-h", "--help", "--no-check")
"""Options of `add` that take no value."""


def add_commands(command: Command) -> None:
    """All of them."""
    add = command(
        "add",
        "add a server, then connect to it once and say what it has",
        "kimi-gateway add files -- npx -y @modelcontextprotocol/server-filesystem .\n"
        "  kimi-gateway add docs https://example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'",
    )
    add.usage = "kimi-gateway add NAME [options] -- COMMAND ...\n       kimi-gateway add NAME URL [options]"
    add.add_argument("name", metavar="NAME", help="what to call it; any name without a colon")
    add.add_argument("url", nargs="?", metavar="URL", help="the address of a remote server; a command comes after --")
    add.add_argument("--type", "--transport", "-t", choices=("sse", "http"), help="how a URL is spoken to; else tried")
    add.add_argument("--header", "-H", action="append", default=[], metavar="K:V", help="a header to send to the URL")
    add.add_argument("--env", "-e", action="append", default=[], metavar="K=V", help="a variable for the command")
    add.add_argument("--no-check", action="store_true", help="do not connect to it now")
    _scope(add, "user: ~/.kode.json, the default; project: the project's .kode.json", default="user")
    _project(add)

    for name, help, example in (
        ("remove", "remove a server from the file it stands in", "kimi-gateway remove files"),
        ("enable", "switch a server on, in the file it stands in", "kimi-gateway enable files"),
        ("disable", "switch a server off, in the file it stands in", "kimi-gateway disable files"),
    ):
        one = command(name, help, example)
        one.add_argument("name", metavar="NAME", help="the server's name")
        one.set_defaults(module="remove" if name == "remove" else "switch", on=name == "enable")
        _project(one)

    take = command(
        "import",
        "take over the servers of other tools; their files are never changed",
        "kimi-gateway import claude --dry-run",
    )
    take.add_argument(
        "origin",
        nargs="?",
        metavar="FILE | TOOL",
        help="a file, or kode, claude, claude-desktop, cursor, vscode, windsurf, codex, gemini, kimi; "
        "default: all that is on this machine",
    )
    take.add_argument("--yes", "-y", action="store_true", help="do not ask")
    take.add_argument("--dry-run", "-n", action="store_true", help="only show what would be done")
    _scope(take, "where to; default: a project's servers into the project's file, others into ~/.kode.json")
    take.set_defaults(module="importing")
    _project(take)

    trust = command(
        "trust", "show what the project's file asks for, and allow it", "kimi-gateway trust --project ~/code/site"
    )
    ways = trust.add_mutually_exclusive_group()
    ways.add_argument("--yes", "-y", action="store_true", help="do not ask")
    ways.add_argument("--list", action="store_true", help="show what is trusted, in all projects")
    ways.add_argument("--revoke", action="store_true", help="trust nothing of this project any more")
    _project(trust)


def arrange(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Arguments as argparse understands them in any order, and the words behind `--` of an `add`."""
    if arguments[:1] != ["add"]:
        return arguments, []
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options: list[str] = []
    places: list[str] = []
    words = iter(arguments[1:cut])
    for word in words:
        if not word.startswith("-"):
            places.append(word)
            continue
        options.append(word)
        joined = "=" in word if word.startswith("--") else len(word) > 2
        if word not in _ALONE and not joined:
            options.extend(value for value in (next(words, None),) if value is not None)
    return ["add", *options, *places], arguments[cut + 1 :]


def _scope(parser: argparse.ArgumentParser, help: str, default: str | None = None) -> None:
    parser.add_argument("--scope", "-s", choices=("user", "project"), default=default, help=help)


def _project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", metavar="DIR", type=Path, help="the project directory; default: found from here upward"
    )
    parser.set_defaults(demo=False)
