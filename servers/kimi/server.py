"""Serve Kimi's tools as an MCP server over stdio, in both protocol eras."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from configs.kimi import KimiSettings, load
from servers.kimi import listing
from servers.kimi.activity import Activity
from servers.kimi.arguments import TOOLS
from servers.kimi.failure import Failure
from servers.kimi.files import roots_from
from servers.kimi.recursion import below_kimi, name_server
from servers.kimi.service import Service
from servers.kimi.stdio import joined, stdio
from servers.kimi.tasks import beside

ROOTS_SECONDS = 5.0
"""How long a client may take to name its roots before the project directory is taken instead."""
PROGRESS_SECONDS = 1.0
LISTING_FRESH_MS = 300_000

Context = ServerRequestContext[Any, Any]
logger = logging.getLogger("kimi-gateway.kimi")


class NeedsRoots(Exception):
    """The client has to be asked for its roots in the way of the stateless era: by a result."""


def build(service: Service, tools: list[dict[str, Any]]) -> Server[Any]:
    """The SDK's server around a service; it offers exactly the listing given."""
    listed = types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools])
    names = {tool["name"] for tool in tools}

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params and params.cursor:
            raise MCPError(code=types.INVALID_PARAMS, message="there is only one page")
        return listed

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in names:
            raise MCPError(code=types.INVALID_PARAMS, message=f"unknown tool {params.name!r}")
        try:
            return _result(await _call(service, context, params), failed=False)
        except Failure as failure:
            return _result(failure.text(), failed=True)
        except NeedsRoots:
            return types.InputRequiredResult(input_requests={"roots": types.ListRootsRequest()})
        except Exception as error:
            logger.exception("a call of %s failed in this server itself", params.name)
            words = f"Kimi's server itself failed ({type(error).__name__}); its stderr says more"
            return _result(Failure("failed", words).text(), failed=True)

    return Server(
        listing.SERVER_INFO["name"],
        version=listing.SERVER_INFO["version"],
        title=listing.SERVER_INFO["title"],
        instructions=listing.INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(LISTING_FRESH_MS, "private")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(text: str, *, failed: bool) -> types.CallToolResult:
    # Models cut emoji in two, and disks hold names that are no UTF-8.
    return types.CallToolResult(content=[types.TextContent(type="text", text=joined(text))], is_error=failed)


async def _call(service: Service, context: Context, params: types.CallToolRequestParams) -> str:
    activity = Activity()
    roots = _roots(context, params)
    if "progress_token" not in (context.meta or {}):
        return await service.call(params.name, params.arguments, roots, activity)
    async with beside() as group:
        group.start_soon(_report, context, activity)
        return await service.call(params.name, params.arguments, roots, activity)
    raise AssertionError("a group that swallows what ended it")


async def _report(context: Context, activity: Activity) -> None:
    """Show life until the call is over."""
    while True:
        await context.session.report_progress(round(activity.elapsed(), 3), None, activity.message())
        await anyio.sleep(PROGRESS_SECONDS)


def _roots(context: Context, params: types.CallToolRequestParams) -> Callable[[], Awaitable[tuple[Path, ...]]]:
    async def ask() -> tuple[Path, ...]:
        capabilities = context.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return ()
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if params.input_responses is None:
                raise NeedsRoots
            answer = params.input_responses.get("roots")
            return _directories(answer) if isinstance(answer, types.ListRootsResult) else ()
        with anyio.move_on_after(ROOTS_SECONDS), suppress(MCPError, ValueError):
            return _directories(await context.session.send_request(types.ListRootsRequest(), types.ListRootsResult))
        return ()

    return ask


def _directories(answer: types.ListRootsResult) -> tuple[Path, ...]:
    return roots_from([str(root.uri) for root in answer.roots])


async def serve(settings: KimiSettings, project: Path) -> None:
    """Serve stdin and stdout until the client leaves or somebody ends us."""
    service = Service(settings, dict(os.environ), project)
    # Kimi with these tools would call itself: below a Kimi run there is nothing to offer.
    tools = [] if below_kimi() else listing.tools(settings)
    assert {tool["name"] for tool in tools} <= set(TOOLS)
    server = build(service, tools)
    async with beside() as group:
        group.start_soon(_leave_on_signal, group.cancel_scope)
        try:
            async with stdio() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            with anyio.CancelScope(shield=True):
                await service.close()


async def _leave_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()
            return


def run() -> int:
    """Start the server for the working directory; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    name_server()
    settings, warnings = load(Path.home(), os.environ)
    for warning in warnings:
        logger.warning("%s", warning)
    anyio.run(serve, settings, Path.cwd())
    return 0
