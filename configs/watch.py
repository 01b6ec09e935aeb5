"""Notice that files changed: created, edited, replaced or gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

INTERVAL = 0.5
"""Seconds between two looks. A few stat calls cost less than any watching library would to import."""
SETTLING = 0.15
"""Seconds in which a file must not change before it is read."""
ROUNDS = 5
"""How often it may change nevertheless: in the end it is read as it is."""

Stamp = tuple[int, int, int, int] | None


def stamp(file: Path) -> Stamp:
    """What differs when a file was written or replaced; `None` while it cannot be seen."""
    try:
        status = os.stat(file)  # noqa: PTH116 - the cheapest form of a call made for ever
    except OSError:
        return None
    # The third tells of a file that became readable, or was written with its old date.
    return status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino


async def changes(files: Callable[[], Sequence[Path]], asked: asyncio.Event) -> AsyncIterator[None]:
    """Yield each time a file differs from the last look, or when somebody asks."""
    seen = _look(files)
    while True:
        try:
            async with asyncio.timeout(INTERVAL):
                await asked.wait()
        except TimeoutError:
            pass
        if asked.is_set() or _look(files) != seen:
            asked.clear()
            seen = await _settled(files)
            yield


def _look(files: Callable[[], Sequence[Path]]) -> dict[Path, Stamp]:
    return {file: stamp(file) for file in files()}


async def _settled(files: Callable[[], Sequence[Path]]) -> dict[Path, Stamp]:
    """What they are once nobody writes any more: one that is empty or gone may be about to be written again."""
    before = _look(files)
    for _ in range(ROUNDS):
        await asyncio.sleep(SETTLING)
        now = _look(files)
        if now == before:
            break
        before = now
    return before
