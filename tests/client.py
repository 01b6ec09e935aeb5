"""A raw MCP client that drives a real `kimi-gateway serve` process over its stdin and stdout."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

Json = dict[str, Any]
T = TypeVar("T")
DEADLINE = 60.0
"""Seconds after which something that should have happened has not. Never a measure of speed."""
COMMAND = Path(__file__).parent.parent / ".venv" / "bin" / "kimi-gateway"
ENVELOPE = re.compile(rb'\{"jsonrpc":"2.0","id":("(?:[^"\\]|\\.)*"|[^,"]+),"(?:result|error)":')
NOT_READ: Any = object()


def until(look: Callable[[], T], what: str, deadline: float = DEADLINE) -> T:
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + deadline
    while not (found := look()):
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.01)
    return found


def command() -> str:
    """The console script: of this environment, else of whatever environment runs the tests."""
    import shutil
    import sys

    beside = Path(sys.executable).parent / "kimi-gateway"
    return str(beside) if beside.exists() else shutil.which("kimi-gateway") or str(COMMAND)


class Message:
    """One line, as it came; opened only when somebody looks."""

    def __init__(self, raw: bytes, id: Any = NOT_READ, method: Any = NOT_READ) -> None:
        self.raw = raw.rstrip(b"\n")
        self._id = id
        self._method = method

    @cached_property
    def json(self) -> Json:
        return json.loads(self.raw)

    @property
    def id(self) -> Any:
        return self._id if self._id is not NOT_READ else self.json.get("id")

    @property
    def method(self) -> str | None:
        return self._method if self._method is not NOT_READ else self.json.get("method")

    @property
    def params(self) -> Any:
        return self.json.get("params")

    @property
    def result(self) -> Any:
        assert "result" in self.json, self
        return self.json["result"]

    @property
    def error(self) -> Any:
        assert "error" in self.json, self
        return self.json["error"]

    @property
    def payload(self) -> bytes:
        """The exact bytes of a response's result or error."""
        envelope = ENVELOPE.match(self.raw)
        assert envelope is not None, self
        return self.raw[envelope.end() : -1]

    def has(self, members: Json) -> bool:
        """Whether its params have these members."""
        params: Json = self.params or {}
        return all(params.get(key) == value for key, value in members.items())

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        return self.result["content"][0]["text"]

    def __repr__(self) -> str:
        return f"<Message {self.raw[:300].decode(errors='replace')}>"


class Gateway:
    """A `kimi-gateway serve` process with a home, a project and a configuration of its own."""

    def __init__(
        self,
        directory: Path,
        servers: Mapping[str, Json] | None = None,
        *,
        gateway: Json | None = None,
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        self.home.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        self.configure(servers or {}, gateway)
        self.messages: list[Message] = []
        """Every line the gateway wrote, in order."""
        self.errors = b""
        self.responses: dict[str, Message] = {}
        self._waiting: list[Message] = []
        self._handlers: dict[str, Callable[[Message], Any]] = {}
        self.changed = threading.Condition()
        self._lock = threading.Lock()
        self._next = 0
        self._ended = False
        self._process = subprocess.Popen(
            [command(), "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.project,
            env=self.environment(environment),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._complaints = threading.Thread(target=self._read_errors, daemon=True)
        self._complaints.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The configuration

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            **(more or {}),
        }

    def configure(self, servers: Mapping[str, Json], gateway: Json | None = None) -> None:
        """Write `~/.kode.json`."""
        config: Json = {"mcpServers": dict(servers), "gateway": {"kimi": False, **(gateway or {})}}
        (self.home / ".kode.json").write_text(json.dumps(config))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command, in the same home and project."""
        return subprocess.run(
            [command(), *arguments],
            cwd=self.project,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            stdin=subprocess.DEVNULL,
        )

    # Speaking

    def say(self, data: bytes) -> None:
        """Raw bytes, newline included."""
        stdin = self._process.stdin
        assert stdin is not None
        with self._lock:
            stdin.write(data)
            stdin.flush()

    def send(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """A request, not waited for; returns its id. Params given as bytes are their exact JSON text."""
        if id is None:
            self._next += 1
            id = self._next
        self.say(b'{"jsonrpc":"2.0","id":%b,%b}\n' % (json.dumps(id).encode(), _body(method, params)))
        return id

    def notify(self, method: str, params: Any = None) -> None:
        self.say(b'{"jsonrpc":"2.0",%b}\n' % _body(method, params))

    def request(self, method: str, params: Any = None, *, id: Any = None) -> Message:
        """A request and its answer."""
        return self.answer(self.send(method, params, id=id))

    def call(self, name: str, arguments: Any = None, **more: Any) -> Message:
        """`tools/call` and its answer."""
        return self.answer(self.begin(name, arguments, **more))

    def begin(self, name: str, arguments: Any = None, **more: Any) -> Any:
        """`tools/call`, not waited for; returns its id."""
        return self.send("tools/call", {"name": name, "arguments": arguments or {}, **more})

    def initialize(self, version: str = "2025-11-25", capabilities: Json | None = None) -> Message:
        """The handshake; returns the answer to `initialize`."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = self.request("initialize", params)
        self.notify("notifications/initialized")
        return answer

    def ping(self) -> None:
        """All that was said before this has been taken; all that was answered at once has arrived."""
        assert self.request("ping").result == {}

    def up(self, *names: str) -> None:
        """These servers have been ready once, or all; a listing waits only two seconds for one never seen before."""
        for name in names or json.loads((self.home / ".kode.json").read_text())["mcpServers"]:
            until(lambda name=name: f" {name} connecting → ready".encode() in self.errors, f"{name} being ready")

    def tools(self) -> list[Json]:
        return self.request("tools/list").result["tools"]

    def tool_names(self) -> list[str]:
        return [tool["name"] for tool in self.tools()]

    # Hearing

    def on(self, method: str, handler: Callable[[Message], Any]) -> None:
        """Answer a request of the gateway's with what the handler returns, as the result."""
        self._handlers[method] = handler

    def answer(self, id: Any) -> Message:
        """The response with this id."""
        key = json.dumps(id)
        return self._wait(lambda: self.responses.pop(key, None), f"an answer to {key}")

    def answered(self, id: Any) -> bool:
        """Whether a response with this id has come and was not taken."""
        with self.changed:
            return json.dumps(id) in self.responses

    def expect(self, method: str, **params: Any) -> Message:
        """The next notification or request of this method that was not taken yet."""

        def take() -> Message | None:
            for message in self._waiting:
                if message.method == method and message.has(params):
                    self._waiting.remove(message)
                    return message
            return None

        return self._wait(take, f"{method} {params}")

    def got(self, method: str) -> list[Message]:
        """All notifications and requests of this method so far, taken or not."""
        with self.changed:
            return [
                message for message in self.messages if not ENVELOPE.match(message.raw) and message.method == method
            ]

    def reply(self, message: Message, result: Any = None, *, error: Any = None) -> None:
        """Answer a request of the gateway's."""
        answer: Json = {"error": error} if error is not None else {"result": {} if result is None else result}
        self.say(json.dumps({"jsonrpc": "2.0", "id": message.id, **answer}).encode() + b"\n")

    # Ending

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> int:
        """The exit code, when it has ended by itself."""
        code = self._process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        self._complaints.join(DEADLINE)
        return code

    def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """End it: its input first, then by its pid."""
        process = self._process
        with contextlib.suppress(OSError):
            self.close_input()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(DEADLINE)
        self._complaints.join(DEADLINE)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _wait(self, look: Callable[[], Message | None], what: str) -> Message:
        found: list[Message] = []

        def there() -> bool:
            message = look()
            if message is not None:
                found.append(message)
            return bool(found) or self._ended

        with self.changed:
            self.changed.wait_for(there, DEADLINE)
        if not found:
            last = self.errors[-2000:].decode(errors="replace")
            raise AssertionError(f"{what} never came; last lines: {self.messages[-5:]}; stderr:\n{last}")
        return found[0]

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            self._arrived(line)
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    def _arrived(self, line: bytes) -> None:
        envelope = ENVELOPE.match(line)
        message = Message(line, json.loads(envelope[1]), None) if envelope else Message(line)
        handler = None
        with self.changed:
            self.messages.append(message)
            if envelope is not None:
                self.responses[json.dumps(message.id)] = message
            else:
                handler = _handler(self._handlers, message)
                if handler is None:
                    self._waiting.append(message)
            self.changed.notify_all()
        if handler is not None:
            self.reply(message, handler(message))

    def _read_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        for line in stderr:
            self.errors = (self.errors + line)[-1_000_000:]


def _handler(handlers: dict[str, Callable[[Message], Any]], message: Message) -> Callable[[Message], Any] | None:
    try:
        return handlers.get(message.method or "") if message.id is not None else None
    except (ValueError, AttributeError, RecursionError):
        return None  # a batch, or no frame at all: it waits for whoever looks


def _body(method: str, params: Any) -> bytes:
    name = json.dumps(method).encode()
    if params is None:
        return b'"method":%b' % name
    return b'"method":%b,"params":%b' % (name, params if isinstance(params, bytes) else json.dumps(params).encode())
