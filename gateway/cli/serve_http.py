"""`kimi-gateway serve --http`: the endpoint for any number of clients."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from configs import files
from configs.models import Config
from gateway.cli import running_file
from gateway.cli.reload import follow
from gateway.cli.report import METHOD, report
from gateway.cli.usage import Failed, Usage
from gateway.cli.welcome import greeting
from gateway.cli.wiring import Gateway, running
from gateway.protocol.frames import encode
from servers.http.app import Endpoint
from servers.http.door import Door
from servers.http.server import bind, serving
from servers.http.sessions import Limits

logger = logging.getLogger("kimi_gateway")
TOKEN = "KIMI_GATEWAY_TOKEN"
HOST, PORT = "127.0.0.1", 8765
ALWAYS = ("127.0.0.1", "::1")
"""Addresses whose names are welcome without being named."""
HINT = (
    "requests that name another host than 127.0.0.1, localhost or [::1] are answered 421 until gateway.http.hosts in"
    ' ~/.kode.json names it, like ["gateway.example.com"]'
)
CAPABILITIES = b'{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}'
"""All that the gateway can relay: a question that the asking client cannot answer is refused on its behalf."""


def address(given: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `HOST`, `:PORT` or nothing.

    Raises:
        Usage: it is none of these.
    """
    host, colon, port = given.rpartition(":") if not given.endswith("]") else (given, "", "")
    if not colon:
        host, port = (given, "") if not given.isdigit() else ("", given)
    host = host.strip("[]") or HOST
    if port and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise Usage(f"--http {given}: {port!r} is no port; write HOST:PORT, like {HOST}:{PORT}")
    return host, int(port) if port else PORT


def claim(given: str, *, auth: bool) -> socket.socket:
    """The socket to serve on.

    Raises:
        Usage: without a token, others than this machine could come in.
        Failed: it cannot be had.
    """
    host, port = address(given)
    if not auth and not _is_loopback(host):
        raise Usage(f"--no-auth serves this machine only, and {host} is open to others: leave out one of the two")
    try:
        return bind(host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Failed(f"cannot serve on {host}:{port}: {reason}. Name another port with --http HOST:PORT.") from error


def token() -> str:
    """The one that opens the door: from the environment, else made once and kept for this user alone.

    Raises:
        Failed: it cannot be kept.
    """
    given = os.environ.get(TOKEN, "").strip()
    if given:
        return given
    file = files.data_directory(Path.home(), os.environ) / "token"
    try:
        return _kept(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failed(f"the token cannot be kept in {file}: {reason}. Make that writable, or set {TOKEN}.") from error


def _kept(file: Path) -> str:
    try:
        kept = file.read_text().strip()
    except FileNotFoundError:
        kept = ""
    if not kept or file.stat().st_mode & 0o077:
        kept = kept or secrets.token_urlsafe(32)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(file, f"{kept}\n".encode(), mode=files.PRIVATE)
    return kept


async def serve(config: Config, options: argparse.Namespace, listener: socket.socket) -> int:
    stop, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    # A terminal that is closed takes its gateway with it; one without a terminal is told to read its files again.
    loop.add_signal_handler(signal.SIGHUP, stop.set if sys.stdin.isatty() else reload.set)
    secret = None if options.no_auth else token()
    host, port = listener.getsockname()[:2]
    url = f"http://{_reachable(host)}:{port}/mcp"
    note = running_file.place(config.project, Path.home(), os.environ)
    async with running(config, shared=True) as gateway:
        gateway.manager.declare(CAPABILITIES)
        endpoint = Endpoint(
            replace(gateway.house, answers={METHOD: lambda: encode(report(gateway))}),
            _door(gateway, port, secret),
            profiles=lambda: gateway.config.profiles,
            profile=options.profile,
            limits=Limits(body=config.http.body_limit),
        )
        with running_file.announced(note, config.project, url, secret or ""):
            async with serving(endpoint, listener):
                logger.info("serving %s", url)
                if host not in ALWAYS and not config.http.hosts:
                    logger.warning(HINT)
                aside = [
                    asyncio.ensure_future(greeting(gateway, url, secret, options.profile)),
                    asyncio.ensure_future(follow(gateway, options, reload)),
                ]
                try:
                    await stop.wait()
                finally:
                    for task in aside:
                        task.cancel()
                    gateway.manager.conclude()  # while there are responses to say it on
    return 0


def _door(gateway: Gateway, port: int, secret: str | None) -> Callable[[], Door]:
    """The door as the configuration has it now."""
    current = (gateway.config.http, Door(gateway.config.http, port, secret))

    def door() -> Door:
        nonlocal current
        if current[0] is not gateway.config.http:
            current = (gateway.config.http, Door(gateway.config.http, port, secret))
        return current[1]

    return door


def _reachable(host: str) -> str:
    """The name by which this machine can reach an address it serves on: of all addresses, its own."""
    if ipaddress.ip_address(host).is_unspecified:
        return "[::1]" if ":" in host else HOST
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
