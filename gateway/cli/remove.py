"""`kimi-gateway remove`: take a server out of the file it stands in."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from configs import trust
from configs.edit import drop
from configs.store import Standing, standings
from gateway.cli.places import entries_of, looked_up, write
from gateway.cli.screen import complain, paragraph


def run(options: argparse.Namespace) -> int:
    config, places = looked_up(options)
    found = entries_of(options.name, standings(places), kimi=config.kimi.enabled)
    # The one in force here.
    top = found[-1]
    write(top.file, lambda document: drop(document, top.path))
    if top.scope == "project":
        keys = [f"{kind}:{options.name}" for kind in ("server", "overlay")]
        trust.revoke(trust.record_file(Path.home(), os.environ), os.path.realpath(top.file.parent), keys)
    paragraph(f"Removed {options.name} from {_place(top)}.", "")
    for below in found[:-1]:
        complain(f"Another {options.name} is still in {_place(below)}.")
    return 0


def _place(standing: Standing) -> str:
    return f"{standing.file} (projects, {standing.path[1]})" if standing.scope == "kode-project" else str(standing.file)
