"""Put a gateway together from its configuration."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from clients.catalogue import Catalogue
from clients.manager import ClientManager
from clients.upstream import Timing
from configs.load import load
from configs.models import Config, Server, Source
from gateway.audience import Audience
from gateway.cli.consent import untrusted_words
from gateway.cli.nearest import did_you_mean
from gateway.cli.screen import complain
from gateway.cli.usage import Usage
from gateway.conversation import House
from gateway.parking import Parking
from gateway.registry import Policy, ToolRegistry
from servers.kimi.upstream import shipped, with_kimi

T = TypeVar("T")
TIMING = Timing()
NO_SERVERS = "No servers are configured. Put some into ~/.kode.json under mcpServers, or try --demo."


@dataclass(slots=True)
class Gateway:
    config: Config
    registry: ToolRegistry
    audience: Audience
    manager: ClientManager
    house: House


def configure(options: argparse.Namespace) -> Config:
    """Read the configuration and say on stderr what is wrong with it."""
    check_project(options)
    config = read_config(options)
    for problem in config.problems:
        complain(str(problem))
    return config


def check_project(options: argparse.Namespace) -> None:
    project: Path | None = options.project
    if project is not None and not project.is_dir():
        raise Usage(f"--project {project}: no such directory")


def read_config(options: argparse.Namespace) -> Config:
    """What the files say now, and what the command line adds."""
    config = load(options.project, cwd=Path.cwd(), home=Path.home(), environ=os.environ)
    if options.demo:
        config = replace(config, servers=dict(sorted({**config.servers, "demo": demo_server()}.items())))
    return with_kimi(config, os.environ)


def demo_server() -> Server:
    """The bundled server, run by this very Python and nothing from the working directory."""
    return Server("demo", "stdio", Source(None, "builtin"), command=sys.executable, args=("-P", "-m", "servers.demo"))


def check_profile(config: Config, profile: str | None) -> None:
    if profile is not None and profile not in config.profiles:
        known = ", ".join(sorted(config.profiles)) or "none is configured"
        hint = f" {did_you_mean(profile, config.profiles)}".rstrip()
        raise Usage(f"there is no profile {profile!r}; profiles: {known}.{hint}")


def policy_of(config: Config) -> Policy:
    return Policy(
        servers=tuple(config.servers),
        naming=config.naming,
        server_rules={name: server.rules for name, server in config.servers.items()},
        rules=config.rules,
        profiles=config.profiles,
    )


@contextlib.asynccontextmanager
async def running(
    config: Config, *, only: frozenset[str] | None = None, timing: Timing = TIMING, shared: bool = False
) -> AsyncGenerator[Gateway]:
    """All upstreams under supervision, for the length of the block; `shared` by any number of clients, or one's own."""
    loop = asyncio.get_running_loop()
    registry = ToolRegistry(policy_of(config))
    audience = Audience(loop.call_later, single=not shared)
    manager = ClientManager(
        registry,
        audience,
        project=config.project,
        environ=os.environ,
        catalogue=Catalogue(cache_directory(os.environ) / "catalogue"),
        limit=config.frame_limit,
        timing=timing,
        shared=shared,
        shipped=shipped,
    )
    parking = Parking(loop.call_later)
    house = House(registry, manager, audience, parking, notes=lambda: untrusted_words(gateway.config))
    gateway = Gateway(config, registry, audience, manager, house)
    async with manager:
        manager.reconcile({name: server for name, server in config.servers.items() if only is None or name in only})
        # One turn for the supervisors: what is known of a server without starting it is published before anybody looks.
        await asyncio.sleep(0)
        yield gateway


def cache_directory(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "kimi-gateway"


def log_to_stderr(level: int) -> None:
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(name)s %(message)s")


def run_loop(main: Coroutine[object, object, T]) -> T:
    """Run on uvloop where it exists."""
    # Nearly all that a call allocates ends with it; looking for cycles after every 700 objects cost 5 % of each.
    gc.set_threshold(20_000, 10, 10)
    if sys.platform == "linux":
        from gateway.cli import heap

        heap.keep()
    try:
        from gateway.cli.loop import new_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
