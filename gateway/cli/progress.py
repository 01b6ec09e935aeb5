"""Show on a terminal what every server is doing while it is waited for."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from typing import TYPE_CHECKING

from clients.upstream import Upstream
from gateway.cli.screen import complain, flat, harmless
from gateway.cli.wiring import Gateway

if TYPE_CHECKING:
    from rich.console import RenderableType

MOMENT = 0.3
"""Seconds in which servers may come up before anything is drawn."""
FRAME = 0.1


async def all_tried(gateway: Gateway, patience: float) -> None:
    """Return when every server has come up or failed once, or time is over."""
    async with asyncio.TaskGroup() as group:
        trying = group.create_task(gateway.manager.all_tried(patience))
        await asyncio.wait([trying], timeout=MOMENT)
        if not trying.done() and sys.stderr.isatty():
            await _draw(gateway, trying)


async def _draw(gateway: Gateway, trying: asyncio.Task[None]) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        return
    waited = [upstream for upstream in gateway.manager.upstreams.values() if upstream.server.enabled]
    waited = [upstream for upstream in waited if not upstream.resting]
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not trying.done():
            live.update(_picture(waited), refresh=True)
            await asyncio.wait([trying], timeout=FRAME)


def _picture(upstreams: list[Upstream]) -> RenderableType:
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    drawn = Table.grid(padding=(0, 1))
    for upstream in upstreams:
        mark, words = _words(upstream)
        sign = Spinner("dots") if mark == "" else Text(mark, "green" if mark == "✓" else "red")
        drawn.add_row(sign, Text(upstream.name), Text(harmless(words), "dim", overflow="ellipsis", no_wrap=True))
    return drawn


def _words(upstream: Upstream) -> tuple[str, str]:
    if upstream.connection is not None:
        return "✓", f"{len(upstream.listing.tools) if upstream.listing else 0} tools"
    if upstream.tried.is_set():
        return "✗", flat(upstream.cause)
    return "", upstream.activity


class ProgressLine:
    """What a call reports of its progress: one line that changes on a terminal, a line each when piped."""

    def __init__(self) -> None:
        self._alive = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def show(self, words: str) -> None:
        if not self._alive:
            complain(words)
            return
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{harmless(flat(words))[:width]}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Before anything else is written there."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
