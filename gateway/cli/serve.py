"""`kimi-gateway serve`: the endpoint."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal

from configs.models import Config
from gateway.cli.consent import ask_for_trust
from gateway.cli.reload import follow
from gateway.cli.wiring import check_profile, configure, log_to_stderr, read_config, run_loop, running
from gateway.conversation import Conversation
from gateway.eras.opening import Opening
from servers.stdio import StdioFace, claimed_stdio

logger = logging.getLogger("kimi_gateway")
GRACE = 5.0
"""Seconds that calls in flight have left when the client has closed its side."""


def run(options: argparse.Namespace) -> int:
    config = ask_for_trust(configure(options), lambda: read_config(options))
    check_profile(config, options.profile)
    log_to_stderr(logging.INFO)
    if options.http is not None:
        # Here, because the endpoint on stdio should not pay for importing a web server.
        from gateway.cli import serve_http

        return run_loop(serve_http.serve(config, options, serve_http.claim(options.http, auth=not options.no_auth)))
    with claimed_stdio() as (source, sink):
        return run_loop(serve(config, options, source, sink))


async def serve(config: Config, options: argparse.Namespace, source: int, sink: int) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reload = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    face = StdioFace(source, sink, limit=config.frame_limit)
    async with running(config) as gateway:
        talks: list[Conversation] = []

        def opened(conversation: Conversation) -> None:
            talks.append(conversation)
            face.talk = conversation
            if conversation.era == "session":
                gateway.audience.join(conversation)

        face.listen(Opening(gateway.house, face.write, opened, profile=options.profile))
        stopped = asyncio.ensure_future(stop.wait())
        following = asyncio.ensure_future(follow(gateway, options, reload))
        try:
            await asyncio.wait([stopped, face.ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            following.cancel()
        if face.ended.done():
            logger.info("%s", face.ended.result())
            for conversation in talks:
                conversation.conclude()
                await conversation.finished_within(GRACE)
                conversation.abandon()
                gateway.audience.leave(conversation)
                conversation.close()
    # Only now: who called when we were told to stop has been told so.
    await face.close()
    return 0
