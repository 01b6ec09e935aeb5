"""Set what was found through the gateway beside what was found without it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.conformance.suite import Check, Found

PASSED, WARNED, FAILED, MISSING = "ok", "warns", "FAILS", "-"


def verdict(checks: Sequence[Check] | None) -> str:
    """A scenario in one word."""
    if not checks:
        return MISSING
    statuses = {check.status for check in checks}
    return FAILED if "FAILURE" in statuses else WARNED if "WARNING" in statuses else PASSED


def passes(found: Found) -> int:
    """How many scenarios pass, as the suite itself counts: a warning is no failure."""
    return sum(verdict(checks) in (PASSED, WARNED) for checks in found.values())


class Difference(NamedTuple):
    """Something that is worse through the gateway."""

    scenario: str
    check: str
    words: str


def differences(direct: Found, through: Found) -> list[Difference]:
    """What is worse through the gateway.

    A scenario that does not run or does not pass; a check that fails or warns more often than without the gateway; one
    that succeeded and is now skipped. An `INFO` is no judgement, so it may take the place of a success and vice versa.
    """
    return [
        Difference(scenario, *worse)
        for scenario in sorted(direct.keys() | through.keys())
        for worse in _worse(direct.get(scenario, []), through.get(scenario, []))
    ]


def _worse(direct: Sequence[Check], through: Sequence[Check]) -> Iterator[tuple[str, str]]:
    if not through or not direct:
        yield "", "runs only through the gateway" if through else "did not run"
        return
    before = Counter((check.id, check.name, check.status) for check in direct)
    for check in through:
        kind = check.id, check.name, check.status
        if check.status in ("SUCCESS", "INFO"):
            continue
        if before[kind] > 0:
            before[kind] -= 1
        else:
            yield check.id, f"{check.status} {check.id} ({check.name}): {check.message}"


def render(title: str, columns: Mapping[str, Found]) -> str:
    """One line for each scenario, one column for each way to reach the other side."""
    scenarios = list(dict.fromkeys(scenario for found in columns.values() for scenario in found))
    rows = [
        ["", *columns],
        *([scenario, *(verdict(found.get(scenario)) for found in columns.values())] for scenario in scenarios),
        ["passed", *(f"{passes(found)}/{len(scenarios)}" for found in columns.values())],
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join([title, *(line.rstrip() for line in lines)])
