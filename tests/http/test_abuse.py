"""Clients that send what nobody should: behind a refusal, in trailers, by halves. None of it counts, nor does harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.http.inside import Inside
from tests.http.test_answers import request
from tests.http.test_connection import connect
from tests.http.test_limits import to_the_end
from tests.http.wire import TOKEN
from tests.puppets import Puppet

Make = Callable[..., Puppet]
Within = Callable[..., Inside]


def chunked(head: bytes, trailer: bytes = b"") -> bytes:
    """The same request with its body in one chunk, and fields behind it."""
    head, _, body = head.partition(b"\r\n\r\n")
    head = head.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer)


@pytest.mark.parametrize(
    "refused", [(TOKEN, "wrong"), ("HTTP/1.1", "HTTP/1.0\r\nConnection: keep-alive"), ("Host: ", "Host: x")]
)
def test_what_comes_behind_an_answer_that_ends_the_connection_is_not_carried_out(
    inside: Within, puppet: Make, refused: tuple[str, str]
) -> None:
    one = inside(puppet("a"))
    talk = one.site.initialize()
    ending = request(one.port, method=b"DELETE", path=b"/mcp").replace(
        b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Session-Id: " + talk.id.encode()
    )
    with connect(one) as link:
        link.sendall(request(one.port).replace(refused[0].encode(), refused[1].encode()) + ending)
        assert to_the_end(link).count(b"HTTP/1.1 ") == 1
    assert talk.request("ping").result == {}
