"""Tables for people and JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders import DIRECT, GATEWAY, RELAY
from benchmarks.measure import Figure, Figures
from benchmarks.targets import Verdict

RESULTS = ("<!-- results: written by make bench -->", "<!-- end of results -->")
COMPARISON = ("<!-- comparison: written by make bench -->", "<!-- end of comparison -->")
COMPARED = ("stdio.p50", "stdio.c64", "http.session.p50", "http.session.c64", "start.cold", "memory")
"""The figures that a reader in a hurry wants."""


def table(figure: Figure) -> str:
    """One figure as lines: the median of each contender, its range, and its ratio to the relay."""
    lines = [f"{figure.title} [{figure.unit}]"]
    for name, values in figure.rounds.items():
        ratio = f"{figure.ratio(name, RELAY.name):8.2f}x" if RELAY.name in figure.rounds else ""
        spread = f"{number(min(values))} … {number(max(values))}"
        lines.append(f"  {name:28}{number(figure.of(name)):>10}{ratio:>10}   {spread}")
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def markdown(figures: Figures, verdicts: Sequence[Verdict]) -> str:
    """Targets and figures as tables of a document."""
    lines = [f"{machine()}, load {os.getloadavg()[1]:.0f} meanwhile (a quiet machine has 0 besides the bench).", ""]
    lines += ["| target | ratio | wanted | |", "|---|---|---|---|"]
    for verdict in verdicts:
        sign = "≥" if verdict.least else "≤"
        met = "met" if verdict.met else "**missed**"
        lines.append(f"| {verdict.what} | {verdict.ratio:.2f} | {sign} {verdict.limit:g} | {met} |")
    lines += ["", "| figure | medians |", "|---|---|"]
    for figure in figures.all.values():
        medians = " · ".join(f"{name} {number(figure.of(name))}" for name in figure.rounds)
        lines.append(f"| {figure.title} [{figure.unit}] | {medians} |")
    return "\n".join(lines)


def comparison(figures: Figures) -> str:
    """The main figures side by side: a row for each contender, as a table of a document."""
    found = [figures.all[key] for key in COMPARED if key in figures.all]
    names = dict.fromkeys(name for figure in found for name in figure.rounds if name != DIRECT.name)
    lines = ["| | " + " | ".join(f"{figure.title} [{figure.unit}]" for figure in found) + " |"]
    lines.append("|---" * (len(found) + 1) + "|")
    for name in names:
        cells = [number(figure.of(name)) if name in figure.rounds else "–" for figure in found]
        shown = f"**{name}**" if name == GATEWAY.name else name
        lines.append(f"| {shown} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Medians on {machine()}."])


def into_document(file: Path, marks: tuple[str, str], content: str) -> None:
    """Replace what stands between the two marks."""
    begin, end = marks
    before, _, rest = file.read_text().partition(begin)
    _, _, after = rest.partition(end)
    file.write_text(f"{before}{begin}\n{content}\n{end}{after}")


def machine() -> str:
    """What it ran on."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def as_json(figures: Figures, verdicts: Sequence[Verdict]) -> str:
    content = {
        "machine": machine(),
        "load": os.getloadavg(),
        "figures": [
            {
                "key": figure.key,
                "title": figure.title,
                "unit": figure.unit,
                "medians": {name: round(figure.of(name), 3) for name in figure.rounds},
                "rounds": {name: [round(value, 3) for value in values] for name, values in figure.rounds.items()},
            }
            for figure in figures.all.values()
        ],
        "targets": [
            {
                "what": verdict.what,
                "ratio": round(verdict.ratio, 3),
                "limit": verdict.limit,
                "at": "least" if verdict.least else "most",
                "met": verdict.met,
            }
            for verdict in verdicts
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read(file: Path) -> Figures:
    """The figures of an earlier run; none where there was none."""
    figures = Figures()
    if file.exists():
        for one in json.loads(file.read_text())["figures"]:
            figures.all[one["key"]] = Figure(one["key"], one["title"], one["unit"], one["rounds"])
    return figures
