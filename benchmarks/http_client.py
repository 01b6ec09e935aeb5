"""Drive a Streamable HTTP endpoint of either era with raw frames and sockets. Stdlib only."""

from __future__ import annotations

import select
import socket
import time
from typing import NamedTuple

from benchmarks.frames import (
    DEADLINE,
    FIRST,
    INITIALIZE,
    INITIALIZED,
    STATELESS_META,
    TOOL,
    Failed,
    Sample,
    call_frame,
    checked,
    near,
    request_frame,
)

IDLE = 2.0


class Headers(NamedTuple):
    """What each request over HTTP carries besides its length."""

    head: bytes
    meta: bytes = b""

    def request(self, frame: bytes) -> bytes:
        return b"%bContent-Length: %d\r\n\r\n%b" % (self.head, len(frame), frame)


class HttpClient:
    """One Streamable HTTP endpoint, spoken to over kept connections, in either era."""

    def __init__(self, port: int, path: str = "/mcp", *, stateless: bool = False) -> None:
        self.port = port
        self.path = path
        self.stateless = stateless
        self.session = b""
        self._ids = FIRST
        self._sockets: list[Kept] = []

    def close(self) -> None:
        for one in self._sockets:
            one.socket.close()
        self._sockets.clear()

    def headers(self, method: str, name: str = "") -> Headers:
        lines = [
            f"POST {self.path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
        ]
        meta = b""
        if self.stateless:
            lines += [f"Mcp-Method: {method}", "MCP-Protocol-Version: 2026-07-28"]
            lines += [f"Mcp-Name: {name}"] if name else []
            meta = STATELESS_META
        elif self.session:
            lines += ["MCP-Protocol-Version: 2025-11-25", f"Mcp-Session-Id: {self.session.decode()}"]
        return Headers(("\r\n".join(lines) + "\r\n").encode(), meta)

    def introduce(self) -> float:
        """In the session era, open a session."""
        begun = time.perf_counter()
        if self.stateless:
            return 0.0
        self.session = b""
        frame = request_frame(self._next(), "initialize", INITIALIZE)
        head, body = self.kept().ask(self.headers("initialize").request(frame))
        if b'"result"' not in body:
            raise Failed(repr((head + body)[:300]))
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"mcp-session-id":
                self.session = value.strip()
        self.kept().ask(self.headers("").request(INITIALIZED))
        return time.perf_counter() - begun

    def request(self, method: str) -> bytes:
        headers = self.headers(method)
        params = b"{%b}" % headers.meta
        return checked(self.kept().ask(headers.request(request_frame(self._next(), method, params)))[1])

    def listed(self) -> tuple[int, float]:
        begun = time.perf_counter()
        answer = self.request("tools/list")
        return answer.count(TOOL), time.perf_counter() - begun

    def call(self, name: str, size: int) -> bytes:
        return checked(self.kept().ask(self._call(self.headers("tools/call", name), name, size))[1])

    def one_by_one(self, name: str, size: int, calls: int) -> Sample:
        seconds: list[float] = []
        length = len(self.call(name, size))
        headers, kept = self.headers("tools/call", name), self.kept()
        begun = time.perf_counter()
        for _ in range(calls):
            data = self._call(headers, name, size)
            at = time.perf_counter()
            body = kept.ask(data)[1]
            seconds.append(time.perf_counter() - at)
            if not near(len(body), length):
                raise Failed(repr(body[:300]))
        return Sample(seconds, time.perf_counter() - begun, calls)

    def at_once(self, name: str, size: int, calls: int, window: int) -> Sample:
        """As many connections as the window holds, each with one call in flight."""
        length = len(self.call(name, size))
        headers = self.headers("tools/call", name)
        ready = select.epoll()
        by_fd = {self.kept(number).socket.fileno(): self.kept(number) for number in range(window)}
        for fd, kept in by_fd.items():
            ready.register(fd, select.EPOLLIN)
            kept.begin(self._call(headers, name, size))
        sent, answered = window, 0
        begun = time.perf_counter()
        while answered < calls:
            events = ready.poll(DEADLINE)
            if not events:
                raise Failed("no answer")
            for fd, _ in events:
                kept = by_fd[fd]
                body = kept.more()
                if body is None:
                    continue
                if not near(len(body), length):
                    raise Failed(repr(body[:300]))
                answered += 1
                if sent < calls:
                    kept.begin(self._call(headers, name, size))
                    sent += 1
        ready.close()
        return Sample([], time.perf_counter() - begun, calls)

    def kept(self, number: int = 0) -> Kept:
        return kept(self._sockets, number, self.port)

    def _call(self, headers: Headers, name: str, size: int) -> bytes:
        meta = headers.meta + b"," if headers.meta else b""
        return headers.request(call_frame(self._next(), name, size, meta))

    def _next(self) -> int:
        self._ids += 1
        return self._ids


def kept(pool: list[Kept], number: int, port: int) -> Kept:
    """A connection of a pool; a new one for one that was idle for so long that the other side may be closing it."""
    while len(pool) <= number:
        pool.append(Kept(port))
    if time.monotonic() - pool[number].used > IDLE:
        pool[number].socket.close()
        pool[number] = Kept(port)
    return pool[number]


class Kept:
    """A connection that is kept open; one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.used = time.monotonic()
        self.head = b""
        self._pieces: list[bytes] = []
        self._got = 0
        self._whole = 0
        self._chunked = False

    def ask(self, request: bytes) -> tuple[bytes, bytes]:
        self.begin(request)
        while (body := self.more()) is None:
            continue
        return self.head, body

    def begin(self, request: bytes) -> None:
        self._pieces, self._got, self._whole, self._chunked, self.head = [], 0, 0, False, b""
        self.used = time.monotonic()
        self.socket.sendall(request)

    def more(self) -> bytes | None:
        """Read what is there; the body once it is whole."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise Failed("the connection was closed")
        self._pieces.append(data)
        self._got += len(data)
        if not self._whole and not self._chunked and not self._begun():
            return None
        if self._chunked:
            end = b"".join(self._pieces[-2:])[-7:] if len(data) < 7 else data[-7:]
            if not end.endswith(b"0\r\n\r\n"):
                return None
        elif self._got < self._whole:
            return None
        return b"".join(self._pieces)[len(self.head) :]

    def _begun(self) -> bool:
        so_far = b"".join(self._pieces)
        end = so_far.find(b"\r\n\r\n")
        if end < 0:
            return False
        self.head = so_far[: end + 4]
        self._pieces = [so_far]
        lowered = self.head.lower()
        at = lowered.find(b"content-length:")
        if at >= 0:
            self._whole = end + 4 + int(lowered[at + 15 : lowered.index(b"\r", at)])
        elif b"transfer-encoding: chunked" in lowered:
            self._chunked = True
        else:
            self._whole = end + 4
        return True
