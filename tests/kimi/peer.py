"""A small MCP client over the stdio of a real server process, frame by frame."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.client import command

Frame = dict[str, Any]
DEADLINE = 150.0
MODERN = "2026-07-28"


class Peer:
    """Sends requests, keeps what comes back."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process = process
        self._said = said
        self.frames: list[Frame] = []
        self.roots: list[str] | None = None
        """Answered to `roots/list` in the session era."""
        self.envelope: Frame = {}
        """The `_meta` of every request in the stateless era."""
        self._came = threading.Condition()
        self._id = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def send(self, method: str, params: Frame | None = None, *, meta: Frame | None = None) -> int:
        """A request; its id."""
        self._id += 1
        together = {**self.envelope, **(meta or {})}
        body = {**(params or {}), **({"_meta": together} if together else {})}
        self.write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": body})
        return self._id

    def notify(self, method: str, params: Frame | None = None) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def write(self, frame: Frame) -> None:
        self.write_line(json.dumps(frame).encode())

    def write_line(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self, number: int, deadline: float = DEADLINE) -> Frame:
        """The answer to a request, waited for."""
        return self.wait_for(lambda frame: frame.get("id") == number and "method" not in frame, deadline)

    def wait_for(self, fits: Callable[[Frame], bool], deadline: float = DEADLINE) -> Frame:
        def find() -> Frame | None:
            return next((frame for frame in self.frames if fits(frame)), None)

        with self._came:
            found = self._came.wait_for(lambda: find() or self.process.poll() is not None, deadline)
            frame = find()
        if frame is None:
            raise TimeoutError(f"nothing came (server {'ended' if found else 'silent'}); frames: {self.frames[-3:]}")
        return frame

    def has(self, number: int) -> bool:
        return any(frame.get("id") == number and "method" not in frame for frame in self.frames)

    def request(self, method: str, params: Frame | None = None) -> Frame:
        return self.answer(self.send(method, params))

    def begin(self, tool: str, *, progress: str = "", **arguments: Any) -> int:
        meta = {"progressToken": progress} if progress else None
        return self.send("tools/call", {"name": tool, "arguments": arguments}, meta=meta)

    def end(self, number: int, deadline: float = DEADLINE) -> tuple[bool, str]:
        """Whether a call failed, and its text."""
        result = self.answer(number, deadline)["result"]
        assert "structuredContent" not in result
        assert [part["type"] for part in result["content"]] == ["text"]
        return bool(result.get("isError")), cast(str, result["content"][0]["text"])

    def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        return self.end(self.begin(tool, **arguments))

    def initialize(self, capabilities: Frame | None = None) -> Frame:
        client = {"name": "peer", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": client}
        result = self.request("initialize", params)["result"]
        self.notify("notifications/initialized")
        return cast(Frame, result)

    def discover(self, capabilities: Frame | None = None) -> Frame:
        self.envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": capabilities or {},
            "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "1"},
        }
        return cast(Frame, self.request("server/discover")["result"])

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            frame = cast(Frame, json.loads(line))
            if frame.get("method") == "roots/list":
                roots = [{"uri": uri} for uri in self.roots or []]
                self.write({"jsonrpc": "2.0", "id": frame["id"], "result": {"roots": roots}})
            with self._came:
                self.frames.append(frame)
                self._came.notify_all()
        with self._came:
            self._came.notify_all()

    def stderr(self) -> str:
        """What the servers of this test said so far."""
        return self._said.read_text()

    def close(self) -> int:
        """Leave as a client does, and wait for the server to go."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reader.join(10)
        return code


@contextmanager
def serving(project: Path, environ: Mapping[str, str]) -> Generator[Peer]:
    """A server process for a project, with exactly this environment."""
    said = project.parent / "stderr.txt"
    with said.open("ab") as errors:
        process = subprocess.Popen(
            [command(), "kimi"],
            cwd=project,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    peer = Peer(process, said)
    try:
        yield peer
    finally:
        if process.poll() is None:
            peer.close()
