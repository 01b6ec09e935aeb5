"""What a start costs: the first answer, all tools of many upstreams, memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks import contenders as who
from benchmarks import machine
from benchmarks.contenders import Way
from benchmarks.frames import Failed
from benchmarks.measure import Effort, Figures
from benchmarks.runs import Run
from benchmarks.scenes import wait_for_tools
from benchmarks.setups import Setup

MANY = 30


def initialize(figures: Figures, effort: Effort, counts: tuple[int, ...]) -> None:
    """From the start of the process to the answer to initialize, with more and more upstreams behind."""
    for _ in range(effort.rounds):
        for count in counts:
            for way in (who.RELAY, who.GATEWAY):
                with Run(way, Setup(count=count)) as run:
                    seconds = run.introduce()
                    title = f"start to initialize, {count} upstreams"
                    figures.add(f"start.initialize.{count}", title, "ms", way.name, seconds * 1e3)


def all_tools(figures: Figures, effort: Effort) -> None:
    """All tools of 30 upstreams: never seen before, then with the catalogue of that start; and the memory then."""
    for number in range(effort.rounds):
        once = (who.FASTMCP,) if effort.peers and number == 0 else ()  # its start takes longer than all others together
        for way in (who.RELAY, who.GATEWAY, *once):
            with tempfile.TemporaryDirectory(prefix="bench-") as home:
                try:
                    _cold_and_warm(figures, way, Path(home))
                except (Failed, OSError) as error:
                    print(f"  {way.name} failed: {error}", flush=True)


def _cold_and_warm(figures: Figures, way: Way, home: Path) -> None:
    with Run(way, Setup(count=MANY), home=home) as run:
        figures.add("start.cold", f"all tools of {MANY} upstreams, cold", "ms", way.name, until_all_listed(run)[1])
        run.client.one_by_one("s0_t0" if way is who.FASTMCP else way.tool, 100, 50)
        resident, proportional = machine.memory(machine.between(run.pid))
        figures.add("memory", f"memory with {MANY} upstreams, helpers included", "MB", way.name, resident)
        figures.add("memory.shared", "the same, shared pages divided", "MB", way.name, proportional)
    if way is not who.GATEWAY:
        return
    with Run(way, Setup(count=MANY), home=home) as run:
        first, all = until_all_listed(run)
        figures.add("start.known", f"with a catalogue, {MANY} upstreams", "ms", "initialize", first)
        figures.add("start.known", f"with a catalogue, {MANY} upstreams", "ms", "all tools", all)


def until_all_listed(run: Run) -> tuple[float, float]:
    """Milliseconds from the start of the process to the first answer, and to the listing that is complete."""
    first = run.introduce()
    wait_for_tools(run, 10 * MANY)
    return first * 1e3, (time.perf_counter() - run.client.of("started")) * 1e3
