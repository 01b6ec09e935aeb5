"""How the cost of one call grows with what else is there: payload, upstreams, tools, sessions."""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median

from benchmarks import contenders as who
from benchmarks import machine
from benchmarks.http_client import HttpClient
from benchmarks.measure import Effort, Figures, in_turns
from benchmarks.runs import Run
from benchmarks.scenes import MICRO, SMALL
from benchmarks.setups import Setup

PAYLOADS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
UPSTREAMS = (1, 10, 30, 100)
TOOLS = (10, 100, 1_000, 10_000)
SESSIONS = (1, 10, 100, 1_000)


def payloads(figures: Figures, effort: Effort) -> None:
    """Results of growing size, through the relay and through us."""
    with ExitStack() as stack:
        runs = {way.name: stack.enter_context(Run(way, Setup(), large=True)) for way in (who.RELAY, who.GATEWAY)}
        for run in runs.values():
            run.settle()
        for size in PAYLOADS:

            def measure(name: str, run: Run, size: int = size) -> None:
                _, cpu = effort.sample(run, size, most=500)
                figures.add(f"scale.payload.{size}", f"result of {size:,} B", "µs CPU", name, cpu * MICRO)

            in_turns(runs, effort.rounds, measure)


def upstreams(figures: Figures, effort: Effort) -> None:
    _grow(figures, effort, "upstreams", {count: Setup(count=count) for count in UPSTREAMS})


def tools(figures: Figures, effort: Effort) -> None:
    _grow(figures, effort, "tools", {count: Setup(tools=count) for count in TOOLS})


def _grow(figures: Figures, effort: Effort, what: str, setups: dict[int, Setup]) -> None:
    """One gateway per size, all at once, so that they are measured in turns."""
    with ExitStack() as stack:
        runs = {f"{count:,}": stack.enter_context(Run(who.GATEWAY, setup)) for count, setup in setups.items()}
        for run in runs.values():
            run.settle()

        def measure(name: str, run: Run) -> None:
            sample, cpu = effort.sample(run, SMALL, most=1500)
            figures.add(f"scale.{what}.p50", f"one call, by {what}, p50", "µs", name, median(sample.seconds) * MICRO)
            figures.add(f"scale.{what}.cpu", f"one call, by {what}, CPU", "µs", name, cpu * MICRO)
            figures.add(f"scale.{what}.memory", f"memory, by {what}", "MB", name, machine.memory(run.pids)[0])

        in_turns(runs, effort.rounds, measure)


def sessions(figures: Figures, effort: Effort) -> None:
    """One gateway over HTTP with more and more idle sessions."""
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        for count in SESSIONS:
            run = stack.enter_context(Run(who.WEB_GATEWAY, Setup()))
            run.settle()
            other = HttpClient(run.port, run.way.path)
            for _ in range(count - 1):
                other.introduce()
            other.close()
            runs[f"{count:,}"] = run

        def measure(name: str, run: Run) -> None:
            sample, cpu = effort.sample(run, SMALL, most=1500)
            figures.add("scale.sessions.p50", "one call, by sessions, p50", "µs", name, median(sample.seconds) * MICRO)
            figures.add("scale.sessions.cpu", "one call, by sessions, CPU", "µs", name, cpu * MICRO)
            figures.add("scale.sessions.memory", "memory, by sessions", "MB", name, machine.memory(run.pids)[0])

        in_turns(runs, effort.rounds, measure)
