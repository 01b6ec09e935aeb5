"""`kimi-gateway enable` and `disable`: switch a server where its entry stands."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from configs import claims, trust
from configs.edit import put
from configs.models import Config
from configs.store import Standing, standings
from gateway.cli.places import entries_of, looked_up, write
from gateway.cli.screen import complain, paragraph
from gateway.cli.wiring import read_config


def run(options: argparse.Namespace) -> int:
    name: str = options.name
    before, places = looked_up(options)
    one = _decisive(entries_of(name, standings(places), kimi=before.kimi.enabled))
    write(one.file, lambda document: put(document, (*one.path, "enabled"), bool(options.on)))
    _keep_trust(before, read_config(options), name)
    paragraph(f"{'Enabled' if options.on else 'Disabled'} {name} in {one.file}.", "")
    server = read_config(options).servers.get(name)
    if options.on and server and server.problem:
        complain(f"It does not start: {server.problem}")
    elif options.on and server and not server.enabled:
        complain(f"It stays off until you trust the project: `{claims.COMMAND}`.")
    return 0


def _decisive(found: tuple[Standing, ...]) -> Standing:
    """Of the entry that starts the server and those that change it, the topmost that says whether it is on."""
    start = max((index for index, one in enumerate(found) if not one.is_overlay), default=0)
    said = [one for one in found[start:] if isinstance(one.value, dict) and "enabled" in one.value]
    return said[-1] if said else found[start]


def _keep_trust(before: Config, after: Config, name: str) -> None:
    """What the user had allowed before this edit of theirs, they allow after it."""
    refused = {claim.name for claim in before.claims if not claim.trusted}
    changed = [claim for claim in after.claims if claim.name == name and not claim.trusted and name not in refused]
    if changed:
        trust.grant(trust.record_file(Path.home(), os.environ), changed)
