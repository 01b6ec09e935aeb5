"""Whose turn it is: reads side by side, writes alone, all in the order they came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from servers.kimi.turns import Turns


class Door:
    """Calls at one `Turns`, each by a name: `r…` reads, `w…` writes."""

    def __init__(self, concurrency: int, group: TaskGroup) -> None:
        self.turns = Turns(concurrency)
        self._group = group
        self._done: dict[str, anyio.Event] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self.inside: list[str] = []

    async def _call(self, name: str) -> None:
        with self._scopes[name]:
            async with self.turns.turn(writes=name.startswith("w")) as turn:
                await turn()
                self.inside.append(name)
                try:
                    await self._done[name].wait()
                finally:
                    self.inside.remove(name)

    async def come(self, *names: str) -> str:
        for name in names:
            self._done[name], self._scopes[name] = anyio.Event(), anyio.CancelScope()
            self._group.start_soon(self._call, name)
            await checkpoint()
        return await self.settled()

    async def leave(self, *names: str) -> str:
        for name in names:
            self._done[name].set()
        return await self.settled()

    async def cancel(self, name: str) -> str:
        self._scopes[name].cancel()
        return await self.settled()

    async def settled(self) -> str:
        """Who is inside once nobody moves any more."""
        for _ in range(20):
            await checkpoint()
        return " ".join(sorted(self.inside))


def at_a_door(concurrency: int, scene: Callable[[Door], Awaitable[None]]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            await scene(Door(concurrency, group))
            group.cancel_scope.cancel()

    anyio.run(main)


def test_reads_run_side_by_side_up_to_the_limit() -> None:
    async def scene(door: Door) -> None:
        assert await door.come("r1", "r2", "r3") == "r1 r2"
        assert repr(door.turns) == "<Turns 2 reading, 0 writing, 1 waiting>"
        assert await door.leave("r1") == "r2 r3"

    at_a_door(2, scene)


def test_a_write_waits_for_the_reads_before_it_and_holds_those_after_it() -> None:
    async def scene(door: Door) -> None:
        assert await door.come("r1", "r2", "w1", "r3", "w2", "r4") == "r1 r2"
        assert await door.leave("r1") == "r2"
        assert await door.leave("r2") == "w1"
        assert await door.leave("w1") == "r3"
        assert await door.leave("r3") == "w2"
        assert await door.leave("w2") == "r4"

    at_a_door(4, scene)


def test_writes_run_one_after_the_other_in_their_order() -> None:
    async def scene(door: Door) -> None:
        assert await door.come("w1", "w2", "w3") == "w1"
        assert await door.leave("w1") == "w2"
        assert await door.leave("w2") == "w3"

    at_a_door(4, scene)


def test_a_concurrency_of_one_serves_everything_one_at_a_time() -> None:
    async def scene(door: Door) -> None:
        assert await door.come("r1", "r2", "w1", "r3") == "r1"
        assert await door.leave("r1") == "r2"
        assert await door.leave("r2") == "w1"
        assert await door.leave("w1") == "r3"

    at_a_door(1, scene)


@pytest.mark.parametrize("waiting", ["w1", "r2"])
def test_one_that_gives_up_waiting_blocks_nobody(waiting: str) -> None:
    async def scene(door: Door) -> None:
        assert await door.come("w0", waiting, "r9") == "w0"
        assert await door.cancel(waiting) == "w0"
        assert await door.leave("w0") == "r9"

    at_a_door(1, scene)


def test_one_cancelled_inside_makes_room() -> None:
    async def scene(door: Door) -> None:
        assert await door.come("w1", "w2") == "w1"
        assert await door.cancel("w1") == "w2"

    at_a_door(4, scene)


def test_one_cancelled_in_the_moment_it_is_admitted_leaves_again() -> None:
    async def scene(door: Door) -> None:
        await door.come("w1", "w2", "r1")
        door._done["w1"].set()  # pyright: ignore[reportPrivateUsage]
        while repr(door.turns) != "<Turns 0 reading, 1 writing, 1 waiting>" or "w1" in door.inside:
            await checkpoint()
        assert await door.cancel("w2") == "r1"

    at_a_door(4, scene)
