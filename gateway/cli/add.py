"""`kimi-gateway add`: write a server into a configuration file, and try it."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

from clients.upstream import Upstream
from configs import checks, trust
from configs.document import Document, Json
from configs.edit import put
from configs.entries import NAME_RULE, faults, is_name
from configs.imports.plan import is_gateway
from configs.inline import secrets
from configs.load import SERVERS
from configs.locate import WritableScope
from configs.merge import KIMI
from configs.models import Config
from configs.store import Standing, standings
from configs.variables import names
from gateway.cli.places import file_of, looked_up, write
from gateway.cli.screen import complain, paragraph
from gateway.cli.shown import visible
from gateway.cli.usage import Failed, Usage
from gateway.cli.wiring import log_to_stderr, read_config, run_loop, running
from gateway.protocol.frames import open_object, text

PATIENCE = 60.0
MOST_NAMES = 12


def run(options: argparse.Namespace) -> int:
    name: str = options.name
    entry = described(options)
    before, places = looked_up(options)
    if name == KIMI and before.kimi.enabled:
        raise Failed(f'{KIMI} is built in. Choose another name, or write "kimi": false under "gateway".')
    file = file_of(places, options.scope)
    there = standings(places).get(name, ())

    def added(document: Document) -> str:
        if document.find((SERVERS, name)):
            raise Failed(f"{name} is already in {file}. Choose another name, or `kimi-gateway remove {name}` first.")
        return put(document, (SERVERS, name), entry)

    write(file, added, shared=options.scope == "project")
    paragraph(f"Added {name} to {file}.", "")
    config = read_config(options)
    if options.scope == "project":
        # Whoever adds it has seen it.
        own = [claim for claim in config.claims if claim.name == name and claim.kind == "server"]
        trust.grant(trust.record_file(Path.home(), os.environ), own)
        config = read_config(options)
    _warn(name, entry, options.scope)
    if not _in_force(config, name, there, options.scope) or options.no_check:
        return 0
    log_to_stderr(logging.ERROR)
    return run_loop(_try(config, name))


def described(options: argparse.Namespace) -> dict[str, Json]:
    """The entry that the command line describes.

    Raises:
        Usage: it describes none.
    """
    words: list[str] = options.words
    if not is_name(options.name):
        raise Usage(f"{NAME_RULE}: {visible(options.name)!r}")
    if bool(words) == bool(options.url):
        raise Usage("give either a URL, or -- and a command: kimi-gateway add NAME -- COMMAND …")
    entry: dict[str, Json] = {}
    if options.url:
        if "://" not in options.url and "${" not in options.url:
            raise Usage(f"{options.url!r} is no URL; a command comes after --: add {options.name} -- {options.url} …")
        _check_address(options.url)
        if options.env:
            raise Usage("--env is for a command; a URL takes --header")
        entry = {"type": options.type} if options.type else {}
        entry |= {"url": options.url, "headers": _pairs("--header", options.header, ":")}
    else:
        if options.header or options.type:
            raise Usage("--header and --type are for a URL; a command takes --env")
        entry = {"command": words[0], "args": [*words[1:]], "env": _pairs("--env", options.env, "=")}
    entry = {key: value for key, value in entry.items() if value not in ({}, [])}
    if wrong := faults(options.name, entry):
        raise Usage(wrong[0])
    if is_gateway(entry):
        raise Usage("that is this gateway: it would start itself over and over")
    return entry


def _check_address(url: str) -> None:
    """One that no server can have is refused; with variables in it only its start can tell."""
    if names(url):
        return
    try:
        checks.address(url)
    except checks.Wrong as wrong:
        raise Usage(f"{visible(url)!r} {wrong.message}. {wrong.fix}") from wrong


def _pairs(option: str, given: list[str], mark: str) -> dict[str, Json]:
    pairs: dict[str, Json] = {}
    for pair in given:
        name, found, value = pair.partition(mark)
        if not found or not name.strip():
            raise Usage(f"{option} {visible(pair)!r}: write NAME{mark}VALUE")
        pairs[name.strip()] = value.strip() if mark == ":" else value
    return pairs


def _warn(name: str, entry: dict[str, Json], scope: str) -> None:
    for secret in secrets(name, entry):
        where = "in a file that is shared" if scope == "project" else "there"
        complain(f"{secret.key} is written out {where}. Safer: {secret.better}, with the variable set.")
    command = str(entry.get("command", ""))
    if scope == "user" and "/" in command and not command.startswith(("/", "~", "$")):
        complain(f"{command} is looked for in each project's own directory. Write the whole path if you mean this one.")


def _in_force(config: Config, name: str, there: tuple[Standing, ...], scope: WritableScope) -> bool:
    """Whether what was added is what is used here; where another layer has a say, that is said."""
    server = config.servers.get(name)
    if server is None:
        problem = next((problem for problem in config.problems if problem.server == name), None)
        complain(f"It is not used: {problem}" if problem else "It is not used here.")
        return False
    if server.source.scope != ("project" if scope == "project" else "global"):
        complain(f"In this project the {name} of {server.source} is used instead.")
        return False
    for one in there:
        if scope == "project" and not one.is_overlay:
            complain(f"In this project it takes the place of the {name} in {one.file}.")
    return True


async def _try(config: Config, name: str) -> int:
    async with running(config, only=frozenset((name,))) as gateway:
        gateway.manager.declare(b"{}")
        await gateway.manager.all_tried(PATIENCE)
        upstream = gateway.manager.upstreams[name]
        if upstream.connection is None:
            reason = upstream.cause or upstream.activity or upstream.describe()[0]
            paragraph(f"It cannot be reached now: {reason.rstrip('.')}. {upstream.fix}".rstrip(), "")
            paragraph("It stays in the file; `kimi-gateway status` tries again.", "")
        else:
            for line in _discovered(upstream):
                paragraph(line, "")
    return 0


def _discovered(upstream: Upstream) -> list[str]:
    listing, info = upstream.listing, upstream.introduction
    assert listing is not None and info is not None, "connected without a listing"
    kinds = (("tool", listing.tools), ("prompt", listing.prompts), ("resource", listing.resources))
    counts = [
        f"{len(items)} {kind}{'' if len(items) == 1 else 's'}" for kind, items in kinds if items or kind == "tool"
    ]
    names = [visible(text(open_object(item).get("name")) or "?") for item in listing.tools]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    title = " ".join(text(info.server_info.get(key)) or "" for key in ("name", "version")).strip()
    first = f"Connected: {', '.join(counts)} (MCP {info.version}{f', {visible(title)}' if title else ''})."
    return [first, *([f"  {', '.join(names[:MOST_NAMES])}{more}"] if names else [])]
