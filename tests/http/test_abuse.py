"""Clients that send what nobody should: behind a refusal, in trailers, by halves. None of it counts, nor does harm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
from collections.abc import Callable, Coroutine
from typing import cast

import pytest

from servers.http.app import Endpoint
from servers.http.connection import Connection
from servers.http.link import Link, Send
from servers.http.reading import Reading
from servers.http.request import Request
from servers.http.sessions import Limits
from tests.client import until
from tests.http.inside import Inside
from tests.http.test_answers import answer, head_of, request
from tests.http.test_connection import UPGRADE, answer_of, connect, health, posted
from tests.http.test_limits import TEXT, to_the_end
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


def test_a_trailer_is_no_header(inside: Within, puppet: Make) -> None:
    """Whoever is in between has checked the headers, and may have let anything pass behind the body."""
    a = puppet("a")
    one = inside(a)
    talk = one.site.initialize()
    session = b"Mcp-Session-Id: %b\r\n" % talk.id.encode()
    bearer = b"Authorization: Bearer %b\r\n" % TOKEN.encode()
    call = posted(one, talk, 8, "a__work")
    with connect(one) as link:
        head, _, trailer = chunked(call.replace(session, b""), session).rpartition(b"0\r\n")
        link.sendall(head)
        link.sendall(b"0\r\n" + trailer)
        assert answer(link)[0].split()[1] == b"400"
        link.sendall(posted(one, talk, 7, "a__work") + chunked(call.replace(bearer, b""), bearer))
        a.reply(a.expect("tools/call"), TEXT)
        assert answer(link)[0].split()[1] == b"200"
        assert answer(link)[0].split()[1] == b"401"


def test_a_trailer_that_never_ends_is_cut_off(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(arrival=1000))
    with connect(one) as link, contextlib.suppress(ConnectionError):  # it had more to say
        link.sendall(chunked(request(one.port), b"X: "))
        for _ in range(64):
            link.sendall(b"x" * 16 * 1024)
        assert to_the_end(link).startswith(b"HTTP/1.1 431")


def test_large_chunks_that_are_cut_behind_their_size_are_no_trailer(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    head, _, body = request(one.port).partition(b"\r\n\r\n")
    with connect(one) as link:
        link.sendall(head.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            link.sendall(b"%x\r\n%b\r\n%x\r" % (200_000, b" " * 200_000, 1))
            link.sendall(b"\n \r\n")
        link.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert answer(link)[0].split()[1] == b"200"


def test_a_call_is_answered_though_half_a_request_is_behind_it(inside: Within, puppet: Make) -> None:
    """Its client may have sent all of it: it is us who do not read on, for as long as the call takes."""
    a = puppet("a")
    one = inside(a, limits=Limits(headers=0.3, arrival=0.3))
    talk = one.site.initialize()
    large = request(one.port).partition(b"Content-Length")[0] + b"Content-Length: 100000\r\n\r\n" + b"x" * 99_000
    halves = (health(one)[:-2], health(one) * 70 + health(one)[:-2], large)
    for number, half in enumerate(halves):
        with connect(one) as link, connect(one) as other:
            link.sendall(posted(one, talk, number, "a__work") + half)
            asked = a.expect("tools/call")
            assert to_the_end(other).startswith(b"HTTP/1.1 408")
            a.reply(asked, TEXT)
            assert json.loads(answer(link)[1])["id"] == number
            rest = to_the_end(link)
            assert rest.count(b"HTTP/1.1 200") == (70 if half is halves[1] else 0)
            assert rest.rpartition(b"HTTP/1.1 ")[2].startswith(b"408")


def test_what_is_no_request_is_refused_in_its_turn(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a)
    talk = one.site.initialize()
    broken = (
        request(one.port).partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nx"
    )
    for behind in (b"NOT HTTP\r\n\r\n", broken, b"GET /health HTTP/1.1\r\nX: " + b"x" * 500_000):
        with connect(one) as link:
            link.sendall(posted(one, talk, 7, "a__work") + health(one))
            asked = a.expect("tools/call")
            link.sendall(behind)
            assert answer_of(one)[1] == b"ok"
            a.reply(asked, TEXT)
            assert json.loads(answer(link)[1])["id"] == 7
            assert answer(link)[1] == b"ok"
            status = b"431" if len(behind) > 1000 else b"400"
            assert to_the_end(link).startswith(b"HTTP/1.1 " + status)


def test_what_was_refused_is_not_late_as_well(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a, limits=Limits(headers=0.3))
    talk = one.site.initialize()
    with connect(one) as link:
        link.sendall(posted(one, talk, 7, "a__work") + b"GET /he")
        asked = a.expect("tools/call")
        link.sendall(b"\0\r\n\r\n")
        for _ in range(2):
            with connect(one) as other:
                assert to_the_end(other).startswith(b"HTTP/1.1 408")
        a.reply(asked, TEXT)
        assert json.loads(answer(link)[1])["id"] == 7
        assert to_the_end(link).startswith(b"HTTP/1.1 400")


def test_half_a_request_does_not_keep_a_client_that_does_not_read(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(kept=0.2))
    with connect(one) as link:
        link.setblocking(False)
        with contextlib.suppress(ConnectionError):
            while select.select([], [link], [], 2.0)[1]:
                link.send(health(one) * 1000)
        look = select.poll()
        look.register(link, select.POLLHUP | select.POLLERR)
        until(lambda: look.poll(0), "the end of its connection")


def test_who_wants_an_upgrade_and_the_end_gets_the_end(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        both = [UPGRADE[0] + b", close", *UPGRADE[1:]]
        link.sendall(request(one.port, *both))
        head, _ = answer(link)
        assert head.split()[1] == b"200" and b"connection: close" in head
        assert to_the_end(link) == b""


def test_leave_to_send_a_body_is_not_given_to_who_does_not_know_of_it(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        link.sendall(request(one.port, b"Expect: 100-continue", version=b"1.0"))
        assert head_of(link).startswith(b"HTTP/1.1 200")


def test_who_was_refused_leave_to_send_its_body_is_not_waited_for(inside: Within, puppet: Make) -> None:
    """It need not send it, and then what it sends next would be taken for it."""
    one = inside(puppet("a"))
    with connect(one) as link:
        head = request(one.port, b"Expect: 100-continue", path=b"/nowhere").partition(b"\r\n\r\n")[0]
        link.sendall(head + b"\r\n\r\n")
        head, _ = answer(link)
        assert head.split()[1] == b"404" and b"connection: close" in head
    with connect(one) as link:
        for _ in range(2):  # it has no body to send
            link.sendall(health(one).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
            assert answer(link)[1] == b"ok"


def test_an_address_without_a_path_is_not_found(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        link.sendall(request(one.port, path=b"http://127.0.0.1"))
        assert answer(link)[0].split()[1] == b"404"


def test_a_fault_of_ours_in_reading_is_500_and_said(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty:
        def began(self) -> None:
            raise ZeroDivisionError

        def headed(self, request: Request) -> None: ...

        def came(self, request: Request, body: bytes) -> None: ...

        def completed(self, request: Request) -> None: ...

    assert Reading(Faulty()).feed(b"GET / HTTP/1.1\r\n\r\n") == 500
    assert "ZeroDivisionError" in caplog.text


def test_a_stream_hears_once_that_its_client_left() -> None:
    heard = list[str]()
    tasks = list[Coroutine[None, None, None]]()

    class Front:
        """Streams its answer, after it was asked to wait for it."""

        limits = Limits()

        def enter(self, request: Request, link: Link) -> None:
            async def work(send: Send) -> None:
                heard.append("gone" if link.gone else "there")

            link.attend(1000, lambda: None, lambda: heard.append("left"))
            link.stream((), work)

    class Nobody(asyncio.Transport):
        def is_closing(self) -> bool:
            return False

    class Alone:
        def opened(self, connection: Connection) -> None: ...

        def closed(self, connection: Connection) -> None: ...

        def run(self, work: Coroutine[None, None, None]) -> None:
            tasks.append(work)

    async def scenario() -> None:
        connection = Connection(cast("Endpoint", Front()), Alone())
        connection.connection_made(Nobody())
        connection.data_received(b"GET /sse HTTP/1.1\r\n\r\n")
        connection.connection_lost(None)
        await tasks[0]
        assert heard == ["gone"]

    asyncio.run(scenario())
