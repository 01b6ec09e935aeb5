"""A raw HTTP client: every header is the test's, and a response can be read event by event or killed halfway."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.client import DEADLINE, Message

Json = dict[str, Any]
TOKEN = "the-token-of-the-owner"
BOTH = "application/json, text/event-stream"
SESSION = "2025-11-25"
STATELESS = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {
    f"{PREFIX}protocolVersion": STATELESS,
    f"{PREFIX}clientCapabilities": {},
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
}


@dataclass(frozen=True)
class Event:
    data: str
    id: str | None = None
    kind: str | None = None

    @property
    def message(self) -> Message:
        return Message(self.data.encode())


class Reply:
    """One response, read as far as somebody looks."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        assert connection.sock is not None
        self._socket: socket.socket = connection.sock
        self._connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status
        self.headers = self._response.headers
        self.seen: str | None = None
        """The id of the last event."""

    @property
    def kind(self) -> str:
        return self.headers.get_content_type()

    @cached_property
    def body(self) -> bytes:
        return self._response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> Message:
        """The answer, where nothing but the answer came."""
        assert self.kind == "application/json", self
        return Message(self.body)

    @property
    def error(self) -> Json:
        return self.json["error"]

    def event(self) -> Event | None:
        """The next event; `None` at the end of the stream. Comments are passed over."""
        fields: dict[str, list[str]] = {}
        while line := self._response.readline():
            text = line.rstrip(b"\r\n").decode()
            if not text:
                if "data" in fields:
                    id = fields.get("id", [None])[-1]
                    self.seen = id or self.seen
                    return Event("\n".join(fields["data"]), id, fields.get("event", [None])[-1])
                fields = {}
                continue
            name, _, value = text.partition(":")
            if name:
                fields.setdefault(name, []).append(value.removeprefix(" "))
        return None

    def next(self) -> Message:
        """The next frame: events that only mark a place are passed over."""
        while (event := self.event()) is not None:
            if event.data:
                return event.message
        raise AssertionError("the stream ended")

    def rest(self) -> list[Message]:
        """All frames to the end."""
        found: list[Message] = []
        while (event := self.event()) is not None:
            if event.data:
                found.append(event.message)
        return found

    def kill(self) -> None:
        """Cut the connection, as a network does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._response.close()
        self._connection.close()
        self._socket.close()

    def __repr__(self) -> str:
        return f"<Reply {self.status} {self.kind}>"


class Site:
    """The endpoint, as one who bears a token sees it."""

    def __init__(self, port: int, token: str | None = TOKEN, path: str = "/mcp") -> None:
        self.port = port
        self.token = token
        self.path = path
        self._open: list[Reply] = []

    def bearing(self, token: str | None = TOKEN, path: str | None = None) -> Site:
        return Site(self.port, token, path or self.path)

    def begin(
        self,
        method: str,
        path: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: bytes = b"",
        more: Iterable[tuple[str, str]] = (),
    ) -> http.client.HTTPConnection:
        """Send a request; a header that is `None` is left out, `more` are sent besides whatever there is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        connection.putrequest(method, path or self.path, skip_host=True, skip_accept_encoding=True)
        everything: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        if self.token is not None:
            everything["Authorization"] = f"Bearer {self.token}"
        if method == "POST":
            everything |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        everything |= {"Accept": BOTH, **(headers or {})}
        for name, value in (*everything.items(), *more):
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body or None)
        return connection

    def ask(
        self,
        method: str,
        path: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: bytes = b"",
        more: Iterable[tuple[str, str]] = (),
    ) -> Reply:
        reply = Reply(self.begin(method, path, headers, body, more))
        self._open.append(reply)
        return reply

    def post(self, frame: Any, headers: Mapping[str, str | None] | None = None, path: str | None = None) -> Reply:
        return self.ask("POST", path, headers, json.dumps(frame).encode())

    # The session era

    def initialize(self, version: str = SESSION, capabilities: Json | None = None) -> Talk:
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        reply = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert reply.status == 200, reply.body
        talk = Talk(self, reply.headers["Mcp-Session-Id"], version, reply.message)
        assert talk.notify("notifications/initialized").status == 202
        return talk

    # The stateless era

    def stateless(
        self,
        method: str,
        params: Json | None = None,
        *,
        meta: Json | None = None,
        headers: Mapping[str, str | None] | None = None,
        id: Any = 1,
        more: Iterable[tuple[str, str]] = (),
    ) -> Reply:
        """A request of 2026-07-28 with the headers it must have, unless `headers` say otherwise."""
        given = params or {}
        name = given.get("name", given.get("uri"))
        body = {
            "jsonrpc": "2.0", "id": id, "method": method, "params": {**given, "_meta": {**META, **(meta or {})}},
        }  # fmt: skip
        sent: dict[str, str | None] = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
        if name is not None and method in ("tools/call", "prompts/get", "resources/read"):
            sent["Mcp-Name"] = name
        return self.ask("POST", None, {**sent, **(headers or {})}, json.dumps(body).encode(), more)

    def close(self) -> None:
        for reply in self._open:
            reply.close()


class Talk:
    """One session."""

    def __init__(self, site: Site, id: str, version: str, introduction: Message) -> None:
        self.site = site
        self.id = id
        self.version = version
        self.introduction = introduction
        self._next = 0

    @property
    def headers(self) -> dict[str, str | None]:
        return {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.version}

    def post(self, frame: Any, headers: Mapping[str, str | None] | None = None) -> Reply:
        return self.site.post(frame, {**self.headers, **(headers or {})})

    def notify(self, method: str, params: Json | None = None) -> Reply:
        return self.post({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def frame(self, method: str, params: Json | None = None, id: Any = None) -> Json:
        if id is None:
            self._next += 1
            id = self._next
        return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})}

    def begin(self, method: str, params: Json | None = None, id: Any = None) -> http.client.HTTPConnection:
        """A request whose response is not looked at yet."""
        body = json.dumps(self.frame(method, params, id)).encode()
        return self.site.begin("POST", None, self.headers, body)

    def call(self, name: str, id: Any = None, **more: Any) -> http.client.HTTPConnection:
        return self.begin("tools/call", {"name": name, "arguments": {}, **more}, id)

    def request(self, method: str, params: Json | None = None) -> Message:
        """A request that nothing but its answer comes to."""
        return self.post(self.frame(method, params)).message

    def answer(self, question: Message, result: Json) -> None:
        assert self.post({"jsonrpc": "2.0", "id": question.id, "result": result}).status == 202

    def listen(self, last: str | None = None) -> Reply:
        """The stream for what belongs to no request, or the rest of one that was lost."""
        reply = self.site.ask("GET", None, {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": last})
        assert reply.status == 200, reply.body
        return reply

    def delete(self) -> Reply:
        return self.site.ask("DELETE", None, self.headers)
