"""What `serve --http` tells the person who started it: what is there, where it is, and how to use it."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap

from gateway.cli.screen import flat, harmless
from gateway.cli.wiring import Gateway
from gateway.naming import canonical

PATIENCE = 20.0
SHOWN = 6
"""Tools of one server that are named."""
NAME = "kimi-gateway"


async def greeting(gateway: Gateway, url: str, token: str | None, profile: str | None) -> None:
    """Say it once every server has been tried."""
    await gateway.manager.all_tried(PATIENCE)
    width = max(shutil.get_terminal_size().columns, 60) if sys.stderr.isatty() else None
    lines = ["", *servers(gateway, width, profile), "", *addresses(url), "", *recipes(url, token, width), ""]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def servers(gateway: Gateway, width: int | None, profile: str | None) -> list[str]:
    """A row for each server: its state and its tools; broken to the width of a terminal, never elsewhere."""
    rows = [("SERVER", "STATE", "TOOLS")]
    view = gateway.registry.view(profile)
    for name, upstream in sorted(gateway.manager.upstreams.items()):
        shelf = gateway.registry.snapshot.shelves.get(name)
        tools = [item.name for item in shelf.tools if canonical(name, item.name) not in view.hidden] if shelf else []
        named = ", ".join(tools[:SHOWN]) + (f" and {len(tools) - SHOWN} more" if len(tools) > SHOWN else "")
        state = "on call" if upstream.resting else upstream.state.value
        rows.append((name, state, named or flat(upstream.cause)))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [
        line for row in rows for line in _row(f"  {row[0]:<{first}}  {row[1]:<{second}}  ", harmless(row[2]), width)
    ]


def addresses(url: str) -> list[str]:
    others = {f"{url}/p/NAME": "a profile", f"{url.removesuffix('/mcp')}/sse": "for clients that know only HTTP+SSE"}
    longest = max(map(len, others))
    return [f"  {url}", *(f"  {address:<{longest}}   {words}" for address, words in others.items())]


def recipes(url: str, token: str | None, width: int | None) -> list[str]:
    """Ready to paste, for each client in its own words; on a terminal no line is too long for 80 columns."""
    bearer = f"Bearer {token}"
    headers = {"headers": {"Authorization": bearer}} if token else {}
    header = f'--header "Authorization: {bearer}"'
    more = ["", ""] if not token else [f" {header}", ""] if width is None else [" \\", header]
    codex = [f"[mcp_servers.{NAME}]", f'url = "{url}"']
    if token:
        codex += [f"[mcp_servers.{NAME}.http_headers]", f'Authorization = "{bearer}"']
    sections = {
        "Claude Code": [f"claude mcp add --transport http {NAME} {url}{more[0]}", more[1]],
        "Gemini CLI": [f"gemini mcp add --transport http {NAME} {url}{more[0]}", more[1]],
        "Codex: ~/.codex/config.toml": codex,
        "Kimi Code: ~/.kimi-code/mcp.json, Cursor: ~/.cursor/mcp.json": _json(
            {"mcpServers": {NAME: {"url": url, **headers}}}
        ),
        "VS Code: .vscode/mcp.json": _json({"servers": {NAME: {"type": "http", "url": url, **headers}}}),
    }
    return [
        line
        for client, words in sections.items()
        for line in (f"  {client}", *(f"    {word}" for word in words if word))
    ]


def _row(before: str, words: str, width: int | None) -> list[str]:
    if width is None or len(before) + len(words) <= width:
        return [f"{before}{words}".rstrip()]
    return textwrap.wrap(
        words, width, initial_indent=before, subsequent_indent=" " * len(before), break_on_hyphens=False
    )


def _json(entry: object) -> list[str]:
    return json.dumps(entry, indent=1).splitlines()
