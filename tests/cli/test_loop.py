"""The loop whose timers are in a descriptor: as asyncio has it, and in no poll."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from gateway.cli import loop as module
from gateway.cli.loop import Loop, new_loop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such descriptor")
DEADLINE = 30.0


def run(scenario: Callable[[Loop], Coroutine[object, object, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE):
            loop = asyncio.get_running_loop()
            assert isinstance(loop, Loop)
            await scenario(loop)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_timers_run_in_the_order_of_their_times_and_not_before() -> None:
    async def scenario(loop: Loop) -> None:
        heard, over = list[tuple[str, bool]](), loop.create_future()

        def at(name: str, when: float) -> None:
            heard.append((name, loop.time() >= when))
            if len(heard) == 5:
                over.set_result(None)

        now = loop.time()
        for name, delay in (("c", 0.03), ("a", 0.01), ("d", 0.03), ("b", 0.02), ("past", -5.0)):
            loop.call_at(now + delay, at, name, now + delay)
        await over
        assert heard == [("past", True), ("a", True), ("b", True), ("c", True), ("d", True)]

    run(scenario)


def test_a_cancelled_timer_does_not_run_and_delays_no_other() -> None:
    async def scenario(loop: Loop) -> None:
        heard, over = list[str](), loop.create_future()
        first = loop.call_later(0.01, heard.append, "first")
        second = loop.call_later(0.02, heard.append, "second")
        loop.call_later(0.02, second.cancel)
        loop.call_later(0.03, over.set_result, None)
        first.cancel()
        first.cancel()
        await over
        assert heard == ["second"]
        assert first.cancelled()

    run(scenario)


def test_a_timer_may_set_others_and_fail_without_stopping_them() -> None:
    async def scenario(loop: Loop) -> None:
        failures, over = list[object](), loop.create_future()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def fail() -> None:
            loop.call_later(0, over.set_result, None)
            raise ZeroDivisionError

        loop.call_later(0.01, fail)
        later = loop.create_future()
        loop.call_later(0.01, later.set_result, None)
        await over
        await later
        assert [type(failure) for failure in failures] == [ZeroDivisionError]

    run(scenario)


def test_what_asyncio_builds_on_timers_works() -> None:
    async def scenario(loop: Loop) -> None:
        await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await loop.create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 0.01)
        async with asyncio.timeout(1e12) as patience:  # further than a descriptor can be set
            patience.reschedule(loop.time())
            with pytest.raises(asyncio.CancelledError):
                await loop.create_future()
            raise TimeoutError

    with pytest.raises(TimeoutError):
        run(scenario)


def test_it_looks_again_where_a_timer_is_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAR", 0.01)

    async def scenario(loop: Loop) -> None:
        over = loop.create_future()
        loop.call_later(0.05, over.set_result, None)
        await over

    run(scenario)


def test_cancelled_timers_do_not_pile_up() -> None:
    async def scenario(loop: Loop) -> None:
        kept = [loop.call_later(1000, print) for _ in range(100)]
        for _ in range(10_000):
            loop.call_later(1000, print).cancel()
        timers = loop._timers  # pyright: ignore[reportPrivateUsage]
        assert len(timers) < 2 * len(kept) + 2 * module.ROOM
        for timer in kept:
            timer.cancel()

    run(scenario)


def test_no_poll_has_a_timeout_though_a_timer_is_set() -> None:
    """The kernel would set and cancel it anew for each frame."""
    file = Path(f"/proc/self/task/{threading.main_thread().native_id}/syscall")

    def poll() -> list[str]:
        while (call := file.read_text().split())[0] == "running":
            continue
        return call

    async def scenario(loop: Loop) -> None:
        timer = loop.call_later(1000, print)
        _, _, _, _, timeout, *_ = await asyncio.to_thread(poll)
        timer.cancel()
        assert int(timeout, 16) & 0xFFFF_FFFF == 0xFFFF_FFFF

    run(scenario)


def test_its_descriptor_is_closed_with_it() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    loop = new_loop()
    loop.call_later(1000, print)
    loop.close()
    loop.close()
    assert set(Path("/proc/self/fd").iterdir()) <= before


@pytest.mark.parametrize("when", [-5.0, -1e-9, 0.0, -1e12])
def test_a_time_before_the_clock_began_is_over_like_any_other(when: float) -> None:
    async def scenario(loop: Loop) -> None:
        heard, over = list[str](), loop.create_future()
        loop.call_at(when, heard.append, "long ago")
        loop.call_later(0.01, over.set_result, None)
        await over
        assert heard == ["long ago"]

    run(scenario)


def test_timers_that_set_each_other_for_the_past_hold_up_nothing_else() -> None:
    async def scenario(loop: Loop) -> None:
        rounds = 0
        over = loop.create_future()

        def again() -> None:
            nonlocal rounds
            rounds += 1
            assert rounds < 100_000, "nothing else has its turn"
            if rounds == 10:
                loop.call_soon(over.set_result, None)
            if not over.done():
                loop.call_at(0, again)

        loop.call_later(0.01, again)
        later = loop.create_future()
        loop.call_later(0.01, later.set_result, None)
        await over
        await later

    run(scenario)


def test_it_refuses_to_close_while_it_runs_and_runs_on() -> None:
    async def scenario(loop: Loop) -> None:
        with pytest.raises(RuntimeError):
            loop.close()
        await asyncio.sleep(0.01)

    run(scenario)


def test_closed_it_takes_no_timer() -> None:
    loop = new_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_later(1000, print)


def test_a_timer_that_is_interrupted_stops_no_other() -> None:
    heard = list[str]()
    loop = new_loop()

    def interrupt() -> None:
        raise KeyboardInterrupt

    loop.call_later(0.01, interrupt)
    loop.call_later(0.01, heard.append, "other")
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    loop.close()
    assert heard == ["other"]
