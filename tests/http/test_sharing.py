"""Several clients over HTTP in front of one upstream that asks: each is asked its own questions only."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from tests.client import DEADLINE, command, until
from tests.clients.web import INTRODUCTION, Script, event, reply, stream
from tests.end_to_end.test_web import scripted_aside
from tests.puppets import Puppet

Json = dict[str, Any]
Make = Callable[..., Puppet]
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ACCEPT = {"accept": "application/json, text/event-stream"}
ALL: Json = {"elicitation": {}, "sampling": {}, "roots": {}}


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Callable[..., str]]:
    """Start a gateway over HTTP in front of these upstreams; returns its address."""
    started: list[subprocess.Popen[str]] = []

    def make(*entries: tuple[str, Json]) -> str:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        config = {"mcpServers": dict(entries), "gateway": {"kimi": False}}
        (home / ".kode.json").write_text(json.dumps(config))
        process = subprocess.Popen(
            [command(), "serve", "--http", "127.0.0.1:0", "--no-auth"],
            cwd=tmp_path,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        url = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+/mcp", line)))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return url

    yield make
    for process in started:
        process.terminate()
        process.wait(DEADLINE)


class Call:
    """A POST whose answer is read in the background, event by event."""

    def __init__(self, url: str, body: Json, headers: dict[str, str]) -> None:
        self.events: list[Json] = []
        self.session = ""
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._run, args=(url, body, headers), daemon=True).start()

    def expect(self, wanted: Callable[[Json], bool]) -> Json:
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(wanted, self.events)) or self._ended, DEADLINE)
            return next(filter(wanted, self.events))

    def asked(self, method: str) -> Json:
        return self.expect(lambda event: event.get("method") == method)

    def answer(self) -> Json:
        return self.expect(lambda event: "method" not in event)

    def _run(self, url: str, body: Json, headers: dict[str, str]) -> None:
        with httpx.stream("POST", url, json=body, headers={**ACCEPT, **headers}, timeout=DEADLINE) as response:
            self.session = response.headers.get("mcp-session-id", "")
            kind = response.headers.get("content-type", "")
            for line in response.iter_lines():
                data = line.removeprefix("data: ") if kind == "text/event-stream" else line
                if data.startswith("{"):
                    with self._changed:
                        self.events.append(json.loads(data))
                        self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class SessionClient:
    """A client of the session era."""

    def __init__(self, url: str, capabilities: Json | None = None) -> None:
        self._url = url
        self._ids = 0
        self._headers: dict[str, str] = {}
        params = {"protocolVersion": "2025-11-25", "capabilities": ALL if capabilities is None else capabilities}
        opening = self.send("initialize", {**params, "clientInfo": {"name": "t", "version": "1"}})
        assert opening.answer()["result"]
        self._headers = {"mcp-session-id": opening.session, "mcp-protocol-version": "2025-11-25"}
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, method: str, params: Json) -> Call:
        self._ids += 1
        body = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        return Call(self._url, body, self._headers)

    def call(self, **arguments: Any) -> Call:
        return self.send("tools/call", {"name": "a__work", "arguments": arguments})

    def post(self, body: Json) -> None:
        answer = httpx.post(
            self._url, json=body, headers={**self._headers, "accept": "application/json, text/event-stream"}
        )
        assert answer.status_code == 202, answer.text

    def reply(self, question: Json, result: Json) -> None:
        self.post({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def leave(self) -> None:
        assert httpx.delete(self._url, headers=self._headers).status_code == 200


class StatelessClient:
    """A client of the stateless era."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, **params: Any) -> Call:
        meta = {VERSION: "2026-07-28", CAPABILITIES: ALL}
        whole = {"name": "a__work", "arguments": {}, **params, "_meta": meta}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "a__work"}
        return Call(self._url, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": whole}, headers)


def test_the_only_client_in_a_call_is_asked(puppet: Make, serve: Callable[..., str]) -> None:
    a = puppet("a")
    url = serve(("a", a.entry))
    until(lambda: a.got("tools/list"), "the upstream")
    ada, _bystander = SessionClient(url), SessionClient(url)
    call = ada.call()
    work = a.expect("tools/call")
    a.ask("q", "elicitation/create", message="who?")
    ada.reply(call.asked("elicitation/create"), {"action": "accept"})
    assert a.expect_answer("q").result == {"action": "accept"}
    a.reply(work, {"content": [], "n": 1})
    assert call.answer()["result"]["n"] == 1


def test_with_two_in_a_call_it_is_refused_and_nobodys_roots_are_told(puppet: Make, serve: Callable[..., str]) -> None:
    a = puppet("a")
    url = serve(("a", a.entry))
    ada, ben = SessionClient(url), SessionClient(url)
    calls = [ada.call(n=1), ben.call(n=2)]
    works = [a.expect("tools/call"), a.expect("tools/call")]
    a.ask("q", "elicitation/create", message="who?")
    assert a.expect_answer("q").error["code"] == -32600
    a.ask("r", "roots/list")
    assert a.expect_answer("r").result == {"roots": []}
    for work in works:
        a.reply(work, {"content": [], "n": work.params["arguments"]["n"]})
    assert [call.answer()["result"]["n"] for call in calls] == [1, 2]
    assert not [event for call in calls for event in call.events if "method" in event]


ASKER = Path(__file__).parent.parent / "upstreams" / "asker.py"


@pytest.fixture
def asking(serve: Callable[..., str], tmp_path: Path) -> str:
    """A gateway whose one upstream is known to ask, from a life before."""
    entry = {"command": sys.executable, "args": ["-I", "-S", str(ASKER)]}
    url = serve(("a", entry))
    ada, ben = SessionClient(url), SessionClient(url)
    calls = [ada.call(ask="elicitation/create", wait=2), ben.call(ask="elicitation/create", wait=2)]
    for call in calls:
        text = call.answer()["result"]["content"][0]["text"]
        assert '"error"' in text, text
    return url


def test_two_clients_in_a_call_are_each_asked_their_own(asking: str) -> None:
    ada, ben = SessionClient(asking), SessionClient(asking)
    calls = {
        ada: ada.call(ask="elicitation/create", say="for ada"),
        ben: ben.call(ask="elicitation/create", say="for ben"),
    }
    questions = {client: call.asked("elicitation/create") for client, call in calls.items()}
    assert questions[ada]["params"]["message"] == "for ada"
    assert questions[ben]["params"]["message"] == "for ben"
    ben.reply(questions[ben], {"action": "accept", "content": {"name": "ben"}})
    ada.reply(questions[ada], {"action": "accept", "content": {"name": "ada"}})
    for client, name in ((ada, "ada"), (ben, "ben")):
        assert name in calls[client].answer()["result"]["content"][0]["text"]
        assert len([event for event in calls[client].events if "method" in event]) == 1


def test_stateless_clients_are_each_asked_their_own_too(asking: str) -> None:
    ada, ben = StatelessClient(asking), StatelessClient(asking)
    calls = [
        (client, words, client.call(arguments={"ask": "elicitation/create", "say": words}))
        for client, words in ((ada, "for ada"), (ben, "for ben"))
    ]
    for client, words, call in calls:
        result = call.answer()["result"]
        ((key, request),) = result["inputRequests"].items()
        assert request["params"]["message"] == words
        again = client.call(
            arguments={"ask": "elicitation/create", "say": words},
            requestState=result["requestState"],
            inputResponses={key: {"action": "accept", "content": {"name": words}}},
        )
        assert words in again.answer()["result"]["content"][0]["text"]


def test_roots_never_reach_a_connection_that_another_uses(asking: str) -> None:
    ada, ben = StatelessClient(asking), StatelessClient(asking)

    def roots_of(client: StatelessClient, uri: str) -> str:
        result = client.call(arguments={"ask": "roots/list"}).answer()["result"]
        ((key, _),) = result["inputRequests"].items()
        answers = {key: {"roots": [{"uri": uri}]}}
        again = client.call(
            arguments={"ask": "roots/list"}, requestState=result["requestState"], inputResponses=answers
        )
        return again.answer()["result"]["content"][0]["text"]

    first, second = roots_of(ada, "file:///ada"), roots_of(ben, "file:///ben")
    assert "file:///ada" in first
    assert "file:///ben" in second
    assert "file:///ada" not in second
    # Each process says what it has ever been told.
    said = ben.call(arguments={"recall": True}).answer()["result"]["content"][0]["text"]
    assert "file:///ada" not in said


def test_a_client_that_leaves_takes_its_connection_with_it(asking: str) -> None:
    ada = SessionClient(asking)
    pid = int(ada.call(pid=True).answer()["result"]["content"][0]["text"])
    assert Path(f"/proc/{pid}").exists()
    ada.leave()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of its process")


def test_a_call_on_a_connection_of_its_own_is_finished_before_an_edited_server_is_replaced(
    asking: str, tmp_path: Path
) -> None:
    ada, ben = SessionClient(asking), SessionClient(asking)
    call = ada.call(ask="elicitation/create", say="for ada")
    question = call.asked("elicitation/create")
    file = tmp_path / "home" / ".kode.json"
    config = json.loads(file.read_text())
    config["mcpServers"]["a"]["env"] = {"EDITED": "1"}
    config["mcpServers"]["b"] = config["mcpServers"]["a"]
    file.write_text(json.dumps(config))
    until(lambda: "b__work" in str(ben.send("tools/list", {}).answer()), "the other server, by the same edit")
    ada.reply(question, {"action": "accept", "content": {"name": "ada"}})
    assert "ada" in call.answer()["result"]["content"][0]["text"]


def test_a_session_that_ended_on_a_connection_of_its_own_is_begun_again_and_the_call_sent_again(
    serve: Callable[..., str],
) -> None:
    script = Script()
    begun: list[str] = []

    async def listen(request: web.Request, body: Json) -> web.StreamResponse:
        return await stream(request, event(b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}'))

    async def begin(request: web.Request, body: Json) -> web.StreamResponse:
        begun.append(f"session-{len(begun) + 1}")
        return reply(body, INTRODUCTION, headers={"Mcp-Session-Id": begun[-1]})

    async def work(request: web.Request, body: Json) -> web.StreamResponse:
        session = request.headers["Mcp-Session-Id"]
        if session == "session-2":
            return web.Response(status=404)
        return reply(body, {"content": [{"type": "text", "text": session}]})

    script.on |= {"GET": listen, "initialize": begin, "tools/call": work}
    with scripted_aside(script):
        url = serve(("a", {"url": script.url, "type": "http"}))
        ada = SessionClient(url)
        until(lambda: any(body.get("id") == "q" for _, _, body in script.requests), "the answer to its question")
        assert ada.call().answer()["result"]["content"][0]["text"] == "session-3"
        assert [headers["Mcp-Session-Id"] for headers, _ in script.got("tools/call")] == ["session-2", "session-3"]
