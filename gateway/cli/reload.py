"""Apply a changed configuration to a running gateway, server by server."""

from __future__ import annotations

import argparse
import asyncio
import logging
from dataclasses import replace

from configs.models import Config
from configs.watch import changes
from gateway.cli.wiring import Gateway, policy_of, read_config
from gateway.registry import KINDS

logger = logging.getLogger("kimi_gateway.config")


async def follow(gateway: Gateway, options: argparse.Namespace, asked: asyncio.Event) -> None:
    """Watch the files for as long as the gateway runs; a broken one keeps the last good state."""
    async for _ in changes(lambda: gateway.config.files, asked):
        config = read_config(options)
        for problem in config.problems:
            if problem not in gateway.config.problems:
                logger.warning("%s", problem)
        if config.broken:
            gateway.config = replace(gateway.config, problems=config.problems)
        elif config != gateway.config:
            apply(gateway, config)
        else:
            gateway.manager.reconcile(config.servers)  # asked without a change: what failed may try again


def apply(gateway: Gateway, config: Config) -> None:
    """Names and filters at once, servers by their own supervisors."""
    for key, changed in (
        ("maxFrame", config.frame_limit != gateway.config.frame_limit),
        ("http.bodyLimit", config.http.body_limit != gateway.config.http.body_limit),
    ):
        if changed:
            logger.warning("gateway.%s counts from the next start", key)
    policy = policy_of(config)
    if policy != gateway.registry.snapshot.policy:
        gateway.registry.apply(policy)
        gateway.audience.changed(KINDS)
    gateway.config = config
    gateway.manager.reconcile(config.servers)
    logger.info("configuration applied: %d servers", len(config.servers))
