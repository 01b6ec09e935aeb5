"""What is measured: one function per scene, each adding its figures."""

from __future__ import annotations

from statistics import median

from benchmarks import contenders as who
from benchmarks.machine import one_processor
from benchmarks.measure import Effort, Figures, in_turns
from benchmarks.runs import Run, side_by_side
from benchmarks.setups import Era, Setup, WebUpstream

SMALL, LARGE = 100, 1_000_000
WINDOW = 64
MICRO = 1e6


def stdio_calls(figures: Figures, effort: Effort) -> None:
    """tools/call of 100 B through stdio to a process."""

    def measure(name: str, run: Run) -> None:
        sample, cpu = effort.sample(run, SMALL)
        figures.add("stdio.p50", "stdio, 100 B, p50", "µs", name, median(sample.seconds) * MICRO)
        if name != who.DIRECT.name:
            figures.add("stdio.cpu", "stdio, 100 B, CPU per call", "µs", name, cpu * MICRO)
        rate, busy = effort.throughput(run, SMALL, WINDOW)
        figures.add("stdio.c64", "stdio, 64 in flight", "calls/s", name, rate)
        if name != who.DIRECT.name:
            figures.add("stdio.c64.cpu", "stdio, 64 in flight, CPU per call", "µs", name, busy * MICRO)

    peers = who.STDIO_PEERS if effort.peers else ()
    with side_by_side((who.DIRECT, who.RELAY, who.GATEWAY, *peers), Setup()) as runs:
        in_turns(runs, effort.rounds, measure)


def stdio_on_one_processor(figures: Figures, effort: Effort) -> None:
    """The same, one by one, where no scheduler can choose between processors."""

    def measure(name: str, run: Run) -> None:
        sample, cpu = effort.sample(run, SMALL)
        title = "stdio on one processor, 100 B"
        figures.add("one.p50", f"{title}, p50", "µs", name, median(sample.seconds) * MICRO)
        if name != who.DIRECT.name:
            figures.add("one.cpu", f"{title}, CPU per call", "µs", name, cpu * MICRO)

    with one_processor(), side_by_side((who.DIRECT, who.RELAY, who.GATEWAY), Setup()) as runs:
        in_turns(runs, effort.rounds, measure)


def large_results(figures: Figures, effort: Effort) -> None:
    """Results of 1 MB through stdio: under the same tunables for all, then each as it comes."""
    peers = (who.FASTMCP_KEPT,) if effort.peers else ()
    for tuned, key, more in ((True, "large", ""), (False, "untuned", " without GLIBC_TUNABLES")):

        def measure(name: str, run: Run, key: str = key, title: str = f"stdio, 1 MB result{more}") -> None:
            sample, cpu = effort.sample(run, LARGE)
            figures.add(f"{key}.p50", f"{title}, p50", "µs", name, median(sample.seconds) * MICRO)
            if name != who.DIRECT.name:
                figures.add(f"{key}.cpu", f"{title}, CPU per call", "µs", name, cpu * MICRO)

        with side_by_side((who.DIRECT, who.RELAY, who.GATEWAY, *peers), Setup(), large=tuned) as runs:
            in_turns(runs, effort.rounds, measure)


def web_calls(figures: Figures, effort: Effort, era: Era) -> None:
    """tools/call of 100 B through Streamable HTTP to a process, the client speaking one era."""

    def measure(name: str, run: Run) -> None:
        sample, cpu = effort.sample(run, SMALL)
        title = f"HTTP, {era} era, 100 B"
        figures.add(f"http.{era}.p50", f"{title}, p50", "µs", name, median(sample.seconds) * MICRO)
        figures.add(f"http.{era}.cpu", f"{title}, CPU per call", "µs", name, cpu * MICRO)
        rate, _ = effort.throughput(run, SMALL, WINDOW)
        figures.add(f"http.{era}.c64", f"HTTP, {era} era, 64 in flight", "calls/s", name, rate)

    stateless = era == "stateless"
    able = who.WEB_PEERS[:1] if stateless else who.WEB_PEERS  # the others speak the session era only
    peers = able if effort.peers else ()
    with side_by_side((who.WEB_RELAY, who.WEB_GATEWAY, *peers), Setup(era=era), stateless=stateless) as runs:
        in_turns(runs, effort.rounds, measure)


def web_upstreams(figures: Figures, effort: Effort, era: Era) -> None:
    """tools/call of 100 B to a Streamable HTTP upstream, behind either face."""

    def measure(name: str, run: Run) -> None:
        sample, cpu = effort.sample(run, SMALL)
        title = f"HTTP upstream, {era} era, 100 B"
        figures.add(f"upstream.{era}.p50", f"{title}, p50", "µs", name, median(sample.seconds) * MICRO)
        figures.add(f"upstream.{era}.cpu", f"{title}, CPU per call", "µs", name, cpu * MICRO)

    stateless = era == "stateless"
    over_http = who.WEB_GATEWAY._replace(name=f"{who.GATEWAY.name}, HTTP face")
    over_stdio = who.GATEWAY._replace(name=f"{who.GATEWAY.name}, stdio face")
    peers = () if stateless or not effort.peers else who.STDIO_TO_HTTP_PEERS
    with (
        WebUpstream(era) as upstream,
        side_by_side((who.HTTP_RELAY, over_http), upstream.setup, stateless=stateless) as web,
        side_by_side((over_stdio, *peers), upstream.setup) as stdio,
    ):
        in_turns({**web, **stdio}, effort.rounds, measure)


def listing(figures: Figures, effort: Effort) -> None:
    """tools/list of 5,000 tools from 50 servers."""
    with side_by_side((who.RELAY, who.GATEWAY), Setup(count=50, tools=100), large=True) as runs:

        def measure(name: str, run: Run) -> None:
            seconds = median(run.client.listed()[1] for _ in range(10))
            figures.add("list.5000", "tools/list, 5,000 tools", "ms", name, seconds * 1e3)

        for run in runs.values():
            wait_for_tools(run, 5000)
        in_turns(runs, effort.rounds, measure)


def wait_for_tools(run: Run, count: int) -> None:
    """Return once this many tools are listed."""
    while run.client.listed()[0] < count:
        continue
