"""The processes around a run: the fixture over HTTP, and a gateway in front of the fixture."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.client import command
from tests.real.install import REPOSITORY

PATIENCE = 60.0
"""Seconds a process has to become ready."""
ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PYTHONPATH": str(REPOSITORY)}
FIXTURE = ("-m", "tests.conformance.fixture")


def over_stdio(eras: str) -> dict[str, Any]:
    """A configuration's entry for the fixture, as a child of the gateway."""
    return {"type": "stdio", "command": sys.executable, "args": [*FIXTURE, "--eras", eras], "env": ENVIRONMENT}


def over_http(url: str) -> dict[str, Any]:
    return {"type": "http", "url": url}


@contextmanager
def fixture(eras: str, log: Path) -> Generator[str]:
    """The fixture over HTTP, for the length of the block; its URL."""
    words = [sys.executable, *FIXTURE, "--http", "0", "--eras", eras]
    with log.open("wb") as errors, running(words, ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip().decode()
        if not port:
            raise RuntimeError(f"the fixture did not start; see {log}")
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def gateway(entry: Mapping[str, Any], home: Path, log: Path) -> Generator[str]:
    """A gateway with this one upstream, for the length of the block; its URL."""
    home.mkdir(parents=True)
    config = {"mcpServers": {"fixture": dict(entry)}, "gateway": {"kimi": False, "naming": "bare"}}
    (home / ".kode.json").write_text(json.dumps(config))
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PATH": ENVIRONMENT["PATH"]}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [command(), "serve", "--http", f"127.0.0.1:{port}", "--no-auth", "--project", str(home)]
    with log.open("wb") as errors, running(words, environment, stdout=errors, stderr=errors) as process:
        url = f"http://127.0.0.1:{port}/mcp"
        _wait(process, url, log)
        yield url


@contextmanager
def running(
    words: list[str], environment: Mapping[str, str], *, stdout: int | IO[bytes], stderr: IO[bytes]
) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Until the gateway lists what its upstream offers: a server it has never seen takes a moment."""
    end = time.monotonic() + PATIENCE
    while not _lists_tools(url):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the gateway did not become ready: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _lists_tools(url: str) -> bool:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/list",
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return b'"test_simple_text"' in response.read()
    except (urllib.error.URLError, OSError):
        return False
