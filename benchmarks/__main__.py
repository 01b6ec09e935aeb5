"""`python -m benchmarks`: run the scenes, print tables and targets, write JSON and a chart."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from benchmarks import chart, report, scaling, scenes, starts
from benchmarks.measure import Effort, Figures
from benchmarks.setups import HERE
from benchmarks.targets import judge

RESULTS = HERE.parent / ".cache" / "bench"
PICTURE = HERE.parent / "docs" / "performance.svg"
DOCUMENT = HERE.parent / "docs" / "performance.md"
README = HERE.parent / "README.md"
Scene = Callable[[Figures, Effort], None]
SCENES: dict[str, Scene] = {
    "stdio": scenes.stdio_calls,
    "one-processor": scenes.stdio_on_one_processor,
    "large": scenes.large_results,
    "list": scenes.listing,
    "initialize": lambda figures, effort: starts.initialize(figures, effort, (1, 30, 100) if effort.peers else (1, 30)),
    "start": starts.all_tools,
    "http-session": lambda figures, effort: scenes.web_calls(figures, effort, "session"),
    "http-stateless": lambda figures, effort: scenes.web_calls(figures, effort, "stateless"),
    "upstream-session": lambda figures, effort: scenes.web_upstreams(figures, effort, "session"),
    "upstream-stateless": lambda figures, effort: scenes.web_upstreams(figures, effort, "stateless"),
    "payloads": scaling.payloads,
    "upstreams": scaling.upstreams,
    "tools": scaling.tools,
    "sessions": scaling.sessions,
}
GROWTH = ("payloads", "upstreams", "tools", "sessions")
FULL = Effort(rounds=9, seconds=0.5)
QUICK = Effort(rounds=3, seconds=0.1, peers=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"one or more of: {', '.join(SCENES)}; default all")
    parser.add_argument("--quick", action="store_true", help="few rounds, no peers, no growth; under two minutes")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    if options.rounds:
        effort = Effort(options.rounds, effort.seconds, effort.peers)
    chosen: list[str] = options.scenes or [name for name in SCENES if not options.quick or name not in GROWTH]
    if unknown := [name for name in chosen if name not in SCENES]:
        parser.error(f"no such scene: {', '.join(unknown)}; scenes: {', '.join(SCENES)}")
    figures = run(chosen, effort)
    print("\nTargets\n" + "\n".join(str(verdict) for verdict in judge(figures)))
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.quick:
        (RESULTS / "quick.json").write_text(report.as_json(figures, judge(figures)))
    else:
        publish(figures)


def publish(new: Figures) -> None:
    """Put these figures in the place of older ones: in the JSON, the chart and the document."""
    file = RESULTS / "full.json"
    figures = report.read(file)
    figures.all.update(new.all)
    verdicts = judge(figures)
    file.write_text(report.as_json(figures, verdicts))
    PICTURE.write_text(chart.svg(figures))
    report.into_document(DOCUMENT, report.RESULTS, report.markdown(figures, verdicts))
    report.into_document(README, report.COMPARISON, report.comparison(figures))
    print(f"\n{file}\n{PICTURE}\n{DOCUMENT}\n{README}")


def run(chosen: list[str], effort: Effort) -> Figures:
    """All figures of these scenes, printed as they come."""
    figures = Figures()
    print(report.machine())
    for name in chosen:
        begun = time.monotonic()
        before = set(figures.all)
        print(f"\n== {name}", flush=True)
        SCENES[name](figures, effort)
        for key, figure in figures.all.items():
            if key not in before:
                print(report.table(figure))
        print(f"  ({time.monotonic() - begun:.0f} s)", flush=True)
    return figures


if __name__ == "__main__":
    main()
