"""Watching files: every way in which one can change, and none that only looks like it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from configs.watch import changes

DEADLINE = 30.0


class Watched:
    def __init__(self, *files: Path) -> None:
        self.asked = asyncio.Event()
        self.seen: asyncio.Queue[str] = asyncio.Queue()
        self._files = files

    async def follow(self) -> None:
        found: AsyncIterator[None] = changes(lambda: self._files, self.asked)
        async for _ in found:
            text = "|".join(file.read_text() if file.exists() else "-" for file in self._files)
            self.seen.put_nowait(text)

    async def next(self) -> str:
        async with asyncio.timeout(DEADLINE):
            return await self.seen.get()


def run(scenario: Callable[[Watched], Awaitable[None]], *files: Path) -> None:
    async def main() -> None:
        watched = Watched(*files)
        task = asyncio.ensure_future(watched.follow())
        await asyncio.sleep(0)  # it has looked once
        try:
            await scenario(watched)
        finally:
            task.cancel()

    asyncio.run(main())


def test_a_file_is_created_written_replaced_and_deleted(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"

    async def scenario(watched: Watched) -> None:
        file.write_text("1")
        assert await watched.next() == "1|-"
        file.write_text("2")
        assert await watched.next() == "2|-"
        beside = tmp_path / "c"
        beside.write_text("3")
        beside.replace(file)
        assert await watched.next() == "3|-"
        other.write_text("4")
        assert await watched.next() == "3|4"
        file.unlink()
        assert await watched.next() == "-|4"

    run(scenario, file, other)


def test_a_change_that_keeps_size_and_date_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")

    async def scenario(watched: Watched) -> None:
        status = file.stat()
        file.write_text("2")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert await watched.next() == "2"

    run(scenario, file)


def test_a_file_that_is_emptied_or_removed_before_it_is_written_is_read_once_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("before")

    async def scenario(watched: Watched) -> None:
        for half in ("", "hal", None):
            if half is None:
                file.unlink()
            else:
                file.write_text(half)
            watched.asked.set()
            await asyncio.sleep(0)  # it looks now
            await asyncio.sleep(0)
            file.write_text(f"whole after {half}")
            assert await watched.next() == f"whole after {half}"
        assert watched.seen.empty()

    run(scenario, file)


def test_who_asks_is_answered_without_a_change(tmp_path: Path) -> None:
    async def scenario(watched: Watched) -> None:
        watched.asked.set()
        assert await watched.next() == "-"

    run(scenario, tmp_path / "a")
