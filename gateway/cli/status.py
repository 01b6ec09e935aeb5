"""`kimi-gateway status`: every server and how it is."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from configs.models import Config
from gateway.cli import remote, running_file
from gateway.cli.progress import all_tried
from gateway.cli.report import Report, report
from gateway.cli.screen import complain, paragraph, say_json, sentence, table
from gateway.cli.wiring import NO_SERVERS, configure, log_to_stderr, run_loop, running

PATIENCE = 20.0
COLOURS = {
    "ready": "green",
    "idle": "dim",
    "disabled": "dim",
    "connecting": "yellow",
    "held": "yellow",
    "waiting": "yellow",
    "failed": "red",
}


def run(options: argparse.Namespace) -> int:
    config = configure(options)
    log_to_stderr(logging.WARNING)
    # A gateway that runs has no demo server, unless it was started with one: then it lists it by itself.
    found = None if options.demo else ask_running(config)
    show(found or run_loop(look(config)), as_json=options.json)
    return 0


def ask_running(config: Config) -> Report | None:
    """What the gateway says that runs for this project, if there is one."""
    file = running_file.place(config.project, Path.home(), os.environ)
    there = running_file.read(file, config.project)
    if there is None:
        return None
    try:
        return remote.ask(there)
    except remote.Unreachable as error:
        complain(f"The gateway at {there.url} (pid {there.pid}) did not answer: {error}. Connecting from here.")
        return None


async def look(config: Config) -> Report:
    """Connect to every server, once."""
    async with running(config) as gateway:
        gateway.manager.declare(b"{}")
        await all_tried(gateway, PATIENCE)
        return report(gateway)


def show(found: Report, *, as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    servers = cast("dict[str, dict[str, Any]]", found["servers"])
    origin = cast("dict[str, Any] | None", found.get("gateway"))
    if origin:
        complain(f"As the gateway at {origin['url']} (pid {origin['pid']}) has it:")
    if not servers:
        complain(NO_SERVERS)
    elif sys.stdout.isatty():
        table(("SERVER", *BRIEF), [(name, *_brief(one)) for name, one in servers.items()], _colour)
        for line in _remarks(servers):
            paragraph(line, "")
    else:
        table(("SERVER", *FULL), [(name, *_full(one)) for name, one in servers.items()])
    for clash in cast("list[str]", found.get("clashes", [])):
        complain(f"name clash: {clash}")


BRIEF = ("STATE", "TRANSPORT", "PROTOCOL", "TOOLS", "P50", "RESTARTS")
FULL = ("STATE", "TRANSPORT", "ERA", "VERSION", "TOOLS", "P50", "RESTARTS", "GARBAGE", "NEXT TRY", "ERROR")


def _brief(one: dict[str, Any]) -> tuple[str, ...]:
    protocol = f"{one['version']} {one['era']}" if one["version"] else ""
    return (one["state"], one["transport"], protocol, str(one["tools"]), _latency(one), str(one["restarts"]))


def _full(one: dict[str, Any]) -> tuple[str, ...]:
    garbage: dict[str, Any] = one.get("garbage") or {}
    return (
        one["state"],
        one["transport"],
        one["era"] or "",
        one["version"] or "",
        str(one["tools"]),
        _latency(one),
        str(one["restarts"]),
        str(garbage.get("count", 0)),
        _next_try(one),
        " ".join(filter(None, (sentence(one["error"] or ""), one.get("fix")))),
    )


def _remarks(servers: dict[str, dict[str, Any]]) -> list[str]:
    """What does not fit a column: why a server is away, what to do, and when it is tried again."""
    lines: list[str] = []
    for name, one in servers.items():
        if one["error"]:
            again = f"Next try {_next_try(one)}." if one["next_try"] else ""
            words = (f"{name}: {sentence(one['error'])}", one.get("fix"), again)
            lines.append(" ".join(filter(None, words)))
        garbage: dict[str, Any] = one.get("garbage") or {}
        if garbage.get("count"):
            lines.append(f"{name}: what it wrote besides frames: {garbage['count']}, last: {garbage['last'][-1]}")
    return lines


def _latency(one: dict[str, Any]) -> str:
    return "" if one["latency_ms"] is None else f"{one['latency_ms']:.3g} ms"


def _next_try(one: dict[str, Any]) -> str:
    at: float | None = one["next_try"]
    return "" if at is None else f"in {max(0.0, at - time.time()):.0f} s"


def _colour(heading: str, cell: str) -> str:
    return COLOURS.get(cell, "") if heading == "STATE" else "bold" if heading == "SERVER" else ""
