"""Run the conformance suite against the fixture, directly and through the gateway, and compare: `make conformance`."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.conformance import peers, suite
from tests.conformance.exceptions import BRIDGED, LEFT_OUT
from tests.conformance.suite import LEGS, Found, Leg
from tests.conformance.table import differences, passes, render

RESULTS = suite.CACHE / "results"
AT_ONCE = 2
OTHER = {"session": "stateless", "stateless": "session"}
DIRECT = "direct"
Job = Callable[[], Found]
Columns = Mapping[str, Sequence[Job]]
"""The work behind each column of a table."""


def server_columns(leg: Leg) -> Columns:
    """Without a gateway, then with the fixture behind it: in the era of the leg and in the other."""
    there = _place(leg)
    columns = {DIRECT: [partial(_direct, leg, there / DIRECT)]}
    for era in (leg.era, OTHER[leg.era]):
        for transport in ("stdio", "http"):
            results = there / f"{transport}-{era}"
            columns[f"{transport}, {era}"] = [partial(_through, leg, transport, era, results)]
    return columns


def client_columns(leg: Leg) -> Columns:
    """By the era of the client in front of the gateway; the suite itself is the server behind it."""
    there = _place(leg)
    return {
        f"{era} client": [
            partial(suite.test_client, leg, scenario, driver(era), there / f"client-{era}" / scenario)
            for scenario in leg.clients
        ]
        for era in (leg.era, OTHER[leg.era])
    }


def _place(leg: Leg) -> Path:
    return RESULTS / str(leg).replace(" ", "-")


def driver(era: str) -> str:
    """The command the suite starts as its client; it gets the URL as last word."""
    path = suite.install.REPOSITORY
    return f"env PYTHONPATH={path} {sys.executable} -m tests.conformance.driver {era}"


def _direct(leg: Leg, results: Path) -> Found:
    @contextmanager
    def serve(place: Path) -> Generator[str]:
        place.mkdir(parents=True)
        with peers.fixture(f"{leg.era},{OTHER[leg.era]}", place / "fixture.log") as url:
            yield url

    return suite.test_server(leg, serve, results)


def _through(leg: Leg, transport: str, era: str, results: Path) -> Found:
    @contextmanager
    def serve(place: Path) -> Generator[str]:
        place.mkdir(parents=True)
        with ExitStack() as stack:
            entry = peers.over_stdio(era)
            if transport == "http":
                entry = peers.over_http(stack.enter_context(peers.fixture(era, place / "fixture.log")))
            yield stack.enter_context(peers.gateway(entry, place / "home", place / "gateway.log"))

    return suite.test_server(leg, serve, results, _excused(leg, era))


def _excused(leg: Leg, era: str) -> Mapping[str, str]:
    return BRIDGED[leg.era] if era != leg.era else {}


def judge_servers(leg: Leg, columns: Mapping[str, Found]) -> list[str]:
    """What is wrong with a leg's table."""
    direct = columns[DIRECT]
    wrong: list[str] = []
    if passes(direct) != leg.scenarios or len(direct) != leg.scenarios:
        wrong.append(f"{leg}: {passes(direct)} of {len(direct)} scenarios pass directly, not {leg.scenarios}")
    for column, found in columns.items():
        excused = BRIDGED[leg.era] if column.endswith(OTHER[leg.era]) else {}
        worse = differences(direct, found)
        wrong += [f"{leg}, {column}: {one.scenario}: {one.words}" for one in worse if one.check not in excused]
        for check in sorted(excused.keys() - {one.check for one in worse}):
            wrong.append(f"{leg}, {column}: {check} passes, though exceptions.py says that it cannot")
    return wrong


def judge_clients(leg: Leg, columns: Mapping[str, Found]) -> list[str]:
    return [
        f"{leg}, {column}: {scenario}: {check.status} {check.id} ({check.name}): {check.message}"
        for column, found in columns.items()
        for scenario in leg.clients
        for check in found.get(scenario) or [suite.Check("-", "-", "FAILURE", "did not run")]
        if check.bad
    ]


def run(legs: Sequence[Leg]) -> list[str]:
    """Run it all, print the tables; what is wrong."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    kinds = (("server", server_columns, judge_servers), ("client", client_columns, judge_clients))
    wrong: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [
            (leg, kind, judge, {column: [pool.submit(job) for job in jobs] for column, jobs in columns(leg).items()})
            for leg in legs
            for kind, columns, judge in kinds
        ]
        for leg, kind, judge, futures in begun:
            found = {column: _joined([one.result() for one in parts]) for column, parts in futures.items()}
            print(render(f"\n{leg}, {kind} scenarios", found), flush=True)
            wrong += judge(leg, found)
    return wrong


def _joined(parts: Sequence[Found]) -> Found:
    return {scenario: checks for part in parts for scenario, checks in part.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("legs", nargs="*", help="only legs whose name has one of these words")
    options = parser.parse_args()
    words: list[str] = options.legs
    legs = [leg for leg in LEGS if not words or any(word in str(leg) for word in words)]
    for version in {leg.suite for leg in legs}:
        suite.prepare(version)
    wrong = run(legs)
    print("\nLeft out:")
    print("\n".join(f"  {names}: {why}" for names, why in LEFT_OUT.items()))
    if wrong:
        print("\nWrong:", *wrong, sep="\n  ")
        print(f"\nWhat was sent and seen: {RESULTS}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
