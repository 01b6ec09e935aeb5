"""`kimi-gateway import`: take over the servers of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from difflib import get_close_matches
from functools import reduce
from pathlib import Path

from configs import claims
from configs.document import Fault, parse
from configs.edit import put
from configs.imports.plan import Row, Target, plan
from configs.imports.reading import Where
from configs.imports.sources import Reading, Source, by_name, of_file, on_this_machine, read_source
from configs.imports.tools import TOOLS
from configs.inline import secrets
from configs.load import SERVERS
from configs.locate import Places
from configs.merge import KIMI
from configs.store import standings
from gateway.cli.consent import agrees, ask, can_ask
from gateway.cli.places import file_of, looked_up, write
from gateway.cli.screen import complain, paragraph, table
from gateway.cli.shown import launch, visible
from gateway.cli.usage import Failed, Usage


def run(options: argparse.Namespace) -> int:
    config, places = looked_up(options)
    file = places.writable("project")
    where = Where(file.parent if file else places.project)
    readings = [read_source(source, where) for source in _sources(options.origin, places)]
    for reading in readings:
        if reading.fault:
            complain(reading.fault)
    full = [reading for reading in readings if reading.found]
    if options.origin is None and not (options.yes or options.dry_run) and len(full) > 1 and can_ask():
        full = _chosen(full)
    if not full:
        complain("There is nothing to import.")
        return 1 if any(reading.fault for reading in readings) else 0
    rows = _planned(full, options, places, (KIMI,) if config.kimi.enabled else ())
    _show(rows)
    return _carry_out(rows, options)


def _sources(origin: str | None, places: Places) -> list[Source]:
    """The files that are meant.

    Raises:
        Usage: neither a file nor a tool.
        Failed: a file that cannot be read.
    """
    home = Path.home()
    directories = [candidate.parent for candidate in places.candidates]
    if origin is None:
        # The user's own `.kode.json` is where it all goes.
        return [source for source in on_this_machine(home, directories) if source.file != places.personal]
    if Path(origin).is_file():
        try:
            return [of_file(Path(origin), home, directories)]
        except Fault as fault:
            raise Failed(f"{origin}:{fault}") from fault
    tool = by_name(origin)
    if tool is None:
        names = [tool.name for tool in TOOLS]
        near = get_close_matches(origin.lower(), names, n=1, cutoff=0.6)
        hint = f"Did you mean {near[0]}?" if near else f"Tools: {', '.join(names)}."
        raise Usage(f"{visible(origin)!r} is neither a file nor a tool. {hint}")
    found = on_this_machine(home, directories, [tool])
    if not found:
        looked = ", ".join((*(f"~/{name}" for name in tool.personal), *tool.shared))
        complain(f"{tool.title} has no file here; looked for {looked}.")
    return found


def _chosen(readings: list[Reading]) -> list[Reading]:
    """Those of the files that the user picks."""
    rows = [
        (str(number), reading.source.tool.title, str(reading.source.file), str(len(reading.found)))
        for number, reading in enumerate(readings, 1)
    ]
    table(("", "TOOL", "FILE", "SERVERS"), rows)
    while True:
        answer = ask("Import from which? Numbers like 1,3; empty for all; n for none:").lower()
        if answer in ("", "a", "all"):
            return readings
        if answer in ("n", "no", "none"):
            return []
        numbers = answer.replace(",", " ").split()
        if all(number.isdecimal() and 0 < int(number) <= len(readings) for number in numbers):
            return [readings[int(number) - 1] for number in dict.fromkeys(numbers)]
        complain(f"{visible(answer)!r} is not among 1 to {len(readings)}.")


def _planned(
    readings: Iterable[Reading], options: argparse.Namespace, places: Places, reserved: Iterable[str]
) -> list[Row]:
    def target(source: Source) -> Target:
        scope = options.scope or source.scope
        return Target(file_of(places, scope), "project" if scope == "project" else "global")

    return plan(readings, standings(places), target, reserved)


def _show(rows: list[Row]) -> None:
    """What would happen to each server, and what the user should know of it."""
    words = {"new": "new", "same": "same", "clash": "clashes", "refused": "not taken"}
    table(
        ("SERVER", "STATE", "FROM", "WHAT"),
        [
            (
                visible(row.found.name),
                words[row.state],
                row.source.tool.title,
                visible(row.reason) or launch(row.found.name, row.found.entry),
            )
            for row in rows
        ],
    )
    for row in rows:
        if row.state != "new":
            continue
        for note in row.found.notes:
            complain(f"{visible(row.found.name)}: {visible(note)}.")
        for secret in secrets(row.found.name, row.found.entry):
            better = f"Safer: {secret.better}, with the variable set."
            complain(f"{visible(row.found.name)}: {visible(secret.key)} is a secret written out. {visible(better)}")


def _carry_out(rows: list[Row], options: argparse.Namespace) -> int:
    new = [row for row in rows if row.state == "new"]
    if any(row.state == "clash" for row in rows):
        complain("A clashing server is left as it is; `kimi-gateway remove` it first to take the other.")
    if not new:
        paragraph("Nothing to import: all is there already, or cannot be taken.", "")
        return 0
    targets = {target: [row for row in new if row.target == target] for target in (row.target for row in new)}
    what = " and ".join(f"{len(rows)} into {target.file}" for target, rows in targets.items())
    if options.dry_run:
        paragraph(f"Would import {what}.", "")
        return 0
    if not options.yes:
        if not can_ask():
            complain("Nothing was imported: there is no terminal to ask on. --yes imports what is new.")
            return 1
        if not agrees(f"Import {what}?"):
            complain("Nothing was imported.")
            return 1
    for target, chosen in targets.items():
        _write(target, chosen)
    paragraph(f"Imported {what}. `kimi-gateway status` shows how they are.", "")
    if any(target.scope == "project" for target in targets):
        paragraph(f"Those of the project do not start before you have seen and allowed them: `{claims.COMMAND}`.", "")
    return 0


def _write(target: Target, rows: list[Row]) -> None:
    write(
        target.file,
        lambda document: reduce(
            lambda text, row: put(parse(text), (SERVERS, row.found.name), row.found.entry), rows, document.text
        ),
        shared=target.scope == "project",
    )
