"""A stand-in of Moonshot's chat API on 127.0.0.1 that speaks its wire format and replies by script."""

from __future__ import annotations

import json
import select
import threading
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

Body = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """A text, streamed in pieces; `finish` and `done` decide whether it ends as a whole answer does."""

    text: str
    finish: str | None = "stop"
    done: bool = True
    thinking: str = "Let me see."


@dataclass(frozen=True)
class Use:
    """A call of one of the agent's tools."""

    tool: str
    arguments: Body


@dataclass(frozen=True)
class Fail:
    """An HTTP error in the API's own shape."""

    status: int
    type: str
    message: str


@dataclass(frozen=True)
class Hang:
    """Headers and a first piece, then silence until the client goes away or the test ends."""


@dataclass(frozen=True)
class Held:
    """A reply that is given only once the test says `api.release.set()`."""

    reply: Say | Use | Fail


@dataclass(frozen=True)
class Raw:
    """Exactly these bytes, of this kind."""

    body: bytes
    kind: str = "text/event-stream"
    status: int = 200
    location: str = ""


Reply = Say | Use | Fail | Hang | Held | Raw

UNAUTHORISED = Fail(401, "invalid_authentication_error", "Invalid Authentication")
RATE_LIMITED = Fail(429, "rate_limit_reached_error", "Your account reached max RPM: 3, please try again later")
NO_QUOTA = Fail(429, "exceeded_current_quota_error", "Your account is suspended, please check your plan and billing")
OVERLOADED = Fail(429, "engine_overloaded_error", "The engine is currently overloaded, please try again later")
BROKEN = Fail(500, "server_error", "Internal server error")
NO_MODEL = Fail(404, "resource_not_found_error", "Not found the model kimi-k2-0711 or Permission denied")
BAD_REQUEST = Fail(400, "invalid_request_error", "Invalid request: temperature must be 1")
TOO_LONG = Fail(
    400, "invalid_request_error", "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"
)
FILTERED = Fail(400, "content_filter", "The request was rejected because it was considered high risk")
EMPTY = Say("", thinking="")


@dataclass
class Moonshot:
    """What the tests see of the running stand-in."""

    url: str
    script: list[Reply] = field(default_factory=list[Reply])
    """Replies in order; the last one is repeated."""
    answer: Callable[[Body], Reply] | None = None
    """Given, it decides instead of the script."""
    requests: list[Body] = field(default_factory=list[Body])
    keys: list[str] = field(default_factory=list[str])
    asked: threading.Condition = field(default_factory=threading.Condition)
    release: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    left: int = 0
    """How many clients went away from a reply that hung."""

    def says(self, *replies: Reply) -> None:
        self.script = list(replies)

    def next_reply(self, body: Body) -> Reply:
        if self.answer is not None:
            return self.answer(body)
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def wait_for_request(self, count: int = 1, deadline: float = 150) -> None:
        with self.asked:
            if not self.asked.wait_for(lambda: len(self.requests) >= count, deadline):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came within {deadline} s")

    def wait_until_left(self, deadline: float = 150) -> None:
        with self.asked:
            assert self.asked.wait_for(lambda: self.left > 0, deadline), "the client still waits for its answer"

    def prompt(self, index: int = -1) -> str:
        """All the text of one request's user messages."""
        messages = cast("list[Body]", self.requests[index]["messages"])
        return "\n".join(_text(message["content"]) for message in messages if message["role"] == "user")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in cast("list[Body]", content))


def _chunk(delta: Body, finish: str | None = None, usage: Body | None = None) -> bytes:
    choice: Body = {"index": 0, "delta": delta, "finish_reason": finish}
    if usage:
        choice["usage"] = usage
    body: Body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "kimi-k2.6"}
    return b"data: " + json.dumps({**body, "choices": [choice]}).encode() + b"\n\n"


def _pieces(reply: Say | Use | Hang) -> Iterator[bytes]:
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    yield _chunk({"role": "assistant", "content": ""})
    if isinstance(reply, Hang):
        yield _chunk({"reasoning_content": "Thinking"})
        return
    if isinstance(reply, Use):
        function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
        yield _chunk(
            {"tool_calls": [{"index": 0, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}]}
        )
        yield _chunk({}, "tool_calls", usage)
        yield b"data: [DONE]\n\n"
        return
    if reply.thinking:
        yield _chunk({"reasoning_content": reply.thinking})
    step = max(1, len(reply.text) // 3)
    for start in range(0, len(reply.text), step):
        yield _chunk({"content": reply.text[start : start + step]})
    if reply.finish:
        yield _chunk({}, reply.finish, usage)
    if reply.done:
        yield b"data: [DONE]\n\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    moonshot: Moonshot

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the tests read the requests themselves."""

    def do_GET(self) -> None:
        models = [{"id": name, "object": "model"} for name in ("kimi-k3", "kimi-k2.7-code", "kimi-k2.6")]
        self._send(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        body = cast(Body, json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"type": "resource_not_found_error", "message": f"no {self.path} here"}})
            return
        moonshot = self.moonshot
        with moonshot.asked:
            moonshot.requests.append(body)
            moonshot.keys.append(self.headers.get("authorization", ""))
            reply = moonshot.next_reply(body)
            moonshot.asked.notify_all()
        if isinstance(reply, Held):
            moonshot.release.wait()
            reply = reply.reply
        if isinstance(reply, Fail):
            self._send(reply.status, {"error": {"type": reply.type, "message": reply.message}})
        elif isinstance(reply, Raw):
            self._send_bytes(reply.status, reply.body, reply.kind, reply.location)
        elif isinstance(reply, Hang):
            self._hang(reply)
        else:
            self._stream(reply)

    def _stream(self, reply: Say | Use | Hang) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in _pieces(reply):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        broken = isinstance(reply, Say) and not reply.done and reply.finish is None
        if isinstance(reply, Hang) or broken:
            # No closing chunk: the client sees the connection break in the middle of the body.
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _hang(self, reply: Hang) -> None:
        moonshot = self.moonshot
        # It may be gone before the first byte is written.
        with suppress(OSError):
            self._stream(reply)
            while not moonshot.over.is_set() and not select.select([self.connection], [], [], 0.05)[0]:
                pass
        if not moonshot.over.is_set():
            with moonshot.asked:
                moonshot.left += 1
                moonshot.asked.notify_all()

    def _send(self, status: int, body: Body) -> None:
        self._send_bytes(status, json.dumps(body).encode(), "application/json")

    def _send_bytes(self, status: int, data: bytes, kind: str, location: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        if location:
            self.send_header("location", location)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed in the middle of an answer is what some tests are about."""


@contextmanager
def running() -> Generator[Moonshot]:
    """The stand-in on a free port, gone at the end with everything it keeps waiting."""
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    moonshot = Moonshot(f"http://127.0.0.1:{server.server_address[1]}/v1", [Say("All is well.")])
    handler.moonshot = moonshot
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield moonshot
    finally:
        moonshot.over.set()
        moonshot.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
