"""A raw MCP client of a server without any gateway, over stdio, SSE or Streamable HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import httpx
from httpx_sse import EventSource, connect_sse

from tests.client import DEADLINE

Json = dict[str, Any]
VERSION = "2025-11-25"
STATELESS = "2026-07-28"
META = "io.modelcontextprotocol/"


class Gone(Exception):
    """The server ended, or never answered."""


class Direct:
    """What the three transports have in common: requests that wait for answers, questions answered by handlers."""

    def __init__(self) -> None:
        self.heard: list[Json] = []
        """Every notification, in order."""
        self._ids = count(1)
        self._answers: dict[int, Json] = {}
        self._handlers: dict[str, Callable[[Json], Json]] = {}
        self._changed = threading.Condition()
        self._ended = ""
        self._meta: Json = {}
        """What every request says of us, where the server speaks the stateless era."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def introduce(self, capabilities: Json) -> str:
        """Shake hands; returns the version that is spoken."""
        return self.initialize(capabilities)["protocolVersion"]

    def initialize(self, capabilities: Json) -> Json:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": client}
        result = self.request("initialize", params)["result"]
        self.notify("notifications/initialized")
        return result

    def request(self, method: str, params: Json | None = None, *, patience: float = DEADLINE) -> Json:
        """The whole answer, with its `result` or `error`.

        Raises:
            Gone: there was none.
        """
        id = next(self._ids)
        said = {**(params or {}), **({"_meta": self._meta} if self._meta else {})}
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": said})
        with self._changed:
            self._changed.wait_for(lambda: id in self._answers or self._ended, patience)
            if id not in self._answers:
                raise Gone(self._ended or f"no answer to {method} within {patience:g} s")
            answer = self._answers.pop(id)
        if self._meta and "result" in answer:
            for name in ("resultType", "ttlMs", "cacheScope"):  # the era's own, which a session does not have
                answer["result"].pop(name, None)
        return answer

    def notify(self, method: str) -> None:
        self.send({"jsonrpc": "2.0", "method": method})

    def on(self, method: str, handler: Callable[[Json], Json]) -> None:
        """Answer a question of the server's with what the handler makes of its params."""
        self._handlers[method] = handler

    def expect(self, method: str, **params: Any) -> Json:
        """The first notification of this method with these members in its params."""

        def wanted() -> Json | None:
            for message in self.heard:
                said = message.get("params", {})
                if message["method"] == method and all(said.get(key) == value for key, value in params.items()):
                    return message
            return None

        with self._changed:
            self._changed.wait_for(wanted, DEADLINE)
            found = wanted()
        assert found is not None, f"{method} {params} never came: {self.heard}"
        return found

    def send(self, message: Json) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def arrived(self, message: Json) -> None:
        if "method" not in message:
            with self._changed:
                self._answers[message["id"]] = message
                self._changed.notify_all()
        elif "id" in message:
            self.send(self._reply(message))
        else:
            with self._changed:
                self.heard.append(message)
                self._changed.notify_all()

    def ended(self, why: str) -> None:
        with self._changed:
            self._ended = self._ended or why
            self._changed.notify_all()

    def _reply(self, message: Json) -> Json:
        handler = self._handlers.get(message["method"])
        if message["method"] == "ping":
            outcome: Json = {"result": {}}
        elif handler is None:
            outcome = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            outcome = {"result": handler(message.get("params", {}))}
        return {"jsonrpc": "2.0", "id": message["id"], **outcome}


class Stdio(Direct):
    """A server started as our own child."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        super().__init__()
        self.errors = b""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def introduce(self, capabilities: Json) -> str:
        """As the gateway does: in the stateless era if the server speaks it, for some list differently there."""
        self._meta = {
            f"{META}protocolVersion": STATELESS,
            f"{META}clientCapabilities": capabilities,
            f"{META}clientInfo": {"name": "test", "version": "1"},
        }
        if STATELESS in self.request("server/discover").get("result", {}).get("supportedVersions", []):
            return STATELESS
        self._meta = {}
        return super().introduce(capabilities)

    def send(self, message: Json) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            with self._lock:
                stdin.write(json.dumps(message).encode() + b"\n")
                stdin.flush()
        except OSError:
            self.ended("it closed its input")

    def close(self) -> None:
        """End it: its input first, then its group."""
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE)
        for thread in self._threads:
            thread.join(DEADLINE)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                self.arrived(message)  # pyright: ignore[reportUnknownArgumentType]
        self.ended(f"it ended; {self.last_words()}")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors = (self.errors + line)[-20_000:]

    def last_words(self) -> str:
        lines = [line.strip() for line in self.errors.decode(errors="replace").splitlines() if line.strip()]
        return " | ".join(lines[-3:])[:300]


class Sse(Direct):
    """The 2024-11-05 transport: one stream of events, and an address to post to that it names first."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._client = httpx.Client(timeout=DEADLINE)
        self._url = httpx.URL(url)
        self._endpoint: httpx.URL | None = None
        threading.Thread(target=self._listen, daemon=True).start()
        with self._changed:
            assert self._changed.wait_for(lambda: self._endpoint is not None, DEADLINE), "no endpoint event"

    def send(self, message: Json) -> None:
        assert self._endpoint is not None
        self._client.post(self._endpoint, json=message).raise_for_status()

    def close(self) -> None:
        self._client.close()

    def _listen(self) -> None:
        try:
            with connect_sse(self._client, "GET", str(self._url), timeout=None) as source:
                for event in source.iter_sse():
                    if event.event == "endpoint":
                        with self._changed:
                            self._endpoint = self._url.join(event.data)
                            self._changed.notify_all()
                    else:
                        self.arrived(json.loads(event.data))
        except (httpx.HTTPError, RuntimeError) as failure:
            self.ended(str(failure))


class Http(Direct):
    """Streamable HTTP in a session, with its stream of what belongs to no request."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._client = httpx.Client(timeout=DEADLINE, headers={"Accept": "application/json, text/event-stream"})
        self._url = url

    def initialize(self, capabilities: Json) -> Json:
        result = super().initialize(capabilities)
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(ready,), daemon=True).start()
        assert ready.wait(DEADLINE)
        return result

    def send(self, message: Json) -> None:
        with self._client.stream("POST", self._url, json=message) as response:
            response.raise_for_status()
            session = response.headers.get("mcp-session-id")
            if session:
                self._client.headers.update({"Mcp-Session-Id": session, "MCP-Protocol-Version": VERSION})
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                self._take(response)
            elif response.read():
                self.arrived(response.json())

    def close(self) -> None:
        self._client.delete(self._url)
        self._client.close()

    def _listen(self, ready: threading.Event) -> None:
        try:
            with self._client.stream("GET", self._url, timeout=None) as response:
                ready.set()
                self._take(response)
        except (httpx.HTTPError, RuntimeError) as failure:
            self.ended(str(failure))

    def _take(self, response: httpx.Response) -> None:
        for event in EventSource(response).iter_sse():
            if event.data:
                self.arrived(json.loads(event.data))
