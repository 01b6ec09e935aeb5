"""`kimi-gateway doctor`: what is wrong, and what to do."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path

from clients.upstream import Upstream
from configs.kimi import load as load_kimi
from configs.models import Config
from gateway.cli import checkup, running_file
from gateway.cli.findings import Finding, Level, judged, ok
from gateway.cli.progress import all_tried
from gateway.cli.report import name_clashes
from gateway.cli.screen import flat, harmless, say, say_json
from gateway.cli.wiring import Gateway, check_project, configure, log_to_stderr, read_config, run_loop, running
from servers.kimi.api import from_environment
from servers.kimi.cli.installed import Finder
from servers.kimi.failure import ADVICE, KEYS, Failure
from servers.kimi.upstream import NAME as KIMI

PATIENCE = 30.0
MARKS: dict[Level, tuple[str, str]] = {"ok": ("✓", "green"), "note": ("!", "yellow"), "problem": ("✗", "red")}
TRY = {
    True: "Run its command by hand to see more, and mend what it says.",
    False: "Check that it runs, and the url in its entry.",
}
"""What to do about a server that says no better: a program's, an address's."""
GENERATIONS = {"code": "Kimi Code", "legacy": "the old kimi-cli"}


def run(options: argparse.Namespace) -> int:
    check_project(options)
    # On a terminal each problem is seen as a finding in its place.
    config = read_config(options) if sys.stdout.isatty() else configure(options)
    log_to_stderr(logging.ERROR)
    findings = run_loop(examine(config, options))
    well = all(finding.level != "problem" for finding in findings)
    if options.json:
        say_json({"ok": well, "findings": [one.as_json() for one in findings]})
    else:
        _show(findings)
    return 0 if well else 1


async def examine(config: Config, options: argparse.Namespace) -> list[Finding]:
    home = Path.home()
    found = [checkup.python(), *checkup.config_files(config, home, Path.cwd(), options.project)]
    found += [*checkup.variables(os.environ), *checkup.trust(config), *checkup.programs(config, os.environ)]
    found += [_port(config, home), *checkup.directories(home, os.environ)]
    found += [one async for one in kimi(config)]
    return found + await servers(config)


async def servers(config: Config) -> list[Finding]:
    """Shake hands with every server that could be started, and time it."""
    ready: dict[str, float] = {}
    async with running(config) as gateway, asyncio.TaskGroup() as group:
        started = asyncio.get_running_loop().time()

        async def clock(upstream: Upstream) -> None:
            await upstream.tried.wait()
            ready[upstream.name] = asyncio.get_running_loop().time() - started

        clocks = [group.create_task(clock(one)) for one in gateway.manager.upstreams.values()]
        gateway.manager.declare(b"{}")
        await all_tried(gateway, PATIENCE)
        for one in clocks:
            one.cancel()
        return [*_handshakes(gateway, config, ready), *_clashes(gateway)]


def _handshakes(gateway: Gateway, config: Config, ready: dict[str, float]) -> Iterator[Finding]:
    for name, upstream in sorted(gateway.manager.upstreams.items()):
        server = upstream.server
        if not server.enabled or upstream.resting or server.problem:
            continue  # what keeps it from starting was found already
        info = upstream.introduction
        if upstream.connection is not None and info is not None:
            tools = len(upstream.listing.tools) if upstream.listing else 0
            took = f"{ready[name]:.2f} s" if name in ready else f"over {PATIENCE:.0f} s"
            yield ok("server", f"ready in {took}, protocol {info.version}, {tools} tools", name)
            noise = upstream.channel.noise.count if upstream.channel else 0
            if noise:
                words = f"wrote {noise} {'line' if noise == 1 else 'lines'} of no frames to its output"
                yield Finding("note", "server", words, "Tell its author: stdout is for frames, stderr for words.", name)
        elif server.transport != "stdio" or checkup.program(server, config.project, os.environ):
            words = upstream.cause or upstream.activity or upstream.describe()[0]
            yield judged("server", True, flat(words), upstream.fix or TRY[server.transport == "stdio"], name)


def _clashes(gateway: Gateway) -> Iterator[Finding]:
    for clash in name_clashes(gateway.registry.snapshot):
        server = clash.key.partition(":")[0]
        yield Finding("note", "names", str(clash), f"Rename the server {server} to have plain names again.", server)


def _port(config: Config, home: Path) -> Finding:
    there = running_file.read(running_file.place(config.project, home, os.environ), config.project)
    if there is not None:
        return ok("port", f"a gateway of this project runs at {there.url} (pid {there.pid})")
    return checkup.port()


async def kimi(config: Config) -> AsyncGenerator[Finding]:
    """Which Kimi there is. It comes with the gateway: nobody who does not use it has a problem."""
    server = config.servers.get(KIMI)
    if server is None or server.source.scope != "builtin":
        return
    settings, warnings = load_kimi(Path.home(), os.environ)
    for warning in warnings:
        yield Finding("note", "kimi", warning, "Correct the value.", KIMI)
    key = from_environment(os.environ)
    try:
        cli = await Finder(os.environ).find() if settings.backend != "api" else None
    except Failure as failure:
        if key is None or settings.backend == "cli":
            fix = f'{ADVICE[failure.kind]} Or write "kimi": false under "gateway".'
            yield Finding("note", "kimi", f"{failure.words}; its tools will fail", fix, KIMI)
            return
        cli = None
    if cli is not None:
        yield ok("kimi", f"{GENERATIONS[cli.generation]} {cli.version} at {cli.path}", KIMI)
    if key is not None:
        yield ok("kimi", f"a key for {key.url} is set", KIMI)
    elif cli is None:
        yield Finding("note", "kimi", "there is no key for its API", f"Set {KEYS}.", KIMI)
    else:
        yield ok("kimi", "no key is set: the CLI's own login is used", KIMI)


def _show(findings: Iterable[Finding]) -> None:
    found = list(findings)
    if not sys.stdout.isatty():
        for one in found:
            say("\t".join(map(flat, (one.level, one.check, one.server or "", one.message, one.fix))))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table.grid(padding=(0, 1))
    for one in found:
        mark, colour = MARKS[one.level]
        drawn.add_row(
            Text(mark, colour), Text.assemble((f"{one.server or one.check}: ", "bold"), harmless(one.message))
        )
        if one.fix:
            drawn.add_row("", Text(f"→ {harmless(one.fix)}", "dim"))
    console = Console()
    console.print(drawn)
    problems = sum(one.level == "problem" for one in found)
    verdict = Text("All is well.", "green") if not problems else Text(f"{problems} to mend.", "red")
    console.print(verdict)
