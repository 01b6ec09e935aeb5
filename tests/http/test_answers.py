"""How an answer goes out: the same, whether in one piece or step by step."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from tests.client import DEADLINE
from tests.http.inside import Inside
from tests.http.wire import TOKEN
from tests.puppets import Puppet

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
DISCOVER = (
    b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{'
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
)


def request(port: int, *more: bytes, version: bytes = b"1.1", method: bytes = b"POST", path: bytes = b"/mcp") -> bytes:
    body = DISCOVER if method == b"POST" else b""
    lines = (
        b"%b %b HTTP/%b" % (method, path, version),
        b"Host: 127.0.0.1:%d" % port,
        b"Authorization: Bearer " + TOKEN.encode(),
        b"Content-Type: application/json",
        b"MCP-Protocol-Version: 2026-07-28",
        b"Mcp-Method: server/discover",
        b"Content-Length: %d" % len(body),
        *more,
    )
    return b"\r\n".join((*lines, b"", body))


def head_of(link: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = link.recv(1)
        assert byte, f"the connection ended behind {head!r}"
        head += byte
    return head


def answer(link: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of the next answer, read to its last byte and no further."""
    head, body = head_of(link), b""
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += link.recv(length - len(body))
    return head, body


@pytest.mark.parametrize(("version", "more"), [(b"1.1", ()), (b"1.1", (b"Connection: close",)), (b"1.0", ())])
def test_a_kept_connection_and_one_that_is_closed_get_the_same_answer(
    inside: Within, puppet: Make, version: bytes, more: tuple[bytes, ...]
) -> None:
    one = inside(puppet("a"))
    kept = version == b"1.1" and not more
    with socket.create_connection(("127.0.0.1", one.port), DEADLINE) as link:
        link.sendall(request(one.port, *more, version=version))
        head, body = answer(link)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"content-type: application/json" in head
        assert b'"supportedVersions":["2026-07-28"]' in body
        assert (b"connection: close" in head) is not kept
        if kept:
            link.sendall(request(one.port) * 3)  # all at once: answered in order, on the same connection
            assert [answer(link)[0].split()[1] for _ in range(3)] == [b"200"] * 3
        else:
            assert link.recv(1) == b""


def test_head_has_no_body_and_the_connection_goes_on(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with socket.create_connection(("127.0.0.1", one.port), DEADLINE) as link:
        link.sendall(request(one.port, method=b"HEAD", path=b"/health"))
        head = head_of(link)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"content-length: 2" in head
        link.sendall(request(one.port))
        assert answer(link)[0].split()[1] == b"200"
