"""Lines cut from a stream, and the descriptors they come from and go to."""

from __future__ import annotations

import asyncio
import os
import select
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipes import KEPT, Lines, Reader, Writer, own

MIB = 1024 * 1024


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(stream[:size])
        stream = stream[size:]
    return [*(piece for piece in pieces if piece), *([stream] if stream else [])]


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=12),
    sizes=st.lists(st.integers(1, 30), max_size=40),
)
def test_the_same_lines_come_out_however_the_stream_is_cut(lines: list[bytes], sizes: list[int]) -> None:
    found: list[bytes] = []
    cutter = Lines(100)
    for piece in cut(b"".join(line + b"\n" for line in lines) + b"rest", sizes):
        whole, over = cutter.feed(piece)
        assert not over
        found += whole
    assert found == lines
    assert cutter.rest() == b"rest"


@pytest.mark.parametrize("step", [1, 7, 100, 100_000])
def test_a_line_over_the_limit_leaves_its_ends_and_the_next_line(step: int) -> None:
    long = b'{"id":1,' + b"x" * 20_000 + b',"end":1}'
    stream = long + b"\nnext\n" + b"y" * 10_000 + b"\n"
    cutter = Lines(10_000)
    whole: list[bytes] = []
    over: list[tuple[bytes, bytes]] = []
    for start in range(0, len(stream), step):
        some, more = cutter.feed(stream[start : start + step])
        whole += some
        over += more
    assert whole == [b"next", b"y" * 10_000]
    assert over == [(long[:KEPT], long[-KEPT:])]


def test_a_line_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    cutter = Lines(10)
    assert cutter.feed(b"0123456789\n") == ([b"0123456789"], [])
    assert cutter.feed(b"0123456789a\n") == ([], [(b"0123456789a", b"0123456789a")])
    assert cutter.feed(b"01234567") == ([], [])
    assert cutter.feed(b"89\n") == ([b"0123456789"], [])


def test_what_is_over_the_limit_is_not_kept() -> None:
    cutter = Lines(1000)
    for _ in range(1000):
        cutter.feed(b"x" * 1000)
    assert cutter.rest() == b""
    whole, over = cutter.feed(b"\n")
    assert whole == []
    assert [(len(head), len(tail)) for head, tail in over] == [(KEPT, KEPT)]


def work(size: int) -> float:
    """CPU seconds to read a line of this size in small pieces: the best of three."""
    piece = b"x" * 4096
    best = float("inf")
    for _ in range(3):
        cutter = Lines(64 * MIB)
        begun = time.thread_time()
        for _ in range(size // len(piece)):
            cutter.feed(piece)
        whole, _ = cutter.feed(b"\n")
        best = min(best, time.thread_time() - begun)
        assert [len(line) for line in whole] == [size]
    return best


def test_the_work_for_a_line_is_linear_in_its_length() -> None:
    # 32 times the length is 32 times the work; were it quadratic, 1,024 times.
    assert work(64 * MIB) < 10 * 32 * work(2 * MIB)


async def exchange(lines: list[bytes]) -> list[bytes]:
    """Lines through a real pipe, Writer to Reader."""
    source, sink = os.pipe()
    read, write = own(source), own(sink)
    os.close(source)
    os.close(sink)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cutter = Lines(64 * MIB)
    found: list[bytes] = []

    def arrived(data: bytes | None) -> None:
        if data is None:
            ended.set_result(None)
        else:
            found.extend(cutter.feed(data)[0])

    reader = Reader(read, arrived)
    writer = Writer(write, lambda error: ended.set_exception(error))
    for line in lines:
        writer.send(line)
    await writer.flushed()
    writer.close()
    await ended
    reader.close()
    return found


def test_many_small_and_few_large_lines_keep_their_order() -> None:
    lines = [b"%d" % number * (1 + number % 50) for number in range(2000)]
    lines[500:500] = [b"a" * 3_000_000]
    lines[900:900] = [b"", b"b" * 4095, b"c" * 4096, b"d" * 4097]
    assert asyncio.run(exchange(lines)) == lines


def test_a_line_not_begun_can_be_taken_back() -> None:
    async def run() -> None:
        source, sink = os.pipe()
        writer = Writer(own(sink), lambda error: None)
        first, second = object(), object()
        writer.send(b"x" * MIB, first)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writer.send(b"second", second)
        assert writer.is_writing(first)
        assert not writer.withdraw(first)
        assert writer.withdraw(second)
        assert not writer.withdraw(second)
        writer.close()
        os.close(source)
        os.close(sink)

    asyncio.run(run())


def test_of_lines_that_fit_the_pipe_only_in_part_those_not_begun_can_be_taken_back() -> None:
    async def run() -> list[bytes]:
        source, sink = os.pipe()
        writer = Writer(own(sink), lambda error: None)
        owners = [object() for _ in range(8)]
        for number, owner in enumerate(owners):
            writer.send(b"%d" % number * 30_000, owner)  # more than a pipe holds
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (begun,) = (number for number, owner in enumerate(owners) if writer.is_writing(owner))
        assert not any(writer.withdraw(owner) for owner in owners[: begun + 1])
        assert all(writer.withdraw(owner) for owner in owners[begun + 1 :])
        found = os.read(source, 1 << 16)
        await writer.flushed()
        found += os.read(source, 1 << 16)
        writer.close()
        os.close(source)
        os.close(sink)
        *lines, rest = found.split(b"\n")
        assert (len(lines), rest, writer.queued) == (begun + 1, b"", 0)
        return lines

    lines = asyncio.run(run())
    assert lines == [b"%d" % number * 30_000 for number in range(len(lines))]


def test_a_reader_that_went_away_is_told_once_and_later_lines_are_nobodys() -> None:
    async def run() -> list[OSError]:
        source, sink = os.pipe()
        broken: list[OSError] = []
        writer = Writer(own(sink), broken.append)
        os.close(source)
        os.close(sink)
        writer.send(b"one")
        await writer.flushed()
        writer.send(b"two")
        await writer.flushed()
        return broken

    broken = asyncio.run(run())
    assert [type(error) for error in broken] == [BrokenPipeError]


def test_a_regular_file_is_read_to_its_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("file") / "input"
    path.write_bytes(b"one\ntwo\n" * 100_000)

    async def run() -> int:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cutter = Lines(1000)
        count = 0

        def arrived(data: bytes | None) -> None:
            nonlocal count
            if data is None:
                ended.set_result(None)
            else:
                count += len(cutter.feed(data)[0])

        Reader(os.open(path, os.O_RDONLY), arrived)
        await ended
        return count

    assert asyncio.run(run()) == 200_000


def test_lines_that_were_not_begun_when_the_reader_went_away_can_be_taken_back() -> None:
    async def run() -> None:
        source, sink = os.pipe()
        writer = Writer(own(sink), lambda error: None)
        os.close(sink)
        written, begun, small, smaller, late = (object() for _ in range(5))
        writer.send(b"written", written)
        await writer.flushed()
        writer.send(b"x" * MIB, begun)
        writer.send(b"small", small)
        writer.send(b"smaller", smaller)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert writer.is_writing(begun)
        os.close(source)
        await writer.flushed()
        writer.send(b"late", late)
        assert [writer.withdraw(owner) for owner in (written, begun, small, smaller, late)] == [False] * 2 + [True] * 3
        assert not writer.withdraw(small)

    asyncio.run(run())


def test_small_lines_that_met_a_reader_that_was_gone_already_can_all_be_taken_back() -> None:
    async def run() -> None:
        source, sink = os.pipe()
        writer = Writer(own(sink), lambda error: None)
        os.close(sink)
        os.close(source)
        owners = [object() for _ in range(10)]
        for owner in owners:
            writer.send(b"small", owner)
        await writer.flushed()
        assert all(writer.withdraw(owner) for owner in owners)

    asyncio.run(run())


def test_what_is_written_while_a_reader_delivers_goes_out_together_at_its_end() -> None:
    async def scenario() -> tuple[bytes, bytes]:
        (source, asked), (answers, sink) = os.pipe(), os.pipe()
        os.set_blocking(answers, False)
        delivered = asyncio.get_running_loop().create_future()
        writer = Writer(sink, broken=lambda _: None)

        def deliver(data: bytes | None) -> None:
            # Scheduled before anything is written: it sees what was written without another turn of the loop.
            asyncio.get_running_loop().call_soon(lambda: delivered.set_result((during, os.read(answers, 100))))
            writer.send(b"one")
            writer.send(b"two")
            during = os.read(answers, 100) if select.select([answers], [], [], 0)[0] else b""

        os.set_blocking(source, False)
        reader = Reader(source, deliver)
        os.write(asked, b"x")
        try:
            async with asyncio.timeout(30):
                return await delivered
        finally:
            reader.close()
            writer.close()
            os.close(asked)
            os.close(answers)

    assert asyncio.run(scenario()) == (b"", b"one\ntwo\n")
