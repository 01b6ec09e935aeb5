"""How a gateway and each of its servers is: the object that `status --json` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TypeAlias

from clients.state import State
from clients.upstream import Upstream
from gateway.cli.wiring import Gateway
from gateway.naming import Clash, clashes
from gateway.registry import Snapshot

Report: TypeAlias = dict[str, object]
METHOD = "kimi-gateway/status"
"""Under which a running gateway answers with its report."""
AWAY = (State.WAITING, State.FAILED, State.CONNECTING, State.HELD)


def report(gateway: Gateway) -> Report:
    """The documented shape: every server under its name, and what is wrong around them."""
    return {
        "project": str(gateway.config.project),
        "gateway": None,
        "servers": {name: describe(upstream) for name, upstream in sorted(gateway.manager.upstreams.items())},
        "problems": [str(problem) for problem in gateway.config.problems],
        "clashes": [str(clash) for clash in name_clashes(gateway.registry.snapshot)],
    }


def describe(upstream: Upstream) -> Report:
    """One server."""
    info = upstream.introduction
    away = upstream.state in AWAY
    reason, advice = upstream.describe()
    channel = upstream.channel
    noise = channel.noise if channel else None
    return {
        "state": upstream.state.value,
        "transport": upstream.server.transport,
        "era": info.era if info else None,
        "version": info.version if info else None,
        "tools": len(upstream.listing.tools) if upstream.listing and upstream.server.enabled else 0,
        "latency_ms": round(upstream.latency * 1000, 2) if upstream.latency is not None else None,
        "restarts": upstream.restarts,
        "error": (upstream.cause or upstream.activity or reason) if away else None,
        "next_try": upstream.next_try_at(time.time()),
        "fix": (advice or None) if upstream.state is State.FAILED else None,
        "source": str(upstream.server.source),
        "pid": channel.pid if channel and upstream.connection else None,
        "garbage": {"count": noise.count, "last": [upstream.server.masked(line) for line in noise.last]}
        if noise
        else None,
    }


def name_clashes(snapshot: Snapshot) -> tuple[Clash, ...]:
    """Whose names had to change because of another's, among all that is listed."""
    tools: Mapping[str, list[str]] = {
        **{name: [] for name in snapshot.policy.servers},
        **{name: [item.name for item in shelf.tools] for name, shelf in snapshot.shelves.items()},
    }
    return clashes(tools, snapshot.policy.naming)
