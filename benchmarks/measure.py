"""Figures of several contenders, taken in turns, and how they compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from benchmarks.frames import Failed, Sample
from benchmarks.runs import Run


@dataclass
class Figure:
    """One quantity of all contenders, round by round."""

    key: str
    title: str
    unit: str
    rounds: dict[str, list[float]] = field(default_factory=dict[str, "list[float]"])

    def of(self, name: str) -> float:
        return median(self.rounds[name])

    def ratio(self, name: str, other: str) -> float:
        """The median over the rounds: what disturbs the machine for a while disturbs both."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=False)
        return median(one / two for one, two in pairs)


class Figures:
    """All that was measured, in order."""

    def __init__(self) -> None:
        self.all: dict[str, Figure] = {}

    def add(self, key: str, title: str, unit: str, name: str, value: float) -> None:
        figure = self.all.setdefault(key, Figure(key, title, unit))
        figure.rounds.setdefault(name, []).append(value)


def in_turns(runs: Mapping[str, Run], rounds: int, measure: Callable[[str, Run], None]) -> None:
    """Measure all contenders in each round, every round beginning with another."""
    names = list(runs)
    for number in range(rounds):
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            try:
                measure(name, runs[name])
            except (Failed, OSError) as error:
                print(f"  {name} failed: {error}", flush=True)


@dataclass(frozen=True)
class Effort:
    """How much is done: `seconds` for one sample of one contender."""

    rounds: int
    seconds: float
    peers: bool = True
    """Whether other people's gateways are measured too."""

    def sample(self, run: Run, size: int, most: int = 3000) -> tuple[Sample, float]:
        """Calls one by one, and the CPU time per call of all that stands between."""
        tool = run.way.tool
        pace = median(run.client.one_by_one(tool, size, 5).seconds)
        calls = max(5, min(most, int(self.seconds / pace)))
        before = run.cpu()
        sample = run.client.one_by_one(tool, size, calls)
        return sample, (run.cpu() - before) / (calls + 1)

    def throughput(self, run: Run, size: int, window: int, most: int = 20_000) -> tuple[float, float]:
        """Calls a second with many in flight, and the CPU time per call."""
        tool = run.way.tool
        trial = run.client.at_once(tool, size, window * 2, window)
        calls = max(window * 2, min(most, int(self.seconds * trial.calls / trial.elapsed)))
        before = run.cpu()
        sample = run.client.at_once(tool, size, calls, window)
        return calls / sample.elapsed, (run.cpu() - before) / (calls + 1)
