"""The test's end of a scripted upstream that is reached by an address, over SSE or Streamable HTTP."""

from __future__ import annotations

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.client import DEADLINE
from tests.puppets import ENVELOPE, Json, Puppet

Mode = Literal["sse", "json", "stream"]
"""HTTP+SSE; Streamable HTTP answered by bodies; Streamable HTTP answered by event streams."""


class WebPuppet(Puppet):
    """A puppet behind a socket. What it says goes where its transport wants it: to the call it answers, or aside."""

    def __init__(self, directory: Path, name: str, mode: Mode, **options: Any) -> None:
        super().__init__(directory, name, **options)
        self.mode = mode
        self._calls: dict[str, queue.Queue[bytes | None]] = {}
        """What is to be said on the stream of each request, by its id."""
        self._aside: queue.Queue[bytes | None] = queue.Queue()
        self._http = _Server(self)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def entry(self) -> Json:
        return {
            "type": "sse" if self.mode == "sse" else "http",
            "url": f"http://127.0.0.1:{self._http.server_address[1]}/mcp",
        }

    def say(self, data: bytes) -> None:
        """One whole frame; a response goes to its request, all else to the latest call that is open, if any."""
        frame = data.removesuffix(b"\n")
        message: Json = json.loads(frame)
        if "method" not in message and (waiting := self._calls.get(json.dumps(message["id"]))) is not None:
            waiting.put(frame)
            waiting.put(None)
        elif self.mode == "stream" and self._calls:
            self._calls[next(reversed(self._calls))].put(frame)
        else:
            self._aside.put(frame)

    def close(self) -> None:
        self._aside.put(None)
        for waiting in list(self._calls.values()):
            waiting.put(None)
        self._http.shutdown()
        self._http.server_close()
        super().close()

    # For the handler

    def open_call(self, body: bytes) -> queue.Queue[bytes | None] | None:
        """Take a request in; what will be said to it, if it is one."""
        envelope = ENVELOPE.match(body)
        waiting: queue.Queue[bytes | None] | None = None
        if envelope is not None and self.mode != "sse":
            waiting = self._calls[envelope[1].decode()] = queue.Queue()
        self._arrived(body)
        return waiting

    def close_call(self, body: bytes) -> None:
        envelope = ENVELOPE.match(body)
        if envelope is not None:
            self._calls.pop(envelope[1].decode(), None)

    def next_aside(self) -> bytes | None:
        return self._aside.get()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, puppet: WebPuppet) -> None:
        self.puppet = puppet
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        puppet = self.server.puppet
        self._begin_stream()
        if puppet.mode == "sse":
            self._write(b"event: endpoint\ndata: /messages\n\n")
        while (frame := puppet.next_aside()) is not None:
            self._write(event(frame))
        self._write(b"")

    def do_POST(self) -> None:
        puppet = self.server.puppet
        body = self.rfile.read(int(self.headers["Content-Length"]))
        waiting = puppet.open_call(body)
        try:
            if waiting is None:
                self._plain(202, b"")
            elif puppet.mode == "json":
                self._plain(200, waiting.get(timeout=2 * DEADLINE) or b"")
            else:
                self._begin_stream()
                while (frame := waiting.get(timeout=2 * DEADLINE)) is not None:
                    self._write(event(frame))
                self._write(b"")
        finally:
            puppet.close_call(body)

    def do_DELETE(self) -> None:
        self._plain(200, b"")

    def _plain(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _write(self, data: bytes) -> None:
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        except OSError:
            self.close_connection = True


def event(frame: bytes) -> bytes:
    """A frame as an event: each of its lines, by any of the three line ends, is a line of data."""
    lines = frame.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"event: message\n" + b"".join(b"data: %b\n" % line for line in lines) + b"\n"
