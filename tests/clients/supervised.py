"""A gateway in the test's own process, with times of the test's choosing, for what takes too long otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from clients.catalogue import Catalogue, Memory
from clients.state import State
from clients.upstream import Timing, Upstream
from configs.models import Config, Health, Server, Source
from gateway.cli.session import LocalClient, Refusal
from gateway.cli.wiring import Gateway, cache_directory, running
from gateway.protocol.frames import encode
from gateway.protocol.versions import Era
from gateway.registry import Listing

Json = dict[str, Any]
DEADLINE = 60.0
FAULTY = Path(__file__).parents[1] / "faults" / "server.py"
SOURCE = Source(None, "global")


def entry(name: str = "a", fault: str = "fine", *more: object, **options: Any) -> Server:
    """A small server with this fault, run by our own Python."""
    words = ("-I", "-S", str(FAULTY), fault, *map(str, more))
    return replace(Server(name, "stdio", SOURCE, command=sys.executable, args=words), **options)


def known(server: Server, era: Era = "session") -> Server:
    """The server, as one that was seen before in this era, with the tools `pid` and `stop`."""
    tools = tuple(encode({"name": name, "inputSchema": {"type": "object"}}) for name in ("pid", "stop"))
    known = replace(server, fingerprint=f"known-{server.name}")
    catalogue = Catalogue(cache_directory(os.environ) / "catalogue")
    listing = Listing(tools=tools, capabilities=frozenset({"tools"}))
    catalogue.remember(known.fingerprint, Memory(era=era).with_listing(listing))
    return known


class Supervised:
    """Upstreams under supervision, and a client that has introduced itself."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.client = LocalClient(gateway)

    def __getitem__(self, name: str) -> Upstream:
        return self.gateway.manager.upstreams[name]

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of the tool's result, or of the error."""
        params = encode({"name": tool, "arguments": arguments})
        try:
            result = await self.client.ask("tools/call", params)
        except Refusal as refusal:
            return str(refusal)
        return json.loads(bytes(result["content"]))[0]["text"]

    async def pid(self, name: str = "a") -> int:
        return int(await self.call(f"{name}:pid"))

    async def reaches(self, state: State, name: str = "a") -> Upstream:
        await until(lambda: self[name].state is state, f"{name} {state.value}")
        return self[name]


@contextlib.asynccontextmanager
async def supervised(directory: Path, *servers: Server, timing: Timing | None = None) -> AsyncGenerator[Supervised]:
    config = Config(directory, (), {server.name: server for server in sorted(servers, key=lambda one: one.name)})
    async with running(config, timing=timing or Timing()) as gateway:
        found = Supervised(gateway)
        await found.client.introduce({})
        yield found


async def until(look: Callable[[], bool], what: str) -> None:
    end = asyncio.get_running_loop().time() + DEADLINE
    while not look():
        assert asyncio.get_running_loop().time() < end, f"never seen: {what}"
        await asyncio.sleep(0.005)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(2 * DEADLINE):
            await scenario()

    asyncio.run(main())


QUICK = Health(interval=0.2, timeout=0.3, misses=2)
