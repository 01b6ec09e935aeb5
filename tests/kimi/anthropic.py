"""A stand-in of Anthropic's Messages API on 127.0.0.1: its wire format, and a model that follows a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

Body = dict[str, Any]


@dataclass
class Anthropic:
    """A model that calls the tools of its script in order, then says that it is done."""

    url: str
    script: list[tuple[str, Body]] = field(default_factory=list[tuple[str, Body]])
    results: dict[str, str] = field(default_factory=dict[str, str])
    """What the model got back, by the name of the tool."""
    offered: set[str] = field(default_factory=set[str])
    """Every tool the model was ever offered."""

    def block(self, body: Body) -> Body:
        """The next thing the model says to this request."""
        tools = {str(tool.get("name")) for tool in cast("list[Body]", body.get("tools") or [])}
        self.offered |= tools
        self._take(cast("list[Body]", body["messages"]))
        for name, arguments in self.script:
            if name in self.results:
                continue
            if name in tools:
                return {"type": "tool_use", "name": name, "input": arguments}
            if "WaitForMcpServers" in tools:
                return {"type": "tool_use", "name": "WaitForMcpServers", "input": {}}
        return {"type": "text", "text": "The script is over."}

    def _take(self, messages: list[Body]) -> None:
        names: dict[str, str] = {}
        for message in messages:
            if not isinstance(message["content"], list):
                continue
            for part in cast("list[Body]", message["content"]):
                if part["type"] == "tool_use":
                    names[part["id"]] = part["name"]
                elif part["type"] == "tool_result":
                    self.results[names[part["tool_use_id"]]] = json.dumps(part["content"])


def _events(model: str, number: int, block: Body) -> bytes:
    start: Body = {**block, "text": ""}
    delta: Body = {"type": "text_delta", "text": block.get("text")}
    if block["type"] == "tool_use":
        start = {**block, "id": f"toolu_{number}", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    usage = {"input_tokens": 10, "output_tokens": 1}
    message: Body = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    events: list[Body] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    anthropic: Anthropic
    lock: threading.Lock
    count = 0

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the test reads what the model was given."""

    def do_GET(self) -> None:
        self._send(404, "application/json", b"{}")

    def do_HEAD(self) -> None:
        self._send(404, "application/json", b"")

    def do_POST(self) -> None:
        body = cast(Body, json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}"))
        if not self.path.partition("?")[0].endswith("/v1/messages"):
            self._send(404, "application/json", b"{}")
            return
        with self.lock:
            type(self).count += 1
            events = _events(str(body["model"]), self.count, self.anthropic.block(body))
        self._send(200, "text/event-stream", events)

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def running() -> Generator[Anthropic]:
    """The stand-in on a free port."""
    handler = type("Handler", (_Handler,), {"lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    anthropic = Anthropic(f"http://127.0.0.1:{server.server_address[1]}")
    handler.anthropic = anthropic
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield anthropic
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
