"""Who is measured, and how each is started in its own documented way."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.setups import HERE, Setup, write
from tests.real.install import CACHE, node, npm, pypi

FIRST = "s0__t0"
Command = Callable[[Setup, Path, int], list[str]]
"""From what stands behind, a home of its own and a port to serve on."""


class Way(NamedTuple):
    """One contender on one face."""

    name: str
    command: Command
    tool: str = FIRST
    """The name it shows for the first tool of the first upstream."""
    path: str = ""
    """Where it serves HTTP; stdio otherwise."""
    sse: bool = False
    """It answers on the stream of the older HTTP transport."""


def _script(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(HERE / name), *map(str, arguments)]


def _gateway(setup: Setup, home: Path, port: int) -> list[str]:
    write(home, ".kode.json", setup.config(type="http"))
    face = ["--http", f"127.0.0.1:{port}", "--no-auth"] if port else []
    return [str(Path(sys.executable).with_name("kimi-gateway")), "serve", *face]


def _direct(setup: Setup, home: Path, port: int) -> list[str]:
    return setup.command


def _relay(setup: Setup, home: Path, port: int) -> list[str]:
    return _script("relay.py", setup.count, *setup.command)


def _web_relay(setup: Setup, home: Path, port: int) -> list[str]:
    return _script("web_relay.py", port, setup.count, *setup.command)


def _http_relay(setup: Setup, home: Path, port: int) -> list[str]:
    return _script("http_relay.py", port, setup.url)


DIRECT = Way("direct", _direct, "t0")
RELAY = Way("bare relay", _relay)
GATEWAY = Way("kimi-gateway", _gateway)
WEB_RELAY = Way(RELAY.name, _web_relay, path="/mcp")
HTTP_RELAY = Way(RELAY.name, _http_relay, path="/mcp")
WEB_GATEWAY = GATEWAY._replace(path="/mcp")


# The peers, at the versions that benchmarks/peers pins


def _peer(name: str) -> Path:
    return pypi(CACHE / "peers" / name, (HERE / "peers" / f"{name}.txt").read_text())


def _node(name: str, *arguments: str) -> list[str]:
    modules = npm(CACHE / "peers" / "node", (HERE / "peers" / "package.json").read_text())
    return [node().node, str(modules / ".bin" / name), *arguments]


def _fastmcp(setup: Setup, home: Path, port: int) -> list[str]:
    file = write(home, "mcp.json", setup.config(transport="http"))
    face = ["--transport", "http", "--port", str(port)] if port else []
    return [str(_peer("fastmcp") / "fastmcp"), "run", file, "--no-banner", "--log-level", "WARNING", *face]


def _fastmcp_kept(setup: Setup, home: Path, port: int) -> list[str]:
    file = write(home, "mcp.json", setup.config(transport="http"))
    script = str(HERE / "peers" / "kept_session.py")
    return [str(_peer("fastmcp") / "python"), script, file, *([str(port)] if port else [])]


def _mcp_proxy(setup: Setup, home: Path, port: int) -> list[str]:
    program = str(_peer("mcp-proxy") / "mcp-proxy")
    if not port:
        return [program, "--log-level", "WARNING", "--transport", "streamablehttp", setup.url]
    return [program, "--log-level", "WARNING", "--port", str(port), "--", *setup.command]


def _supergateway(setup: Setup, home: Path, port: int) -> list[str]:
    if not port:
        return _node("supergateway", "--streamableHttp", setup.url, "--logLevel", "none")
    face = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port), "--logLevel", "none"]
    return _node("supergateway", "--stdio", shlex.join(setup.command), *face)


def _mcp_hub(setup: Setup, home: Path, port: int) -> list[str]:
    return _node("mcp-hub", "--port", str(port), "--config", write(home, "hub.json", setup.config()))


FASTMCP = Way("fastmcp run", _fastmcp, "t0")
FASTMCP_KEPT = Way("fastmcp, kept session", _fastmcp_kept, "t0")
MCP_PROXY = Way("mcp-proxy", _mcp_proxy, "t0")
SUPERGATEWAY = Way("supergateway", _supergateway, "t0")
MCP_HUB = Way("mcp-hub", _mcp_hub, path="/mcp", sse=True)

STDIO_PEERS = (FASTMCP_KEPT, FASTMCP)
STDIO_TO_HTTP_PEERS = (FASTMCP_KEPT, MCP_PROXY, SUPERGATEWAY)
WEB_PEERS = (
    FASTMCP_KEPT._replace(path="/mcp"),
    MCP_PROXY._replace(path="/mcp"),
    SUPERGATEWAY._replace(path="/mcp"),
    MCP_HUB,
)
