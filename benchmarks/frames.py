"""The frames that a load driver sends, spelled once, and what it makes of the answers. Stdlib only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

START = b'{"jsonrpc":"2.0","id":'
FIRST = 1_000_000
"""Ids have the same number of digits, so that answers to the same call have the same length."""
DEADLINE = 60.0
TOOL = b'"name":"s'
"""What the listing of each tool of an upstream of ours has."""
INITIALIZE = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
STATELESS_META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)


class Failed(Exception):
    """An answer was missing or was not the one that was asked for."""


class Sample(NamedTuple):
    """Calls one after the other, with the seconds of each, or many at a time."""

    seconds: list[float]
    elapsed: float
    calls: int


def call_frame(id: int, name: str, size: int, meta: bytes = b"") -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%b"name":"%b","arguments":{"path":"%b","size":%d}}}'
        % (id, meta, name.encode(), b"/home/somebody/notes", size)
    )


def request_frame(id: int, method: str, params: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (id, method.encode(), params)


def checked(answer: bytes) -> bytes:
    """The answer, if it is a result."""
    if b'"result"' not in answer[:400] and b'"result"' not in answer[-400:]:
        raise Failed(repr(answer[:300]))
    if b'"isError":true' in answer or b'"isError": true' in answer:
        raise Failed(repr(answer[:300]))
    return answer


def near(length: int, expected: int) -> bool:
    """Bodies of streams carry ids of events, chunk sizes and so on, which vary a little."""
    return abs(length - expected) <= 64


def retry(seconds: float, attempt: Callable[[], None]) -> None:
    """Try until it works or time is over."""
    until = time.monotonic() + seconds
    while True:
        try:
            attempt()
            return
        except (OSError, Failed):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
