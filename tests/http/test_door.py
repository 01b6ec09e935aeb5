"""Who may come in, and what each of them sees."""

from __future__ import annotations

import json
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client import until
from tests.conftest import Start
from tests.http.conftest import Serve
from tests.http.inside import Inside
from tests.http.wire import TOKEN, Site
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
CI = "the-token-of-ci"
OPS = "the-token-of-ops"
PROFILES = {
    "reader": {"tools": {"allow": ["a:get_*"]}},
    "writer": {"tools": {"allow": ["a:set_*"]}},
}
TOKENS = {"ci": {"token": CI, "profile": "reader"}, "ops": {"token": OPS}, "lost": {"token": "x", "profile": "nowhere"}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def a(puppet: Make) -> Puppet:
    return puppet("a", tools=[tool("get_it"), tool("set_it")])


def names(site: Site) -> list[str]:
    return [one["name"] for one in site.initialize().request("tools/list").result["tools"]]


def test_only_our_own_names_and_those_configured_are_answered(inside: Within, a: Puppet) -> None:
    site = inside(a, section={"http": {"hosts": ["Gate.Example", "tunnel.example:8443"]}}).site
    port = site.port
    for host, status in (
        (f"127.0.0.1:{port}", 200), (f"localhost:{port}", 200), (f"LocalHost:{port}", 200), (f"[::1]:{port}", 200),
        ("gate.example", 200), ("gate.example:99", 200), ("tunnel.example:8443", 200),
        ("tunnel.example", 421), ("tunnel.example:1", 421), ("localhost", 421), (f"127.0.0.1:{port + 1}", 421),
        ("evil.example", 421), (f"evil.example:{port}", 421), (f"localhost.evil.example:{port}", 421), ("", 421),
        (None, 421), (f"127.0.0.1:{port}@evil.example", 421),
    ):  # fmt: skip
        assert site.ask("GET", "/health", {"Host": host}).status == status, host


def test_only_our_own_pages_may_ask(inside: Within, a: Puppet) -> None:
    site = inside(a, section={"http": {"hosts": ["gate.example"]}}).site
    port = site.port
    for origin, status in (
        (None, 200), (f"http://127.0.0.1:{port}", 200), (f"http://localhost:{port}", 200),
        (f"http://[::1]:{port}", 200), ("https://gate.example", 200),
        ("null", 403), ("https://evil.example", 403), ("http://localhost", 403), (f"http://localhost:{port + 1}", 403),
        (f"file://localhost:{port}", 403), (f"http://localhost:{port}.evil.example", 403), ("", 403),
    ):  # fmt: skip
        assert site.ask("GET", "/health", {"Origin": origin}).status == status, origin


def test_what_decides_who_may_come_in_is_said_once(inside: Within, a: Puppet) -> None:
    site = inside(a).site
    own = f"127.0.0.1:{site.port}"
    for name, value, other in (
        ("Host", own, "evil.example"), ("Host", "evil.example", own), ("Host", own, own),
        ("Origin", "https://evil.example", f"http://{own}"), ("Authorization", "Bearer wrong", f"Bearer {TOKEN}"),
    ):  # fmt: skip
        reply = site.ask("POST", None, {name: value}, json.dumps(PING).encode(), [(name, other)])
        assert reply.status == 400, (name, value)
        assert name.lower() in reply.error["message"]


def test_strangers_are_turned_away_before_anything_is_read(inside: Within, a: Puppet) -> None:
    """A body is announced and never sent: who waited for it would not answer."""
    one = inside(a)
    announced: dict[str, str | None] = {"Content-Length": "1000"}
    for token, headers, status in (
        (TOKEN, {"Host": "evil.example"}, 421),
        (TOKEN, {"Origin": "https://evil.example"}, 403),
        (None, {}, 401),
        ("wrong", {}, 401),
    ):
        reply = one.site.bearing(token).ask("POST", "/mcp", {**announced, **headers})
        assert (reply.status, reply.headers["Connection"]) == (status, "close")
        if status == 401:
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")


def test_only_a_whole_bearer_token_opens(inside: Within, a: Puppet) -> None:
    site = inside(a).site.bearing(None)
    for given in ("", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
        assert site.post(PING, {"Authorization": given}).status == 401, given
    assert site.post(PING, {"Authorization": f"bearer {TOKEN}"}).status == 400  # let in, but without a session
    for path in ("/mcp", "/sse", "/messages", "/mcp/p/reader", "/nowhere", "/"):
        assert site.ask("GET", path).status == 401


def test_health_says_only_ok(inside: Within, a: Puppet) -> None:
    site = inside(a).site.bearing(None)
    reply = site.ask("GET", "/health")
    assert (reply.status, reply.body) == (200, b"ok")
    assert {name.lower() for name in reply.headers} <= {"content-type", "content-length", "date"}


def test_a_token_bound_to_a_profile_sees_that_and_nothing_else(inside: Within, a: Puppet) -> None:
    section = {"profiles": PROFILES, "http": {"tokens": TOKENS}}
    site = inside(a, section=section).site
    ci, ops = site.bearing(CI), site.bearing(OPS)
    assert names(site) == names(ops) == ["a__get_it", "a__set_it"]
    assert names(ci) == names(site.bearing(CI, "/mcp/p/reader")) == names(site.bearing(path="/mcp/p/reader"))
    assert names(ci) == ["a__get_it"]
    assert names(site.bearing(path="/mcp/p/writer")) == ["a__set_it"]
    none, others = (ci.ask("POST", path, body=b"{}") for path in ("/mcp/p/none", "/mcp/p/writer"))
    assert (none.status, none.body) == (others.status, others.body)
    assert none.status == 404
    for path in ("/mcp/p/", "/mcp/p", "/mcp/", "/health/p/reader", "/messages/p/reader"):
        assert site.ask("GET", path).status == 404, path
    # One whose profile is gone sees as little as if it were not there.
    assert site.bearing("x").post(PING).status == 404
    talk = ci.initialize()
    call = talk.request("tools/call", {"name": "a__set_it", "arguments": {}})
    absent = talk.request("tools/call", {"name": "a__get_nothing", "arguments": {}})
    assert call.error["code"] == absent.error["code"] == -32602


def test_a_session_belongs_to_its_token_and_its_address(inside: Within, a: Puppet) -> None:
    tokens = {**TOKENS, "owner": {"token": "another-owner"}}
    site = inside(a, section={"profiles": PROFILES, "http": {"tokens": tokens}}).site
    talk = site.initialize()
    for other in (
        site.bearing(CI),
        site.bearing(OPS),
        site.bearing("another-owner"),
        site.bearing(path="/mcp/p/reader"),
    ):
        for method in ("POST", "GET", "DELETE"):
            reply = other.ask(method, None, talk.headers, json.dumps(PING).encode() if method == "POST" else b"")
            assert reply.status == 404
    stream = site.ask("GET", "/sse")
    event = stream.event()
    assert event is not None
    assert site.bearing(OPS).post(PING, path=event.data).status == 404
    assert site.post(PING, path=event.data).status == 202
    assert talk.request("ping").result == {}


def test_the_token_is_made_once_and_kept_for_its_user_alone(serve: Serve, start: Start, a: Puppet) -> None:
    served = serve(a, token=None)
    file = served.gateway.home / ".local" / "share" / "kimi-gateway" / "token"
    token = file.read_text().strip()
    assert len(token) >= 40
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert served.site.post(PING).status == 401
    assert names(served.site.bearing(token)) == ["a__get_it", "a__set_it"]
    until(lambda: f"Bearer {token}".encode() in served.gateway.errors, "the lines to paste")
    served.gateway.close()
    again = serve(a, token=None, directory=served.gateway.home.parent)
    assert file.read_text().strip() == token
    assert again.site.bearing(token).post(PING).status == 400


def test_without_a_token_only_this_machine_is_served(serve: Serve, start: Start, a: Puppet, tmp_path: Path) -> None:
    site = serve(a, arguments=("--no-auth",), token=None).site
    assert names(site) == ["a__get_it", "a__set_it"]
    assert site.ask("GET", "/health", {"Origin": "https://evil.example"}).status == 403
    refused = start(version=None, arguments=("--http", "0.0.0.0:0", "--no-auth"))
    assert refused.wait() == 2
    assert b"--no-auth" in refused.errors


def test_a_port_in_use_is_said_and_fails(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        gateway = start(version=None, arguments=("--http", f"127.0.0.1:{port}"))
        assert gateway.wait() == 1
        assert f"cannot serve on 127.0.0.1:{port}".encode() in gateway.errors
        assert b"Traceback" not in gateway.errors
        assert gateway.messages == []


def test_an_address_that_is_none_is_wrong_usage(start: Start) -> None:
    gateway = start(version=None, arguments=("--http", "127.0.0.1:http"))
    assert gateway.wait() == 2
    assert b"is no port" in gateway.errors


def test_tokens_and_profiles_follow_the_files(serve: Serve, a: Puppet) -> None:
    section = {"profiles": PROFILES, "http": {"tokens": {"ci": {"token": CI, "profile": "reader"}}}}
    served = serve(a, gateway=section)
    site, ci = served.site, served.site.bearing(CI)
    talk, reader = site.initialize(), site.bearing(path="/mcp/p/reader").initialize()
    bound = ci.initialize()
    reader.request("tools/list")
    stream, heard = reader.listen(), bound.listen()
    listening = ci.stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert listening.next().method == "notifications/subscriptions/acknowledged"
    changed = {
        "profiles": {"writer": PROFILES["writer"], "ops": {"tools": {"allow": ["*"]}}},
        "http": {"tokens": {"ci": {"token": "another"}}},
    }
    served.gateway.configure({"a": a.entry}, changed)
    # Its streams end, though nobody has come in since.
    assert heard.rest() == []
    assert listening.rest()[-1].result["resultType"] == "complete"
    assert ci.post(PING).status == 401
    assert bound.post(PING).status == 401
    assert names(site.bearing("another")) == ["a__get_it", "a__set_it"]
    assert names(site.bearing(path="/mcp/p/ops")) == ["a__get_it", "a__set_it"]
    assert site.bearing(path="/mcp/p/reader").post(PING).status == 404
    # Who was in a profile that is gone sees nothing, and was told so; nobody else noticed.
    assert stream.next().method == "notifications/tools/list_changed"
    assert reader.post(PING).status == 404
    assert len(talk.request("tools/list").result["tools"]) == 2
    assert b"Traceback" not in served.gateway.errors


def test_status_asks_the_gateway_that_runs_for_the_project(serve: Serve, a: Puppet) -> None:
    section = {"profiles": PROFILES, "http": {"tokens": TOKENS}}
    served = serve(a, gateway=section)
    until(lambda: a.starts, "the upstream's start")
    names(served.site)
    report = json.loads(served.gateway.run("status", "--json").stdout)
    assert report["gateway"]["pid"] == served.gateway.pid
    assert report["servers"]["a"]["state"] == "ready"
    assert a.starts == 1
    bound = served.site.bearing(CI).stateless("kimi-gateway/status")
    assert (bound.status, bound.error["code"]) == (404, -32601)
    assert "servers" in served.site.stateless("kimi-gateway/status").message.result


def test_open_to_others_it_says_which_names_it_will_answer_to(serve: Serve, a: Puppet) -> None:
    hint = b"answered 421 until gateway.http.hosts"
    wide = serve(a, arguments=("--http", "0.0.0.0:0"))
    until(lambda: hint in wide.gateway.errors, "the hint")
    assert wide.site.ask("GET", "/health", {"Host": f"192.0.2.1:{wide.port}"}).status == 421
    named = serve(a, arguments=("--http", "0.0.0.0:0"), gateway={"http": {"hosts": ["192.0.2.1"]}})
    assert named.site.ask("GET", "/health", {"Host": f"192.0.2.1:{named.port}"}).status == 200
    for one in (named, serve(a)):
        until(lambda one=one: b"VS Code" in one.gateway.errors, "all it says at the start")
        assert hint not in one.gateway.errors


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this machine has one such address only")
def test_status_asks_a_gateway_at_an_address_that_is_none_of_its_hosts(serve: Serve, a: Puppet) -> None:
    served = serve(a, arguments=("--http", "127.0.0.2:0"))
    status = served.gateway.run("status", "--json")
    assert json.loads(status.stdout)["gateway"]["url"] == f"http://127.0.0.2:{served.port}/mcp"


def test_a_stopped_gateway_takes_its_note_with_it(serve: Serve, a: Puppet) -> None:
    served = serve(a)
    note = served.gateway.home / ".local" / "share" / "kimi-gateway" / "running"
    assert [stat.S_IMODE(file.stat().st_mode) for file in note.iterdir()] == [0o600]
    served.gateway.close()
    assert list(note.iterdir()) == []
