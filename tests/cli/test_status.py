"""`kimi-gateway status`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import running_file
from tests.cli.place import DEMO, Place
from tests.client import Json, command, until
from tests.puppets import Puppet

KEYS = {"state", "transport", "era", "version", "tools", "latency_ms", "restarts", "error", "next_try"}
REPORT: Json = {
    "project": "/p",
    "gateway": None,
    "servers": {
        "far": {
            "state": "ready",
            "transport": "stdio",
            "era": "session",
            "version": "2025-11-25",
            "tools": 7,
            "latency_ms": 1.25,
            "restarts": 3,
            "error": None,
            "next_try": None,
            "fix": None,
            "source": "x",
            "pid": 1,
            "garbage": {"count": 0, "last": []},
        }
    },
    "problems": [],
    "clashes": [],
}


def test_json_has_the_documented_shape(place: Place) -> None:
    place.configure({"demo": DEMO, "gone": {"command": "no-such-program"}, "off": {**DEMO, "enabled": False}})
    found = place.json("status")
    assert set(found["servers"]) == {"demo", "gone", "off"}
    for one in found["servers"].values():
        assert set(one) >= KEYS
    demo, gone, off = (found["servers"][name] for name in ("demo", "gone", "off"))
    assert (demo["state"], demo["era"], demo["version"], demo["tools"]) == ("ready", "session", "2025-11-25", 4)
    assert demo["latency_ms"] > 0 and demo["restarts"] == 0 and demo["error"] is None
    assert demo["garbage"] == {"count": 0, "last": []}
    assert gone["state"] == "failed" and "no-such-program" in gone["error"] and gone["fix"]
    assert (off["state"], off["error"], off["next_try"]) == ("disabled", None, None)


def test_a_server_that_cannot_be_reached_says_why_and_when_it_is_tried_again(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place.configure({"away": {"url": f"http://127.0.0.1:{port}/mcp"}})
    away = place.json("status")["servers"]["away"]
    assert away["state"] in ("waiting", "connecting")
    assert "refused" in away["error"] and away["restarts"] >= 1


def test_a_server_that_ends_when_asked_for_the_newer_era_is_waited_for(
    place: Place, puppet: Callable[..., Puppet]
) -> None:
    old = puppet("old")
    old.on("server/discover", lambda _: old.drop())
    place.configure({"old": old.entry})
    assert place.json("status")["servers"]["old"]["state"] == "ready"
    assert old.starts == 2


def test_what_is_no_frame_is_counted(place: Place, puppet: Callable[..., Puppet]) -> None:
    noisy = puppet("noisy")

    def answer(message: Any) -> Json:
        noisy.say(b"Listening on stdio!\n")
        return {"result": {"tools": []}}

    noisy.on("tools/list", answer)
    place.configure({"noisy": noisy.entry})
    garbage = place.json("status")["servers"]["noisy"]["garbage"]
    assert garbage == {"count": 1, "last": ["Listening on stdio!"]}


def test_an_untrusted_server_is_failed_with_what_to_do(place: Place) -> None:
    place.configure()
    place.configure_project({"theirs": {"command": "touch", "args": [str(place.home / "ran")]}})
    found = place.json("status")
    theirs = found["servers"]["theirs"]
    assert theirs["state"] == "failed"
    assert "untrusted" in theirs["error"] and "kimi-gateway trust" in theirs["error"]
    assert any("kimi-gateway trust" in problem for problem in found["problems"])
    assert not (place.home / "ran").exists()


def test_problems_of_the_configuration_are_on_stderr_and_in_the_json(place: Place) -> None:
    place.configure({"one": {"url": "https://example.test/mcp", "headers": {"A": "${NOT_SET}"}}})
    done = place.run("status", "--json")
    assert done.returncode == 0
    assert "NOT_SET" in done.stderr
    assert "NOT_SET" in json.loads(done.stdout)["problems"][0]


def test_name_clashes_are_shown(place: Place) -> None:
    place.configure({"a-b": DEMO, "a_b": DEMO})
    assert any(clash.startswith("a-b:") for clash in place.json("status")["clashes"])
    assert "name clash: a-b" in place.run("status").stderr


def test_piped_output_is_plain_and_never_cut(place: Place) -> None:
    long = "x" * 300
    place.configure({"gone": {"command": f"no-{long}"}, "demo": DEMO})
    done = place.run("status")
    assert "\x1b" not in done.stdout
    heading, *rows = (line.split("\t") for line in done.stdout.splitlines())
    assert heading[0] == "SERVER" and {len(row) for row in rows} == {len(heading)}
    assert long in rows[1][-1]


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_no_line_is_wider_than_it(place: Place, columns: int) -> None:
    place.configure({"demo": DEMO, "a-server-with-a-name-of-some-length": {"command": "no-such-program"}})
    screen = place.terminal("status", columns=columns)
    assert screen.wait() == 0
    assert max(map(len, screen.lines)) <= columns
    assert "2025-11-25" in screen.text and "no-such-program" in screen.text
    assert "\x1b[3" in screen.raw


def test_no_color_is_honoured(place: Place) -> None:
    place.variables["NO_COLOR"] = "1"
    place.configure({"demo": DEMO})
    screen = place.terminal("status")
    assert screen.wait() == 0
    assert "\x1b[3" not in screen.raw and "ready" in screen.text


def test_a_server_that_takes_long_is_seen_on_its_way(place: Place, puppet: Callable[..., Puppet]) -> None:
    slow = puppet("slow")
    waiting = threading.Event()

    def hold(_: Any) -> Json:
        waiting.wait(30)
        return {"result": {"tools": []}}

    slow.on("tools/list", hold)
    place.configure({"slow": slow.entry, "demo": DEMO})
    screen = place.terminal("status")
    screen.expect("it has not answered its listings yet")
    screen.expect("4 tools")
    waiting.set()
    assert screen.wait() == 0
    assert "RESTARTS" in screen.text


def test_a_hostile_servers_words_do_not_steer_the_terminal(place: Place) -> None:
    place.configure({"evil": {"command": "sh", "args": ["-c", r"printf '\033]0;owned\007\033[2J' >&2; exit 1"]}})
    screen = place.terminal("status")
    assert screen.wait() == 0
    assert "owned" in screen.text and "\x1b]0" not in screen.raw and "\x1b[2J" not in screen.raw


# A gateway that runs


class Running(ThreadingHTTPServer):
    """A small stand-in for `serve --http`: it answers the one request that is asked of it, and keeps it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str], Json]] = []
        self.answer: bytes = b""
        self.status = 200
        self.kind = "application/json"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class Handler(BaseHTTPRequestHandler):
    server: Running  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def running(place: Place) -> Iterator[Running]:
    with Running() as server:
        result = {"resultType": "complete", **REPORT}
        server.answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        announce(place, server.url)
        yield server
        server.shutdown()


def announce(place: Place, url: str, pid: int | None = None) -> None:
    file = running_file.place(place.project, place.home, {})
    project = os.path.realpath(place.project)
    running_file.write(file, running_file.Running(pid or os.getpid(), url, "the-token", project))


def test_a_running_gateway_is_asked_and_nothing_is_started(place: Place, running: Running) -> None:
    place.configure({"demo": DEMO})
    found = place.json("status")
    assert found["servers"] == REPORT["servers"]
    assert found["gateway"] == {"pid": os.getpid(), "url": running.url}
    assert "resultType" not in found
    ((path, headers, body),) = running.requests
    assert path == "/mcp"
    assert headers["authorization"] == "Bearer the-token"
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert headers["mcp-method"] == body["method"] == "kimi-gateway/status"
    assert body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


def test_its_answer_may_come_as_an_event(place: Place, running: Running) -> None:
    running.kind = "text/event-stream"
    running.answer = b"event: message\ndata: " + running.answer + b"\n\n"
    assert "far" in place.json("status")["servers"]


def test_it_is_said_whose_report_it_is(place: Place, running: Running) -> None:
    done = place.run("status")
    assert running.url in done.stderr and "far\tready" in done.stdout


@pytest.mark.parametrize(("status", "answer"), [(401, b""), (200, b"nonsense"), (200, b'{"error": {"code": -32601}}')])
def test_one_that_answers_otherwise_is_not_relied_on(
    place: Place, running: Running, status: int, answer: bytes
) -> None:
    running.status, running.answer = status, answer
    place.configure({"demo": DEMO})
    done = place.run("status", "--json")
    assert json.loads(done.stdout)["servers"]["demo"]["state"] == "ready"
    assert running.url in done.stderr


def test_one_that_is_gone_is_not_relied_on(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    announce(place, f"http://127.0.0.1:{port}/mcp")
    place.configure({"demo": DEMO})
    done = place.run("status", "--json")
    assert json.loads(done.stdout)["servers"]["demo"]["state"] == "ready"
    assert json.loads(done.stdout)["gateway"] is None
    assert "refused" in done.stderr


def test_a_proxy_of_the_environment_does_not_see_the_token(place: Place, running: Running) -> None:
    place.variables["http_proxy"] = place.variables["HTTP_PROXY"] = "http://127.0.0.1:9"
    assert "far" in place.json("status")["servers"]


def test_another_projects_gateway_is_not_asked(place: Place, running: Running, tmp_path: Path) -> None:
    place.configure({"demo": DEMO})
    other = tmp_path / "other"
    other.mkdir()
    assert set(place.json("status", "--project", str(other))["servers"]) == {"demo"}
    assert not running.requests


def test_the_real_one_is_asked(place: Place) -> None:
    place.configure({"demo": DEMO})
    file = running_file.place(place.project, place.home, {})
    with subprocess.Popen(
        [command(), "serve", "--http", "127.0.0.1:0"],
        cwd=place.project,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as gateway:
        try:
            until(file.exists, "the note of a running gateway")

            until(lambda: place.json("status")["servers"]["demo"]["state"] == "ready", "a server that is ready")
            found = place.json("status")
            assert found["gateway"]["pid"] == gateway.pid
            assert set(found["servers"]["demo"]) >= KEYS
            assert found["servers"]["demo"]["pid"] == place.json("status")["servers"]["demo"]["pid"]
        finally:
            gateway.terminate()
            gateway.wait(30)
    assert not file.exists()


def test_a_server_that_is_switched_off_has_no_tools(place: Place) -> None:
    place.configure({"demo": DEMO})
    assert place.json("status")["servers"]["demo"]["tools"] == 4
    assert place.run("disable", "demo").returncode == 0
    off = place.json("status")["servers"]["demo"]
    assert (off["state"], off["tools"]) == ("disabled", 0)
