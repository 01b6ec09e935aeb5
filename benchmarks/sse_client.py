"""Drive a server over the older HTTP transport: requests by POST, answers on one stream of events. Stdlib only."""

from __future__ import annotations

import select
import socket
import time

from benchmarks.frames import (
    DEADLINE,
    FIRST,
    INITIALIZE,
    INITIALIZED,
    TOOL,
    Failed,
    Sample,
    call_frame,
    checked,
    request_frame,
)
from benchmarks.http_client import Kept, kept


class SseClient:
    """One stream, and kept connections for what is posted."""

    def __init__(self, port: int, path: str) -> None:
        self.port = port
        self.path = path
        self._ids = FIRST
        self._stream: socket.socket | None = None
        self._rest = b""
        self._head = b""
        self._posts: list[Kept] = []

    def close(self) -> None:
        for one in (self._stream, *(one.socket for one in self._posts)):
            if one is not None:
                one.close()
        self._posts.clear()

    def introduce(self) -> float:
        begun = time.perf_counter()
        self.close()
        self._rest = b""
        self._stream = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)
        self._stream.sendall(
            f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        while (event := self._event()) and b"event: endpoint" not in event:
            continue
        address = event.partition(b"data:")[2].strip().decode()
        self._head = (
            f"POST {address} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        ).encode()
        self.request("initialize", INITIALIZE)
        self._post(INITIALIZED)
        return time.perf_counter() - begun

    def request(self, method: str, params: bytes = b"{}") -> bytes:
        self._ids += 1
        return self._ask(request_frame(self._ids, method, params))

    def listed(self) -> tuple[int, float]:
        begun = time.perf_counter()
        answer = self.request("tools/list")
        return answer.count(TOOL), time.perf_counter() - begun

    def call(self, name: str, size: int) -> bytes:
        self._ids += 1
        return self._ask(call_frame(self._ids, name, size))

    def one_by_one(self, name: str, size: int, calls: int) -> Sample:
        seconds: list[float] = []
        begun = time.perf_counter()
        for _ in range(calls):
            at = time.perf_counter()
            self.call(name, size)
            seconds.append(time.perf_counter() - at)
        return Sample(seconds, time.perf_counter() - begun, calls)

    def at_once(self, name: str, size: int, calls: int, window: int) -> Sample:
        """As many calls as the window holds are in flight, each posted on whichever connection is free."""
        assert self._stream is not None
        poll = select.epoll()
        poll.register(self._stream.fileno(), select.EPOLLIN)
        free = [self._kept(number) for number in range(window)]
        busy: dict[int, Kept] = {}
        for one in free:
            poll.register(one.socket.fileno(), select.EPOLLIN)
        sent = answered = 0
        begun = time.perf_counter()
        while answered < calls:
            while free and sent < calls and sent - answered < window:
                one = free.pop()
                busy[one.socket.fileno()] = one
                self._ids += 1
                one.begin(self._posted(call_frame(self._ids, name, size)))
                sent += 1
            events = poll.poll(DEADLINE)
            if not events:
                raise Failed("no answer")
            for fd, _ in events:
                if fd == self._stream.fileno():
                    answered += self._stream.recv(1 << 16).count(b"event: message")
                elif busy[fd].more() is not None:
                    free.append(busy.pop(fd))
        poll.close()
        return Sample([], time.perf_counter() - begun, calls)

    def _ask(self, frame: bytes) -> bytes:
        self._post(frame)
        key = b'"id":%d' % self._ids
        while key not in (event := self._event()):
            continue
        return checked(event)

    def _post(self, frame: bytes) -> None:
        self._kept(0).ask(self._posted(frame))

    def _posted(self, frame: bytes) -> bytes:
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(frame), frame)

    def _kept(self, number: int) -> Kept:
        return kept(self._posts, number, self.port)

    def _event(self) -> bytes:
        """The next event, in whatever chunks it came."""
        assert self._stream is not None
        while b"\n\n" not in self._rest:
            data = self._stream.recv(1 << 16)
            if not data:
                raise Failed("the stream ended")
            self._rest += data
        event, _, self._rest = self._rest.partition(b"\n\n")
        return event
