"""What the figures should be, as ratios within one run, and whether they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.contenders import DIRECT, GATEWAY, RELAY
from benchmarks.measure import Figure, Figures


class Verdict(NamedTuple):
    """One target and how it came out."""

    what: str
    ratio: float
    limit: float
    least: bool

    @property
    def met(self) -> bool:
        return self.ratio >= self.limit if self.least else self.ratio <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.least else "≤"
        return f"{'ok  ' if self.met else 'MISS'} {self.what}: {self.ratio:.2f}x (target {sign} {self.limit:g}x)"


class Target(NamedTuple):
    """A contender against another in the same figure; met when the ratio is at most, or at least, the limit."""

    figure: str
    limit: float
    least: bool = False
    name: str = GATEWAY.name
    against: str = RELAY.name


HTTP_FACE, STDIO_FACE = f"{GATEWAY.name}, HTTP face", f"{GATEWAY.name}, stdio face"
TARGETS = (
    Target("stdio.p50", 1.6),
    Target("stdio.cpu", 1.6),
    Target("stdio.c64", 1 / 2.5, least=True),
    Target("one.p50", 1.6),
    Target("one.cpu", 1.6),
    Target("large.cpu", 1.2),
    Target("http.session.p50", 1.8),
    Target("http.session.c64", 1 / 2, least=True),
    Target("http.stateless.p50", 1.8),
    Target("http.stateless.c64", 1 / 2, least=True),
    *(
        Target(f"upstream.{era}.cpu", 2, name=face)
        for era in ("session", "stateless")
        for face in (STDIO_FACE, HTTP_FACE)
    ),
    Target("list.5000", 1.3),
    *(Target(f"start.initialize.{count}", 4) for count in (1, 30, 100)),
    Target("start.cold", 1.6),
    Target("start.known", 1.3, name="all tools", against="initialize"),
    Target("memory", 2.5),
)
OURS = (DIRECT.name, RELAY.name, GATEWAY.name)


def judge(figures: Figures) -> list[Verdict]:
    """All targets whose figures were taken."""
    found: list[Verdict] = []
    for target in TARGETS:
        figure = figures.all.get(target.figure)
        if figure and target.name in figure.rounds and target.against in figure.rounds:
            ratio = figure.ratio(target.name, target.against)
            what = f"{figure.title}, {target.name} / {target.against}"
            found.append(Verdict(what, ratio, target.limit, target.least))
    found += _flat(figures)
    found += _ahead(figures, "stdio.p50", 5, lambda figure, peer: figure.ratio(peer, GATEWAY.name))
    found += _ahead(figures, "stdio.c64", 20, lambda figure, peer: figure.ratio(GATEWAY.name, peer))
    found += _ahead(figures, "http.session.p50", 2, lambda figure, peer: figure.ratio(peer, GATEWAY.name))
    found += _ahead(figures, "http.session.c64", 2, lambda figure, peer: figure.ratio(GATEWAY.name, peer))
    return found


def _flat(figures: Figures) -> list[Verdict]:
    """What should not grow with the number of upstreams, tools and sessions: the largest against the smallest."""
    found: list[Verdict] = []
    few, many = figures.all.get("start.initialize.1"), figures.all.get("start.initialize.100")
    if few and many:
        ratio = many.of(GATEWAY.name) / few.of(GATEWAY.name)
        found.append(Verdict("start to initialize, 100 upstreams / 1", ratio, 1.5, least=False))
    for what in ("upstreams", "tools", "sessions"):
        figure = figures.all.get(f"scale.{what}.cpu")
        if figure:
            smallest, *_, largest = figure.rounds
            ratio = figure.ratio(largest, smallest)
            found.append(Verdict(f"CPU per call, {largest} {what} / {smallest}", ratio, 1.5, least=False))
    payload, larger = figures.all.get("scale.payload.1000000"), figures.all.get("scale.payload.10000000")
    if payload and larger:
        ratio = larger.of(GATEWAY.name) / payload.of(GATEWAY.name)
        found.append(Verdict("CPU per call, result of 10 MB / 1 MB", ratio, 15, least=False))
    return found


def _ahead(figures: Figures, key: str, limit: float, lead: Callable[[Figure, str], float]) -> list[Verdict]:
    """How far we are ahead of the peer that comes nearest."""
    figure = figures.all.get(key)
    peers = [name for name in figure.rounds if name not in OURS] if figure else []
    if figure is None or not peers or GATEWAY.name not in figure.rounds:
        return []
    nearest = min(peers, key=lambda peer: lead(figure, peer))
    return [Verdict(f"{figure.title}, ahead of {nearest}", lead(figure, nearest), limit, least=True)]
