"""`kimi-gateway trust`: see what a project asks for, and allow it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from configs import claims, trust
from configs.models import Claim, Config
from gateway.cli.consent import agrees, can_ask, described
from gateway.cli.screen import complain, paragraph, say, table
from gateway.cli.shown import launch, visible
from gateway.cli.wiring import check_project, read_config


def run(options: argparse.Namespace) -> int:
    check_project(options)
    config = read_config(options)
    for problem in config.problems:
        if problem.fix != claims.ADVICE:
            complain(str(problem))
    record = trust.record_file(Path.home(), os.environ)
    if options.list:
        return _list(config, trust.read(record, os.environ))
    if options.revoke:
        return _revoke(config, record)
    return _grant(config, record, yes=options.yes)


def _grant(config: Config, record: Path, *, yes: bool) -> int:
    waiting = config.untrusted
    if config.broken:
        complain("Nothing was trusted: correct the file first.")
        return 1
    if not waiting:
        asked = "All that this project asks for is trusted." if config.claims else "This project asks for no trust."
        paragraph(f"{asked} ({config.project})", "")
        return 0
    for line in described(config, sys.stdout):
        say(line)
    if not yes and not can_ask():
        complain(f"Nothing was trusted: there is no terminal to ask on. `{claims.COMMAND} --yes` trusts all of this.")
        return 1
    if not yes and not agrees("Trust this?"):
        complain("Nothing was trusted.")
        return 1
    trust.grant(record, waiting)
    paragraph(
        f"Trusted: {', '.join(visible(claim.name) for claim in waiting)}. An edited entry will need trust again.", ""
    )
    return 0


def _revoke(config: Config, record: Path) -> int:
    gone = trust.revoke(record, os.path.realpath(config.project))
    paragraph(
        f"{gone} no longer trusted in {config.project}." if gone else f"Nothing was trusted in {config.project}.", ""
    )
    return 0


def _list(config: Config, record: trust.Trust) -> int:
    rows = sorted((*_recorded(config, record), *map(_asked, config.claims)))
    if rows:
        table(("PROJECT", "NAME", "TRUST", "WHAT"), rows)
    else:
        complain("No project is trusted.")
    return 0


def _asked(claim: Claim) -> tuple[str, str, str, str]:
    state = "yes" if claim.trusted else "changed since" if claim.changes else "no"
    return visible(claim.project), visible(claim.name), state, _what(claim.name, claim.kind, claim.written)


def _recorded(config: Config, record: trust.Trust) -> Iterator[tuple[str, str, str, str]]:
    """What was trusted and is not asked for here and now."""
    asked = {(claim.project, trust.key(claim)) for claim in config.claims}
    for project, entries in record.projects.items():
        for key, entry in entries.items():
            kind, _, name = key.partition(":")
            if (project, key) not in asked:
                state = "yes" if project != os.path.realpath(config.project) else "no longer asked for"
                yield visible(project), visible(name), state, _what(name, kind, entry)


def _what(name: str, kind: str, written: Mapping[str, object]) -> str:
    return launch(name, written) if kind == "server" else kind
