"""The official conformance suite: install it, run it, read what it found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.real import install

PACKAGE = "@modelcontextprotocol/conformance"
CACHE = install.CACHE / "conformance"
NODE = 22
"""The oldest Node it runs on."""
CHANCES = 3
"""The suite waits half a second for some answers and 10 for the rest, which a busy machine may miss."""
PATIENCE = 240.0
"""Seconds one run of the suite may take."""
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True)
class Check:
    """One thing the suite looked at."""

    id: str
    name: str
    status: str
    message: str

    @property
    def bad(self) -> bool:
        return self.status in ("FAILURE", "WARNING")


Found = Mapping[str, list[Check]]
"""What was found, by scenario."""
Serve = Callable[[Path], AbstractContextManager[str]]
"""Start what is to be tested, with a directory for what it leaves; the URL it is reached at."""


@dataclass(frozen=True)
class Leg:
    """A version of the suite, and the version of the protocol it speaks there."""

    suite: str
    protocol: str
    era: str
    scenarios: int
    """How many it has for a server; all of them must pass without a gateway."""
    clients: tuple[str, ...]
    """Those it has for a client that a gateway can take part in."""

    @property
    def options(self) -> list[str]:
        return [] if self.suite == "0.1.16" else ["--spec-version", self.protocol]

    def __str__(self) -> str:
        return f"{self.suite} {self.protocol}"


_BOTH = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
LEGS = (
    Leg("0.1.16", "2025-11-25", "session", 32, _BOTH),
    Leg("0.2.0-alpha.12", "2025-11-25", "session", 33, (*_BOTH, "json-schema-2020-12-preservation")),
    Leg(
        "0.2.0-alpha.12",
        "2026-07-28",
        "stateless",
        40,
        (
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ),
    ),
)


def prepare(version: str) -> None:
    """Install one version, unless it is there."""
    manifest = json.dumps({"private": True, "dependencies": {PACKAGE: version}})
    install.npm(CACHE / version, manifest)


def test_server(leg: Leg, serve: Serve, results: Path, excused: Container[str] = ()) -> Found:
    """Run every scenario of a leg against a server; one that fails, but for what is excused, has two more chances.

    Each chance has a server of its own: what an earlier one asked for and never fetched is still waiting in the first.
    """
    with serve(results) as url:
        found = dict(_run(leg, ["server", "--url", url, "--suite", "all", *leg.options], results / "suite"))
    for chance in range(2, CHANCES + 1):
        for scenario in [name for name, checks in found.items() if any(_are_bad(checks, excused))]:
            again_in = results / f"{scenario}-{chance}"
            with serve(again_in) as url:
                words = ["server", "--url", url, "--scenario", scenario, *leg.options]
                again = _run(leg, words, again_in / "suite")
            if not any(_are_bad(again.get(scenario, found[scenario]), excused)):
                print(f"{leg}: {scenario} passed at chance {chance} only; the first is in {results}", flush=True)
            found.update(again)
    return found


def _are_bad(checks: Iterable[Check], excused: Container[str]) -> Iterator[bool]:
    return (check.bad and check.id not in excused for check in checks)


def test_client(leg: Leg, scenario: str, command: str, results: Path) -> Found:
    """Run one scenario in which the suite is the server and the command its client."""
    return _run(leg, ["client", "--command", command, "--scenario", scenario, *leg.options], results)


def _run(leg: Leg, words: list[str], results: Path) -> Found:
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    program = CACHE / leg.suite / "node_modules" / PACKAGE / "dist" / "index.js"
    with (results / "suite.log").open("wb") as log:
        # Its verdict is the exit code, but for warnings; what counts here are the checks themselves.
        subprocess.run(
            [install.node(NODE).node, str(program), *words, "--output-dir", str(results)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    return read(results)


def read(results: Path) -> Found:
    """The checks a run has left in a directory."""
    found: dict[str, list[Check]] = {}
    for file in sorted(results.glob("*/checks.json")):
        scenario = STAMP.sub("", file.parent.name).removeprefix("server-")
        found[scenario] = [
            Check(one["id"], one["name"], one["status"], one.get("errorMessage") or "")
            for one in json.loads(file.read_text())
        ]
    return found
