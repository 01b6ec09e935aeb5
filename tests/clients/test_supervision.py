"""What a supervisor does after a loss: when it tries again, who may wake it, and what callers are told meanwhile."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from clients.state import State
from clients.upstream import Timing
from configs.models import Server
from gateway.protocol.versions import Era
from tests.clients.supervised import SOURCE, entry, known, run, supervised, until
from tests.clients.web import Script, scripted
from tests.puppets import Puppet

OURS = ("clients", "gateway")
NEVER = 1000.0
"""Seconds that no test lives: what comes nevertheless did not wait for it."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def journal(directory: Path) -> Path:
    file = directory / "journal"
    file.touch()
    return file


def starts(file: Path) -> int:
    return file.read_text().count("start ")


def test_a_loss_after_little_health_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with supervised(tmp_path, entry(), timing=Timing(base=NEVER, cap=NEVER, healthy=NEVER)) as all_:
            os.kill(await all_.pid(), signal.SIGKILL)  # the first retry comes at once
            await until(lambda: all_["a"].restarts == 1 and all_["a"].state is State.READY, "a second life")
            os.kill(await all_.pid(), signal.SIGKILL)
            waiting = await all_.reaches(State.WAITING)
            await until(lambda: (waiting.next_try_at(0.0) or 0.0) > 0.0, "a pause")

    run(scenario)


def test_a_call_that_waits_while_a_lost_server_is_ended_hears_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with supervised(tmp_path, entry("a", "closes-its-input"), timing=Timing(patience=0.01)) as all_:
            await all_.pid()  # it closes its input behind this, and takes two seconds to end
            told = await all_.call("a:pid")
            assert told.startswith('a: is being ended after "closed its input (Broken pipe)". The call was not sent.')

    run(scenario)


def test_a_loss_after_enough_health_is_again_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with supervised(tmp_path, entry(), timing=Timing(base=NEVER, cap=NEVER, healthy=0.0)) as all_:
            for life in range(1, 6):
                os.kill(await all_.pid(), signal.SIGKILL)
                await until(
                    lambda life=life: all_["a"].restarts == life and all_["a"].state is State.READY, "the next life"
                )

    run(scenario)


def test_a_call_wakes_one_that_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with supervised(tmp_path, entry(), timing=Timing(base=NEVER, cap=NEVER)) as all_:
            first = await all_.pid()
            os.kill(first, signal.SIGKILL)
            await until(lambda: all_["a"].restarts == 1 and all_["a"].state is State.READY, "a second life")
            second = await all_.pid()
            os.kill(second, signal.SIGKILL)
            await all_.reaches(State.WAITING)
            third = await all_.pid()
            assert third not in (first, second)

    run(scenario)


def test_a_call_that_met_a_failed_attempt_is_told_the_cause_and_when_the_next_one_comes(tmp_path: Path) -> None:
    file = journal(tmp_path)

    async def scenario() -> None:
        async with supervised(
            tmp_path, known(entry("a", "exits-later", file)), timing=Timing(base=NEVER, cap=NEVER)
        ) as all_:
            os.kill(await all_.pid(), signal.SIGKILL)  # it never comes up again
            await until(lambda: starts(file) == 2 and all_["a"].state is State.WAITING, "a failed retry")
            told = await all_.call("a:pid")
            assert told.startswith('a: is reconnecting after "exited with code 3')
            assert "The call was not sent." in told
            seconds = int(told.rpartition("Next try in ")[2].removesuffix(" s."))
            assert 0 < seconds <= NEVER
            assert starts(file) == 3

    run(scenario)


def test_a_call_in_the_moment_of_a_loss_waits_no_longer_than_one_that_comes_later(
    tmp_path: Path, puppet: Callable[..., Puppet]
) -> None:
    a = puppet("a")

    async def scenario() -> None:
        server = Server("a", "stdio", SOURCE, command=a.entry["command"], args=tuple(a.entry["args"]), timeout=NEVER)
        async with supervised(tmp_path, server, timing=Timing(connect=NEVER, patience=0.1)) as all_:
            connection = (await all_.reaches(State.READY)).connection
            assert connection is not None
            a.forget("initialize")  # its next life hangs
            calls: list[asyncio.Task[str]] = []
            connection.gone.add_done_callback(lambda _: calls.append(asyncio.create_task(all_.call("a:work"))))
            a.drop()
            await until(lambda: bool(calls), "the loss")
            told = await calls[0]
            assert told.startswith("a: is still starting after")
            assert "The call was not sent." in told

    run(scenario)


def test_a_missing_command_is_failed_and_tried_again_by_a_call_once_it_is_there(tmp_path: Path) -> None:
    program = tmp_path / "later"

    async def scenario() -> None:
        real = entry()
        async with supervised(tmp_path, known(entry(command=str(program))), timing=Timing(base=NEVER)) as all_:
            failed = await all_.reaches(State.FAILED)
            assert failed.describe() == (
                f"failed: command not found: {program}",
                f"Install {program}, or correct `command` in the entry.",
            )
            assert f"command not found: {program}" in await all_.call("a:pid")
            program.write_text(f'#!/bin/sh\nexec {real.command} "$@"\n')
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            assert await all_.pid() > 0
            assert failed.state is State.READY

    run(scenario)


def test_a_cause_that_lies_in_the_entry_is_not_tried_again_by_a_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        bad = Server("a", "http", SOURCE, url="ftp://127.0.0.1/x")
        async with supervised(tmp_path, known(bad)) as all_:
            failed = await all_.reaches(State.FAILED)
            before = failed.channel
            assert "failed: its url is no http or https address" in await all_.call("a:pid")
            assert failed.channel is before

    run(scenario)


def test_calls_that_wait_while_a_failure_is_found_cause_no_second_attempt(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = Script()
        got: list[str] = []

        async def refuse(request: web.Request) -> web.StreamResponse:
            got.append(request.method)
            await asyncio.sleep(0.2)  # so that the call is there before the answer
            return web.Response(status=401)

        script.respond = refuse
        async with (
            scripted(script),
            supervised(tmp_path, known(Server("a", "http", SOURCE, url=script.url))) as all_,
        ):
            assert "failed: needs auth" in await all_.call("a:pid")
            upstream = await all_.reaches(State.FAILED)
            for _ in range(50):
                await asyncio.sleep(0.002)
                assert upstream.state is State.FAILED
            assert got == ["POST"]

    run(scenario)


def test_retry_after_is_waited_out_also_when_somebody_calls(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = Script()
        got: list[str] = []

        async def busy(request: web.Request) -> web.StreamResponse:
            got.append(request.method)
            return web.Response(status=503, headers={"Retry-After": str(int(NEVER))})

        script.respond = busy
        async with (
            scripted(script),
            supervised(tmp_path, known(Server("a", "http", SOURCE, url=script.url))) as all_,
        ):
            waiting = await all_.reaches(State.WAITING)
            await until(lambda: waiting.next_try is not None, "the pause")
            told = await all_.call("a:pid")
            assert 'is reconnecting after "HTTP 503 Service Unavailable"' in told
            assert int(told.rpartition("Next try in ")[2].removesuffix(" s.")) > NEVER / 2
            assert len(got) == 1

    run(scenario)


def test_retry_after_is_the_pause_before_the_next_attempt(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = Script()
        times: list[float] = []

        async def busy(request: web.Request) -> web.StreamResponse:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 1:
                return web.Response(status=429, headers={"Retry-After": "1"})
            return await script.handle(request)

        script.respond = busy
        async with scripted(script), supervised(tmp_path, Server("a", "http", SOURCE, url=script.url)) as all_:
            await all_.reaches(State.READY)
            assert times[1] - times[0] >= 1.0

    run(scenario)


def test_a_slow_server_that_dies_when_asked_for_the_newer_era_is_started_again_without_being_asked(
    tmp_path: Path,
) -> None:
    file = journal(tmp_path)

    async def scenario() -> None:
        async with supervised(tmp_path, entry("a", "dies-slowly-on-discover", file)) as all_:
            await all_.reaches(State.READY)
            assert all_["a"].restarts == 1

    run(scenario)
    methods = file.read_text().split("start ")
    assert len(methods) == 3
    assert "server/discover" in methods[1]
    assert "server/discover" not in methods[2]


@pytest.mark.parametrize(
    ("era", "fault"),
    [("stateless", "dies-on-discover"), ("stateless", "ignores-discover"), ("session", "dies-on-initialize")],
)
def test_a_server_that_bears_its_remembered_era_no_longer_is_spoken_to_in_the_other(
    tmp_path: Path, era: Era, fault: str
) -> None:
    async def scenario() -> None:
        timing = Timing(connect=NEVER, base=0.01, cap=0.01)
        async with supervised(tmp_path, known(entry("a", fault), era), timing=timing) as all_:
            await all_.reaches(State.READY)
            assert await all_.pid()

    run(scenario)


def test_an_entry_edited_back_and_forth_has_one_process(tmp_path: Path) -> None:
    file = journal(tmp_path)

    async def scenario() -> None:
        async with supervised(tmp_path, entry("a", "notes-its-end", file), timing=Timing(drain=0.2)) as all_:
            first = await all_.pid()
            held = asyncio.ensure_future(all_.call("a:stop"))
            await until(lambda: all_["a"].connection is not None and all_["a"].connection.busy, "a call in flight")
            manager = all_.gateway.manager
            manager.reconcile({})
            manager.reconcile({"a": entry("a", "notes-its-end", file)})
            await all_.reaches(State.READY)
            assert "was sent and may have been executed" in await held
            assert await all_.pid() != first
            log = file.read_text()
            assert log.index("end") < log.rindex("start ")

    run(scenario)


def test_lives_without_number_leave_no_task_no_file_and_no_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        # Health is counted at once: every loss is the first, so that no pause makes this long.
        async with supervised(tmp_path, entry(), entry("b"), timing=Timing(healthy=0.0)) as all_:
            b = await all_.pid("b")

            async def live() -> None:
                restarts = all_["a"].restarts
                os.kill(await all_.pid(), signal.SIGKILL)
                await until(lambda: all_["a"].restarts > restarts and all_["a"].state is State.READY, "the next life")

            for _ in range(10):
                await live()
            before = await quiet()
            for _ in range(100):
                await live()
            after = await quiet()
            assert after[0] == before[0], "tasks"
            assert after[1] <= before[1], "open files"
            assert after[2] <= before[2] + 50, "objects of ours"
            assert await all_.pid("b") == b

    run(scenario)


def test_web_connections_without_number_leave_no_task_and_no_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = Script()
        async with (
            scripted(script),
            supervised(
                tmp_path, Server("a", "http", SOURCE, url=script.url), timing=Timing(base=0.001, cap=0.001, healthy=0.0)
            ) as all_,
        ):

            async def live() -> None:
                restarts = all_["a"].restarts
                connection = all_["a"].connection
                assert connection is not None
                connection.lost("a test says so")
                await until(lambda: all_["a"].restarts > restarts and all_["a"].state is State.READY, "the next life")

            await all_.reaches(State.READY)
            for _ in range(10):
                await live()
            before = await quiet()
            for _ in range(100):
                await live()
            after = await quiet()
            assert after[0] <= before[0] + 2, "tasks"  # the server's own come and go with its connections
            assert after[1] <= before[1] + 4, "open files"
            assert after[2] <= before[2] + 50, "objects of ours"

    run(scenario)


async def quiet() -> tuple[int, int, int]:
    """Tasks, open files and living objects of our own packages, when nothing moves any more."""
    for _ in range(20):
        await asyncio.sleep(0.01)
    gc.collect()
    ours = [one for one in gc.get_objects() if str(type(one).__module__).partition(".")[0] in OURS]
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), len(ours)  # noqa: PTH208


def test_a_tool_list_that_never_comes_withdraws_the_tools(tmp_path: Path) -> None:
    async def scenario() -> None:
        timing = Timing(listing=0.2, base=NEVER, cap=NEVER)
        async with supervised(tmp_path, known(entry("a", "never-lists")), timing=timing) as all_:
            await until(lambda: all_.gateway.registry.find("a:pid") is None, "the end of what was known of it")
            upstream = await all_.reaches(State.WAITING)
            assert "tools/list" in upstream.cause

    run(scenario)
