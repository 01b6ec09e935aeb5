"""`kimi-gateway tools`: the registry."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from configs.models import Config
from gateway.cli.nearest import did_you_mean
from gateway.cli.progress import all_tried
from gateway.cli.schemas import Schema, kind, parameters, signature
from gateway.cli.screen import complain, headline, paragraph, say, say_json, sentence, table
from gateway.cli.wiring import NO_SERVERS, Gateway, check_profile, configure, log_to_stderr, run_loop, running
from gateway.naming import canonical, split
from gateway.registry import Item

PATIENCE = 30.0
CHARACTERS_PER_TOKEN = 4
"""A rule of thumb that holds for English and JSON within a fifth or so."""


class Row(NamedTuple):
    name: str
    item: Item
    hidden: str | None

    @property
    def tool(self) -> dict[str, Any]:
        """As its server described it."""
        return json.loads(self.item.original)

    @property
    def cost(self) -> int:
        """Characters of what a client hands to its model: name, description and parameters."""
        tool = self.tool
        shown = {"name": self.item.wire, "description": tool.get("description"), "parameters": tool.get("inputSchema")}
        return len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")))


def run(options: argparse.Namespace) -> int:
    config = configure(options)
    check_profile(config, options.profile)
    log_to_stderr(logging.WARNING)
    return run_loop(show(config, options))


async def show(config: Config, options: argparse.Namespace) -> int:
    async with running(config) as gateway:
        gateway.manager.declare(b"{}")
        await all_tried(gateway, PATIENCE)
        every = _rows(gateway, options.profile)
        rows = [row for row in every if _wanted(row, options)]
        _print(rows, options)
        if not rows and options.pattern:
            _say_nothing_matches(every, options)
        _say_missing(gateway)
    return 0


def _print(rows: list[Row], options: argparse.Namespace) -> None:
    if options.json:
        say_json([_described(row, options) for row in rows])
    elif options.tokens:
        _print_costs(rows)
    elif options.pattern:
        for row in rows:
            _print_whole(row, options.all)
    elif rows:
        _print_table(rows, options.all)


def _print_table(rows: list[Row], all: bool) -> None:
    described = [(row, str(row.tool.get("description") or "").strip()) for row in rows]
    if not sys.stdout.isatty():
        hidden = ("HIDDEN",) if all else ()
        lines = [(row.name, row.item.wire, words, *((row.hidden or "",) if all else ())) for row, words in described]
        table(("TOOL", "ON THE WIRE", "DESCRIPTION", *hidden), lines)
        return
    # A terminal has room for the first line of what it does; the name on the wire is for scripts and `tools PATTERN`.
    brief = [(row.name, words.split("\n")[0]) for row, words in described]
    table(("TOOL", "DESCRIPTION"), brief, _style, cut=("DESCRIPTION",))
    for row in rows:
        if row.hidden:
            paragraph(f"{row.name} is {row.hidden}", "")


def _rows(gateway: Gateway, profile: str | None) -> list[Row]:
    view = gateway.registry.view(profile)
    rows: list[Row] = []
    for server, shelf in gateway.registry.snapshot.shelves.items():
        for item in shelf.tools:
            name = canonical(server, item.name)
            rows.append(Row(name, item, str(view.hidden[name]) if name in view.hidden else None))
    return sorted(rows, key=lambda row: row.name)


def _wanted(row: Row, options: argparse.Namespace) -> bool:
    if row.hidden and not options.all:
        return False
    return options.pattern is None or _matches(row, options.pattern)


def _matches(row: Row, pattern: str) -> bool:
    """A glob over `server:tool`, the tool's own name or its name on the wire; a server's name means all it has."""
    server = split(row.name)[0]
    return pattern == server or any(fnmatchcase(name, pattern) for name in (row.name, row.item.name, row.item.wire))


def _described(row: Row, options: argparse.Namespace) -> dict[str, object]:
    described: dict[str, object] = {"name": row.name, "wire_name": row.item.wire}
    described |= {key: value for key, value in row.tool.items() if key not in described}
    if options.all:
        described["hidden"] = row.hidden
    if options.tokens:
        described["tokens"] = _tokens(row.cost)
    return described


def _style(heading: str, cell: str) -> str:
    return "bold" if heading in ("TOOL", "SERVER") else ""


def _print_whole(row: Row, all: bool) -> None:
    tool = row.tool
    schema: Schema = tool.get("inputSchema") or {}
    headline(signature(row.name, schema, tool.get("outputSchema")))
    if row.item.wire != row.name:
        say(f"  on the wire: {row.item.wire}")
    if all and row.hidden:
        paragraph(row.hidden, "  ")
    annotations: dict[str, object] = tool.get("annotations") or {}
    if annotations:
        words = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in annotations.items())
        paragraph(f"annotations: {', '.join(words)}", "  ")
    paragraph(str(tool.get("description") or "(no description)").strip(), "  ")
    for key, one in parameters(schema).items():
        if one.get("description"):
            paragraph(f"{key} ({kind(one, schema)}): {one['description']}", "    ")
    say("")


def _print_costs(rows: list[Row]) -> None:
    costs: dict[str, list[int]] = {}
    for row in rows:
        costs.setdefault(split(row.name)[0], []).append(row.cost)
    lines = [(server, *_cost_cells(found)) for server, found in costs.items()]
    total = ("total", *_cost_cells([cost for found in costs.values() for cost in found]))
    table(("SERVER", "TOOLS", "CHARACTERS", "TOKENS, ABOUT"), [*lines, total], _style)


def _cost_cells(costs: list[int]) -> tuple[str, ...]:
    return (str(len(costs)), str(sum(costs)), str(sum(map(_tokens, costs))))


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _say_nothing_matches(every: list[Row], options: argparse.Namespace) -> None:
    hidden = sum(1 for row in every if row.hidden and _matches(row, options.pattern))
    if hidden:
        complain(f"{options.pattern!r} matches only hidden tools ({hidden}); --all shows them and the rules.")
        return
    shown = [row.name for row in every if options.all or not row.hidden]
    complain(f"No tool matches {options.pattern!r}. {did_you_mean(options.pattern, shown)}".rstrip())


def _say_missing(gateway: Gateway) -> None:
    """A listing that lacks a server says so."""
    if not gateway.manager.upstreams:
        complain(NO_SERVERS)
    for upstream in gateway.manager.upstreams.values():
        if upstream.connection is None and upstream.server.enabled and not upstream.resting:
            reason, advice = upstream.describe()
            complain(f"{upstream.name} {sentence(reason)} {advice}".rstrip())
