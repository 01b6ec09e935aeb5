"""What a client may do with its connection: send in pieces or in advance, wait for leave, want an upgrade, not read."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import Callable

import pytest

from servers.http.app import Endpoint
from servers.http.deadline import Deadline
from servers.http.sessions import Limits
from tests.client import DEADLINE, until
from tests.http.inside import Inside
from tests.http.test_answers import answer, head_of, request
from tests.http.test_limits import to_the_end
from tests.http.wire import TOKEN, Talk
from tests.puppets import Puppet

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")


def connect(one: Inside) -> socket.socket:
    return socket.create_connection(("127.0.0.1", one.port), DEADLINE)


def health(one: Inside, version: bytes = b"1.1") -> bytes:
    return b"GET /health HTTP/%b\r\nHost: 127.0.0.1:%d\r\n\r\n" % (version, one.port)


def answer_of(one: Inside) -> tuple[bytes, bytes]:
    with connect(one) as link:
        link.sendall(health(one))
        return answer(link)


def posted(one: Inside, talk: Talk, id: int, tool: str) -> bytes:
    """A call in a session, as it goes over the wire."""
    frame = json.dumps(talk.frame("tools/call", {"name": tool, "arguments": {}}, id=id)).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{one.port}",
        f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in talk.headers.items()),
        f"Content-Length: {len(frame)}",
    ]
    return "\r\n".join((*lines, "", "")).encode() + frame


def test_a_request_may_come_byte_by_byte(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        for _ in range(2):
            for byte in request(one.port):
                link.sendall(bytes((byte,)))
            assert answer(link)[0].split()[1] == b"200"


def test_what_is_sent_behind_a_call_is_answered_after_it(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a)
    talk = one.site.initialize()
    with connect(one) as link:
        link.sendall(
            posted(one, talk, 7, "a__work") + health(one) + request(one.port) + posted(one, talk, 8, "a__work")
        )
        a.reply(a.expect("tools/call"), {"content": []})
        assert json.loads(answer(link)[1])["id"] == 7
        assert answer(link)[1] == b"ok"
        assert b"supportedVersions" in answer(link)[1]
        a.reply(a.expect("tools/call"), {"content": []})
        assert json.loads(answer(link)[1])["id"] == 8


def test_a_long_line_of_requests_is_answered_to_its_end(inside: Within, puppet: Make) -> None:
    """Longer than Python's stack is deep, and than we read ahead."""
    a = puppet("a")
    one = inside(a)
    talk = one.site.initialize()
    with connect(one) as link:
        link.sendall(posted(one, talk, 7, "a__work") + health(one) * 3000)
        a.reply(a.expect("tools/call"), {"content": []})
        assert json.loads(answer(link)[1])["id"] == 7
        received = b""
        while received.count(b"\r\n\r\nok") < 3000:
            received += link.recv(65536)
        assert received.count(b"HTTP/1.1 200 OK") == 3000


def test_who_leaves_with_requests_in_line_cancels_its_call_at_once(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a)
    talk = one.site.initialize()
    with connect(one) as link:
        link.sendall(posted(one, talk, 7, "a__work") + health(one))
        asked = a.expect("tools/call")
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    until(lambda: not one.responses, "the end of its response")


def test_who_does_not_read_is_not_answered_on_and_on(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        link.setblocking(False)
        sent, some = 0, health(one) * 1000
        while select.select([], [link], [], 2.0)[1]:
            sent += link.send(some)
            assert sent < 64 * 1024 * 1024
        link.settimeout(DEADLINE)
        each, requests, received = len(b"".join(answer_of(one))), sent // len(health(one)), 0
        while received < requests * each:
            received += len(link.recv(1 << 20))
        assert received == requests * each


def test_who_asks_to_close_and_does_not_read_is_cut_off(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    a.on("tools/call", lambda _: {"result": {"content": [{"type": "text", "text": "x" * 16 * 1024 * 1024}]}})
    one = inside(a, limits=Limits(kept=0.2))
    talk = one.site.initialize()
    with connect(one) as link:
        link.sendall(posted(one, talk, 7, "a__work").replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        look = select.poll()
        look.register(link, select.POLLHUP | select.POLLERR)
        until(lambda: look.poll(0), "the end of its connection")


def test_white_space_between_requests_does_not_keep_a_connection(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(kept=0.5))
    with connect(one) as link:
        link.sendall(health(one))
        assert answer(link)[1] == b"ok"
        link.sendall(b"\r\n")
        assert to_the_end(link) == b""


def test_leave_to_send_a_body_is_given(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    whole = request(one.port, b"Expect: 100-continue")
    head, _, body = whole.partition(b"\r\n\r\n")
    with connect(one) as link:
        link.sendall(head + b"\r\n\r\n")
        assert head_of(link) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(body)
        assert answer(link)[0].split()[1] == b"200"
        link.sendall(head.replace(TOKEN.encode(), b"wrong") + b"\r\n\r\n")
        assert answer(link)[0].split()[1] == b"401"


def test_who_wants_an_upgrade_is_answered_and_kept(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        link.sendall(request(one.port, *UPGRADE))
        assert answer(link)[0].split()[1] == b"200"
        link.sendall(
            health(one).replace(b"\r\n\r\n", b"\r\n" + b"\r\n".join(UPGRADE) + b"\r\n\r\n") + request(one.port)
        )
        assert answer(link)[1] == b"ok"
        assert answer(link)[0].split()[1] == b"200"


@pytest.mark.parametrize(
    "sent", [b"\x00\x01\x02\r\n\r\n", b"NOT HTTP\r\n\r\n", b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n"]
)
def test_what_is_no_request_is_400(inside: Within, puppet: Make, sent: bytes) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        link.sendall(sent)
        assert to_the_end(link).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert one.site.ask("GET", "/health").status == 200


@pytest.mark.parametrize("path", [b"/%68ealth", b"/health?x=y", b"http://elsewhere/health"])
def test_a_path_may_be_spelled_in_any_way(inside: Within, puppet: Make, path: bytes) -> None:
    one = inside(puppet("a"))
    with connect(one) as link:
        link.sendall(health(one).replace(b"/health", path))
        assert answer(link)[1] == b"ok"


def test_a_stream_over_http_1_0_ends_with_its_connection(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a)
    talk = one.site.initialize()
    with connect(one) as link:
        link.sendall(posted(one, talk, 7, "a__work").replace(b"HTTP/1.1", b"HTTP/1.0"))
        asked = a.expect("tools/call")
        a.tell("notifications/message", level="info", data="hello")
        a.reply(asked, {"content": []})
        head, _, rest = to_the_end(link).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower() and b"connection: close" in head
    assert rest.startswith(b"id: ") and rest.endswith(b"\n\n")
    assert [line.partition(b": ")[0] for line in rest.split(b"\n") if line].count(b"data") == 3


def test_who_is_refused_while_it_sends_comes_to_read_why(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(arrival=1.0))
    size = 8 * 1024 * 1024
    head = request(one.port).partition(b"Content-Length")[0].replace(TOKEN.encode(), b"wrong")
    with connect(one) as link:
        link.sendall(head + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(8):
            link.sendall(b"x" * (size // 8))
        assert to_the_end(link).startswith(b"HTTP/1.1 401")
    with connect(one) as link:
        link.sendall(head + b"Content-Length: 100\r\n\r\n{")  # and then no more
        assert to_the_end(link).count(b"HTTP/1.1") == 1


def test_a_body_that_does_not_come_is_408(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(arrival=0.3))
    with connect(one) as link:
        link.sendall(request(one.port)[:-10])
        assert to_the_end(link).startswith(b"HTTP/1.1 408")


def test_a_fault_of_ours_is_500_and_said(
    inside: Within, puppet: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    one = inside(puppet("a"))
    monkeypatch.setattr(Endpoint, "serve", fail)
    with connect(one) as link:
        link.sendall(request(one.port))
        assert to_the_end(link).startswith(b"HTTP/1.1 500")
    assert "ZeroDivisionError" in caplog.text


def test_a_deadline_rings_when_it_was_last_set_for_and_once() -> None:
    async def scenario() -> None:
        heard, over = list[str](), asyncio.Event()
        deadline = Deadline(asyncio.get_running_loop())
        deadline.set(1000, lambda: heard.append("far"))
        deadline.set(0.01, lambda: heard.append("near"))
        deadline.set(0.05, over.set)
        await over.wait()
        await asyncio.sleep(0.05)
        deadline.set(0.01, lambda: heard.append("cleared"))
        deadline.clear()
        await asyncio.sleep(0.05)
        deadline.set(0.01, lambda: heard.append("closed"))
        deadline.close()
        await asyncio.sleep(0.05)
        assert heard == []

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
