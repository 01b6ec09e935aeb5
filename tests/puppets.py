"""The test's end of a scripted upstream: a real child process of the gateway, spoken through."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.client import DEADLINE, Message

Json = dict[str, Any]
Answer = Json | bytes | None
SCRIPT = Path(__file__).parent / "upstreams" / "puppet.py"
ENVELOPE = re.compile(rb'\{"jsonrpc":"2.0","id":(\d+),"method":"([^"]*)"')


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


class Puppet:
    """An upstream whose words are the test's.

    It answers `initialize`, `ping`, `logging/setLevel` and the lists by itself, from `capabilities`, `tools`,
    `prompts`, `resources`, `templates`. Everything else waits in order for `expect`, unless `on` gives a handler.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        tools: list[Any] | None = None,
        prompts: list[Any] | None = None,
        resources: list[Any] | None = None,
        templates: list[Any] | None = None,
        capabilities: Json | None = None,
        noise: int = 0,
        introduction: Json | None = None,
    ) -> None:
        self.name = name
        self.tools = [tool("work")] if tools is None else tools
        self.prompts = prompts or []
        self.resources = resources or []
        self.templates = templates or []
        self.received: list[Message] = []
        """Every frame that reached it, in order, over all its lives."""
        self.starts = 0
        declared = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}}
        self._introduction = {
            "protocolVersion": "2025-11-25",
            "capabilities": declared if capabilities is None else capabilities,
            "serverInfo": {"name": name, "version": "1"},
            **(introduction or {}),
        }
        self._noise = noise
        self._path = directory / f"{name}.sock"
        self._waiting: list[Message] = []
        self._handlers: dict[str, Callable[[Message], Answer]] = {
            "initialize": lambda _: {"result": self._introduction},
            "ping": lambda _: {"result": {}},
            "logging/setLevel": lambda _: {"result": {}},
            "server/discover": lambda _: {"error": {"code": -32601, "message": "Method not found"}},
            "tools/list": lambda _: {"result": {"tools": self.tools}},
            "prompts/list": lambda _: {"result": {"prompts": self.prompts}},
            "resources/list": lambda _: {"result": {"resources": self.resources}},
            "resources/templates/list": lambda _: {"result": {"resourceTemplates": self.templates}},
            "notifications/initialized": lambda _: None,
        }
        self._changed = threading.Condition()
        self._link: socket.socket | None = None
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def entry(self) -> Json:
        """What stands in the configuration."""
        return {"command": sys.executable, "args": ["-I", "-S", str(SCRIPT), str(self._path), str(self._noise)]}

    def on(self, method: str, handler: Callable[[Message], Answer]) -> None:
        """Answer by itself: a dict with `result` or `error`, raw bytes of a whole line, or nothing."""
        self._handlers[method] = handler

    def forget(self, method: str) -> None:
        """Have it wait for `expect` again."""
        self._handlers.pop(method, None)

    def expect(self, method: str, **params: Any) -> Message:
        """The next frame of this method that was not asked for yet, with these members in its params."""

        def wanted(message: Message) -> bool:
            return message.method == method and message.has(params)

        with self._changed:
            if not self._changed.wait_for(lambda: any(map(wanted, self._waiting)), DEADLINE):
                raise AssertionError(f"{self.name} never got {method} {params}; waiting: {self._waiting}")
            found = next(filter(wanted, self._waiting))
            self._waiting.remove(found)
            return found

    def expect_answer(self, id: Any) -> Message:
        """The client's answer to a question asked under this id."""

        def wanted(message: Message) -> bool:
            return message.method is None and message.id == id and type(message.id) is type(id)

        with self._changed:
            if not self._changed.wait_for(lambda: any(map(wanted, self._waiting)), DEADLINE):
                raise AssertionError(f"{self.name} got no answer to {id!r}; waiting: {self._waiting}")
            found = next(filter(wanted, self._waiting))
            self._waiting.remove(found)
            return found

    def got(self, method: str) -> list[Message]:
        """All frames of this method so far."""
        with self._changed:
            return [message for message in self.received if message.method == method]

    def say(self, data: bytes) -> None:
        """Write raw bytes, newline included, as the server's output."""
        link = self._link
        assert link is not None, f"{self.name} is not running"
        link.sendall(data)

    def tell(self, method: str, **params: Any) -> None:
        self.say(_line({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}))

    def ask(self, id: Any, method: str, **params: Any) -> None:
        self.say(_line({"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})}))

    def reply(self, message: Message, result: Any = None, *, error: Any = None) -> None:
        """Answer a request; a result given as bytes is the payload's exact JSON text."""
        key = b"error" if error is not None else b"result"
        value: Any = error if error is not None else ({} if result is None else result)
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.say(b'{"jsonrpc":"2.0","id":%b,"%b":%b}\n' % (json.dumps(message.id).encode(), key, payload))

    def drop(self) -> None:
        """End the process."""
        if self._link is not None:
            self._link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        if self._link is not None:
            self._link.close()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            self._link = link
            self.starts += 1
            try:
                with link.makefile("rb") as lines:
                    for line in lines:
                        self._arrived(line)
            except (OSError, ValueError):
                continue

    def _arrived(self, line: bytes) -> None:
        envelope = ENVELOPE.match(line)
        message = Message(line.rstrip(b"\n"), int(envelope[1]), envelope[2].decode()) if envelope else Message(line)
        handler = self._handlers.get(message.method or "")
        with self._changed:
            self.received.append(message)
            if handler is None:
                self._waiting.append(message)
            self._changed.notify_all()
        if handler is not None:
            answer = handler(message)
            if isinstance(answer, bytes):
                self.say(answer)
            elif answer is not None:
                self.say(_line({"jsonrpc": "2.0", "id": message.id, **answer}))


def _line(frame: Json) -> bytes:
    return json.dumps(frame).encode() + b"\n"
