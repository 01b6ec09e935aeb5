"""Kimi as one of the gateway's upstreams: its entry and its listing, known without starting it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from configs.kimi import load
from configs.models import Config, Problem, Server, Source
from gateway.registry import Listing
from servers.kimi import listing
from servers.kimi.recursion import MARK, below_kimi

NAME = "kimi"
_OWN = ("KIMI_", "MOONSHOT_")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_GATEWAYS = "KIMI_GATEWAY_"
"""The gateway's own settings, its token among them: nothing an agent should see."""

BELOW = Problem(
    None,
    0,
    0,
    "gateway.kimi.tools",
    "this gateway was started by a Kimi run and starts no server, so that Kimi does not call itself",
    'Write "kimi": {"tools": true} under "gateway" to let Kimi use the other servers.',
)


def with_kimi(config: Config, environ: Mapping[str, str]) -> Config:
    """The configuration with the built-in server, or, below a Kimi run, with none that could lead back to it."""
    if below_kimi(environ):
        allowed = config.kimi.tools
        return config if allowed else replace(config, servers={}, problems=(*config.problems, BELOW))
    if not config.kimi.enabled or NAME in config.servers:
        return config
    return replace(config, servers=dict(sorted({**config.servers, NAME: entry(environ)}.items())))


def entry(environ: Mapping[str, str]) -> Server:
    """Run by this very Python and nothing from the working directory; its calls have a time limit of their own."""
    env = {name: value for name, value in environ.items() if _passes(name)}
    return Server(
        NAME,
        "stdio",
        Source(None, "builtin"),
        command=sys.executable,
        args=("-P", "-m", "gateway.cli", "kimi"),
        env=env,
        timeout=math.inf,
        secrets=frozenset(value for name, value in env.items() if value and _secret(name, value)),
    )


def shipped(server: Server) -> Listing | None:
    """What the built-in server will list, so that it need not run before it is called."""
    if server.name != NAME or server.source.scope != "builtin":
        return None
    settings, _ = load(Path.home(), os.environ)
    tools = tuple(
        json.dumps(tool, ensure_ascii=False, separators=(",", ":")).encode() for tool in listing.tools(settings)
    )
    return Listing(tools=tools, capabilities=frozenset({"tools"}), instructions=listing.INSTRUCTIONS)


def _passes(name: str) -> bool:
    if name.startswith(_GATEWAYS):
        return name == MARK
    return name.startswith(_OWN) or name.upper() in _PROXIES


def _secret(name: str, value: str) -> bool:
    return any(word in name for word in ("KEY", "TOKEN", "SECRET")) or (name.upper() in _PROXIES and "@" in value)
