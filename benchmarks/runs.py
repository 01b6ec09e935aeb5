"""A contender that runs: started, spoken to, weighed and ended."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from benchmarks import machine
from benchmarks.apart import Apart, Client
from benchmarks.contenders import Way
from benchmarks.frames import Failed, retry
from benchmarks.http_client import HttpClient
from benchmarks.setups import Setup
from benchmarks.sse_client import SseClient
from benchmarks.stdio_client import StdioClient

LARGE = {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=268435456:glibc.malloc.mmap_threshold=268435456"}
"""For all alike where payloads are large: else glibc gives memory back after each and faults it in again, by luck."""
PATIENCE = 60.0


class Run:
    """One process tree and the driver's connection to it."""

    def __init__(
        self, way: Way, setup: Setup, *, stateless: bool = False, large: bool = False, home: Path | None = None
    ) -> None:
        self.way = way
        self.home = home or Path(tempfile.mkdtemp(prefix="bench-"))
        self._kept_home = home is not None
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), **(LARGE if large else {})}
        self.port = free_port() if way.path else 0
        command = way.command(setup, self.home, self.port)
        self._process: subprocess.Popen[bytes] | None = None
        if way.path:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                cwd=self.home,
            )

        def client() -> Client:
            if not way.path:
                return StdioClient(command, env, str(self.home))
            return SseClient(self.port, way.path) if way.sse else HttpClient(self.port, way.path, stateless=stateless)

        self.client = Apart(client)
        self.pid: int = self._process.pid if self._process is not None else self.client.of("pid")
        self.pids: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        family = machine.tree(self.pid)
        self.client.close()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        machine.wait_for_end(family, PATIENCE)  # who ends late would disturb whoever comes next
        if not self._kept_home:
            shutil.rmtree(self.home, ignore_errors=True)

    def introduce(self) -> float:
        """Shake hands; a server over HTTP is tried until it is there."""
        if not self.way.path:
            return self.client.introduce()
        begun = time.perf_counter()
        retry(PATIENCE, lambda: void(self.client.introduce()))
        return time.perf_counter() - begun

    def settle(self) -> None:
        """Ready for measuring: connected, its first tool callable, its processes known."""
        self.introduce()
        retry(PATIENCE, lambda: void(self.client.call(self.way.tool, 100)))
        self.pids = machine.between(self.pid)

    def cpu(self) -> float:
        return machine.cpu(self.pids)


@contextmanager
def side_by_side(
    ways: Iterable[Way], setup: Setup, *, stateless: bool = False, large: bool = False
) -> Generator[dict[str, Run]]:
    """All contenders at once, idle until it is their turn; one that does not come up is left out, by name."""
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        for way in ways:
            try:
                run = stack.enter_context(Run(way, setup, stateless=stateless, large=large))
                run.settle()
                runs[way.name] = run
            except (Failed, OSError) as error:
                print(f"  {way.name} is left out: {error}", flush=True)
        yield runs


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def void(_: object) -> None:
    return
