"""`kimi-gateway call`: one tool, once."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging

from msgspec import Raw

from configs.models import Config
from gateway.cli.answers import CAPABILITIES, Answering
from gateway.cli.arguments import parse_arguments, unknown_parameters
from gateway.cli.content import Shown
from gateway.cli.nearest import did_you_mean
from gateway.cli.progress import ProgressLine, all_tried
from gateway.cli.schemas import Schema
from gateway.cli.screen import complain, say_json, sentence
from gateway.cli.session import LocalClient, Refusal
from gateway.cli.usage import Failed, Usage
from gateway.cli.wiring import Gateway, configure, log_to_stderr, policy_of, run_loop, running
from gateway.naming import canonical, split
from gateway.protocol import methods
from gateway.protocol.frames import Frame, Object, encode, open_object, quote, seal, text
from gateway.registry import Route

PATIENCE = 60.0


def run(options: argparse.Namespace) -> int:
    config = configure(options)
    log_to_stderr(logging.WARNING)
    return run_loop(call(config, options))


async def call(config: Config, options: argparse.Namespace) -> int:
    async with running(config, only=_concerned(config, options.tool)) as gateway:
        try:
            answer = await _asked(gateway, options)
        except Refusal as refusal:
            complain(f"{options.tool}: {refusal}")
            return 1
    return _show(answer, options)


def _concerned(config: Config, name: str) -> frozenset[str]:
    """The servers the name can belong to: no other need be started for one call."""
    server, tool = split(name)
    if server in config.servers:
        return frozenset((server,))
    if server:
        hint = did_you_mean(server, config.servers, "`kimi-gateway status` lists all there are.")
        raise Usage(f"there is no server {server!r}. {hint}")
    prefixes = policy_of(config).prefixes
    owners = frozenset(one for one in config.servers if prefixes[one].text and tool.startswith(prefixes[one].text))
    return owners or frozenset(config.servers)


async def _asked(gateway: Gateway, options: argparse.Namespace) -> Object:
    line = ProgressLine()

    def heard(frame: Frame) -> None:
        if frame.method == methods.PROGRESS:
            line.show(_progress(frame))
        elif frame.method == methods.CANCELLED:
            answering.withdrawn(frame)
        elif frame.id and frame.method:
            line.clear()
            answering.asked(frame)

    client = LocalClient(gateway, heard=heard)
    await client.introduce(CAPABILITIES)
    await all_tried(gateway, PATIENCE)
    route = gateway.registry.find(options.tool)
    if route is None:
        raise _unknown(gateway, options.tool)
    schema = _schema(gateway, route)
    arguments = parse_arguments(options.arguments, schema)
    for warning in unknown_parameters(options.arguments, schema):
        complain(warning)
    params: Object = {
        "name": quote(canonical(route.server, route.name)),
        "arguments": Raw(arguments.encode()),
        "_meta": Raw(encode({"progressToken": 1})),
    }
    async with asyncio.TaskGroup() as group:
        answering = Answering(route.server, group, client.say)
        try:
            outcome = await client.ask(methods.TOOLS_CALL, seal(params))
        except Refusal as refusal:
            outcome = refusal  # raised outside the group, which would wrap it
        finally:
            line.clear()
            answering.close()
    if isinstance(outcome, Refusal):
        raise outcome
    return outcome


def _schema(gateway: Gateway, route: Route) -> Schema:
    shelf = gateway.registry.snapshot.shelves[route.server]
    original = next(item.original for item in shelf.tools if item.name == route.name)
    return json.loads(original).get("inputSchema") or {}


def _unknown(gateway: Gateway, name: str) -> Exception:
    server, _ = split(name)
    upstream = gateway.manager.upstreams.get(server)
    off = upstream is not None and not upstream.server.enabled
    if upstream is not None and (off or (upstream.connection is None and upstream.listing is None)):
        reason, advice = upstream.describe()
        return Failed(f"{server} {sentence(reason)} {advice}".rstrip())
    hidden = gateway.registry.explain(_canonical(gateway, name))
    if hidden is not None:
        return Usage(f"{name} is {hidden}")
    known = [canonical(route.server, route.name) for route in gateway.registry.view().routes["tools"].values()]
    hint = did_you_mean(name, dict.fromkeys(known), "`kimi-gateway tools` lists all there are.")
    return Usage(f"there is no tool {name!r}. {hint}")


def _canonical(gateway: Gateway, name: str) -> str:
    """The `server:tool` of a name on the wire, also of one that is hidden."""
    shelves = gateway.registry.snapshot.shelves.items()
    found = (canonical(server, item.name) for server, shelf in shelves for item in shelf.tools if item.wire == name)
    return next(found, name)


def _progress(frame: Frame) -> str:
    params = open_object(frame.params)
    total = f"/{bytes(params['total']).decode()}" if "total" in params else ""
    message = text(params.get("message")) or ""
    return f"progress {bytes(params.get('progress', b'?')).decode()}{total} {message}".rstrip()


def _show(answer: Object, options: argparse.Namespace) -> int:
    result = {key: json.loads(bytes(value)) for key, value in answer.items()}
    if options.json:
        say_json(result)
    else:
        Shown(options.tool, options.output).show(result)
    return 1 if result.get("isError") is True else 0
