"""Drive a server over stdio with raw frames and be the cheapest part of the way. Stdlib only."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence

from benchmarks.frames import FIRST, INITIALIZE, INITIALIZED, TOOL, Failed, Sample, call_frame, request_frame


class StdioClient:
    """One server process, spoken to through blocking pipes."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in = self.process.stdin.fileno()
        self._out = self.process.stdout.fileno()
        self._rest = b""
        self._ids = FIRST

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()

    def introduce(self) -> float:
        """Shake hands; the seconds from the process's start to the answer."""
        self.request("initialize", INITIALIZE)
        elapsed = time.perf_counter() - self.started
        self._write(INITIALIZED + b"\n")
        return elapsed

    def request(self, method: str, params: bytes = b"{}") -> bytes:
        """The line that answers; notifications in between are skipped."""
        self._ids += 1
        self._write(request_frame(self._ids, method, params) + b"\n")
        return self._answer(self._ids)

    def listed(self) -> tuple[int, float]:
        begun = time.perf_counter()
        answer = self.request("tools/list")
        return answer.count(TOOL), time.perf_counter() - begun

    def call(self, name: str, size: int) -> bytes:
        self._ids += 1
        self._write(call_frame(self._ids, name, size) + b"\n")
        return self._answer(self._ids)

    def one_by_one(self, name: str, size: int, calls: int) -> Sample:
        """Each call waits for the answer to the one before."""
        seconds: list[float] = []
        length = len(self.call(name, size))
        begun = time.perf_counter()
        for _ in range(calls):
            self._ids += 1
            frame = call_frame(self._ids, name, size) + b"\n"
            at = time.perf_counter()
            self._write(frame)
            line = self._line()
            seconds.append(time.perf_counter() - at)
            if len(line) != length:
                raise Failed(repr(line[:300]))
        return Sample(seconds, time.perf_counter() - begun, calls)

    def at_once(self, name: str, size: int, calls: int, window: int) -> Sample:
        """As many calls as the window holds are in flight all the time."""
        length = len(self.call(name, size)) + 1
        frames = [call_frame(FIRST * 2 + n, name, size) + b"\n" for n in range(calls)]
        sent = min(window, calls)
        answered = received = 0
        begun = time.perf_counter()
        self._write(b"".join(frames[:sent]))
        while answered < calls:
            data = self._read()
            received += len(data)
            new = data.count(b"\n")
            answered += new
            if new and sent < calls:
                self._write(b"".join(frames[sent : sent + new]))
                sent += new
        elapsed = time.perf_counter() - begun
        if received != calls * length:
            raise Failed(f"{received} bytes for {calls} answers of {length}")
        return Sample([], elapsed, calls)

    def _answer(self, id: int) -> bytes:
        key = b'"id":%d' % id
        spaced = b'"id": %d' % id
        while True:
            line = self._line()
            if key in line or spaced in line[:200]:
                if b'"error":' in line[:200] or b'"isError":true' in line:
                    raise Failed(repr(line[:300]))
                return line

    def _line(self) -> bytes:
        rest = self._rest
        pieces = [rest]
        while b"\n" not in rest:
            rest = self._read()
            pieces.append(rest)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _read(self) -> bytes:
        data = os.read(self._out, 1 << 16)
        if not data:
            raise Failed("it ended")
        return data

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]
