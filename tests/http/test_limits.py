"""The bounds of the endpoint: of time, of number, of size, and of what one client may leave unread."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from servers.http.sessions import Limits
from tests.client import DEADLINE, until
from tests.faults.processes import memory
from tests.http.conftest import Serve
from tests.http.inside import Inside
from tests.http.wire import TOKEN, Reply, Talk
from tests.puppets import Puppet

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
TEXT = {"content": [{"type": "text", "text": "done"}]}
PROGRESS = "notifications/progress"


def nothing_left(inside: Inside) -> None:
    """No session, no listener, nobody in the audience, no response that goes on."""
    until(lambda: not len(inside.endpoint.sessions), "the end of every session")
    until(lambda: not len(inside.endpoint.listeners), "the end of every listener")
    assert len(inside.gateway.audience) == 0
    assert inside.gateway.house.issuers == {}
    until(lambda: not inside.responses, "the end of every response")


def raw(inside: Inside) -> socket.socket:
    return socket.create_connection(("127.0.0.1", inside.port), DEADLINE)


def to_the_end(link: socket.socket) -> bytes:
    received = b""
    while data := link.recv(65536):
        received += data
    return received


def test_headers_that_never_end_are_cut_off(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(headers=0.3))
    with raw(one) as silent, raw(one) as slow:
        slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\n")
        assert to_the_end(slow).startswith(b"HTTP/1.1 408")
        assert to_the_end(silent).startswith(b"HTTP/1.1 408")


def test_headers_that_are_too_large_are_refused(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"))
    with raw(one) as link:
        link.sendall(b"GET /mcp HTTP/1.1\r\n")
        for number in range(5):
            link.sendall(b"X-%d: %b\r\n" % (number, b"x" * 16 * 1024))
        assert to_the_end(link).startswith(b"HTTP/1.1 431")


def test_a_body_that_never_ends_is_cut_off(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(arrival=0.3))
    with raw(one) as link:
        link.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{" % (one.port, TOKEN.encode())
        )
        to_the_end(link)
    until(lambda: one.site.ask("GET", "/health").status == 200, "others served")


def test_a_body_too_large_is_413_however_it_comes(inside: Within, puppet: Make) -> None:
    site = inside(puppet("a"), limits=Limits(body=1000)).site
    frame = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 2_000_000}}
    reply = site.post(frame)
    assert (reply.status, reply.headers["Connection"]) == (413, "close")
    body = json.dumps(frame).encode()[:5000]
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    reply = site.ask("POST", None, {"Content-Length": None, "Transfer-Encoding": "chunked"}, chunked)
    assert reply.status == 413
    assert site.post({**frame, "params": {}}).status == 400  # taken, and found to belong to no session


def test_too_many_sessions_are_503(inside: Within, puppet: Make) -> None:
    site = inside(puppet("a"), limits=Limits(sessions=2)).site
    first = site.initialize()
    site.initialize()
    frame = first.frame("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    reply = site.post(frame)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "60")
    assert site.ask("GET", "/sse").status == 503
    assert first.delete().status == 200
    assert site.post(frame).status == 200


def test_sessions_opened_and_abandoned_leave_nothing_behind(inside: Within, puppet: Make) -> None:
    a = puppet("a", resources=[{"uri": "file:///x", "name": "x"}])
    a.on("resources/subscribe", lambda _: {"result": {}})
    a.on("resources/unsubscribe", lambda _: {"result": {}})
    one = inside(a, limits=Limits(idle=1.0, resume=0.2))
    until(lambda: one.gateway.registry.view().servers, "the upstream's listing")
    for number in range(1000):
        reply = one.site.post(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        )
        assert reply.status == 200
        reply.kill()
        if number % 100 == 0:
            talk = Talk(one.site, reply.headers["Mcp-Session-Id"], "2025-11-25", reply.message)
            talk.request("resources/subscribe", {"uri": "file:///x"})
            talk.listen().kill()
            connection = talk.call("a__work")
            a.expect("tools/call")
            connection.close()
    one.site.close()
    nothing_left(one)
    until(lambda: a.got("resources/unsubscribe"), "the end of what nobody follows")


def test_a_session_in_use_is_not_idle(inside: Within, puppet: Make) -> None:
    one = inside(puppet("a"), limits=Limits(idle=0.4))
    used, unused = one.site.initialize(), one.site.initialize()
    stream = used.listen()
    until(lambda: len(one.endpoint.sessions) == 1, "the end of the one nobody uses")
    assert unused.post(unused.frame("ping")).status == 404
    assert used.request("ping").result == {}
    stream.kill()
    nothing_left(one)


def test_a_client_that_disconnects_in_a_call_cancels_it(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a, limits=Limits(resume=0.2))
    talk = one.site.initialize()
    # Before a response has begun there is nothing to come back to.
    connection = talk.call("a__work")
    asked = a.expect("tools/call")
    connection.close()
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    # Later its client has a little time, and then it is the same.
    connection = talk.call("a__work", _meta={"progressToken": 1})
    asked = a.expect("tools/call")
    a.tell(PROGRESS, progressToken=asked.params["_meta"]["progressToken"], progress=1)
    reply = Reply(connection)
    reply.next()
    reply.kill()
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    until(lambda: inside_is_free(talk), "its ids free")
    until(lambda: not one.responses, "the end of both responses")


def inside_is_free(talk: Talk) -> bool:
    return talk.post(talk.frame("ping", id=1)).status == 200


def test_requests_sent_behind_a_stream_do_not_keep_it_open(inside: Within, puppet: Make) -> None:
    """Whoever pipelines and goes: the response under way must hear of it too, not only the last in the line."""
    one = inside(puppet("a"))
    talk = one.site.initialize()
    connection = one.site.begin("GET", None, {**talk.headers, "Accept": "text/event-stream"})
    reply = Reply(connection)
    reply.event()
    connection.sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % one.port)
    until(lambda: one.site.ask("GET", "/health").status == 200, "another request served")
    assert one.responses
    reply.kill()
    until(lambda: not one.responses, "the end of the response")


def test_a_client_that_does_not_read_its_answer_is_disconnected(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    a.on("tools/call", lambda _: {"result": {"content": [{"type": "text", "text": "x" * 16 * 1024 * 1024}]}})
    one = inside(a, limits=Limits(kept=0.2))
    talk = one.site.initialize()
    connection = talk.call("a__work")
    look = select.poll()
    look.register(connection.sock, select.POLLHUP | select.POLLERR)
    until(lambda: look.poll(0), "the end of its connection")
    assert talk.request("ping").result == {}


def flood(a: Puppet, token: int, count: int, size: int) -> None:
    for number in range(count):
        a.tell(PROGRESS, progressToken=token, progress=number, message="x" * size)


def test_a_slow_reader_is_bounded_and_harms_nobody(inside: Within, puppet: Make) -> None:
    a, b = puppet("a"), puppet("b")
    b.on("tools/call", lambda _: {"result": TEXT})
    one = inside(a, b, limits=Limits(outbox=1024 * 1024))
    slow = one.site.initialize()
    others = [one.site.initialize() for _ in range(99)]
    connection = slow.call("a__work", _meta={"progressToken": 1})
    asked = a.expect("tools/call")
    token = asked.params["_meta"]["progressToken"]
    largest = 0
    flooding = threading.Thread(target=flood, args=(a, token, 400, 64 * 1024))
    flooding.start()
    sessions = one.endpoint.sessions
    while flooding.is_alive():
        for talk in others[:5]:
            assert talk.request("tools/call", {"name": "b__work", "arguments": {}}).result == TEXT
        largest = max(largest, sessions.waiting)
    for talk in others:
        assert talk.request("tools/call", {"name": "b__work", "arguments": {}}).result == TEXT
    assert largest <= 1024 * 1024 + 2 * 65 * 1024
    # It was disconnected, its call cancelled, its session is gone.
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    assert slow.post(slow.frame("ping")).status == 404
    received = b""
    try:
        while data := connection.sock.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    assert not received.endswith(b"0\r\n\r\n")


def test_a_stateless_client_that_does_not_read_is_disconnected(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a, limits=Limits(outbox=256 * 1024))
    until(lambda: one.gateway.registry.view().servers, "the upstream's listing")
    body: dict[str, Any] = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "a__work", "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1,
            },
        },
    }  # fmt: skip
    sent = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a__work"}
    connection = one.site.begin("POST", None, sent, json.dumps(body).encode())
    asked = a.expect("tools/call")
    flood(a, asked.params["_meta"]["progressToken"], 300, 64 * 1024)
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    until(lambda: not one.responses, "the end of its response")
    connection.close()


def test_half_a_full_outbox_stops_the_clients_requests_until_it_reads(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a, limits=Limits(outbox=16 * 1024 * 1024))
    talk = one.site.initialize()
    connection = talk.call("a__work", _meta={"progressToken": 1})
    asked = a.expect("tools/call")
    flood(a, asked.params["_meta"]["progressToken"], 200, 64 * 1024)
    until(lambda: one.endpoint.sessions.waiting > 8 * 1024 * 1024, "more than half unread")
    held = [talk.begin("ping") for _ in range(3)]
    a.reply(asked, TEXT)
    reply = Reply(connection)
    assert len(reply.rest()) == 201
    assert [Reply(one).message.result for one in held] == [{}, {}, {}]


def test_the_memory_of_a_gateway_does_not_follow_an_unread_stream(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    served = serve(a)
    talk = served.site.initialize()
    connection = talk.call("a__work", _meta={"progressToken": 1})
    asked = a.expect("tools/call")
    before = memory(served.gateway.pid)
    flood(a, asked.params["_meta"]["progressToken"], 3000, 64 * 1024)  # 188 MiB, of which it may keep 16
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    assert served.site.initialize().request("tools/list").result["tools"]
    assert memory(served.gateway.pid, "VmHWM") - before < 80
    connection.close()
