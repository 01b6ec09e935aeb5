"""One downstream client: what it has in flight, and which of its requests goes where."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from msgspec import Raw

from gateway import __version__, links
from gateway.exchange import NOBODY, Client, Exchange, Failure, Port, Question
from gateway.parking import Parking
from gateway.protocol import errors, methods
from gateway.protocol.frames import (
    NOTHING,
    Frame,
    Malformed,
    Object,
    encode,
    error,
    id_key,
    notification,
    open_object,
    quote,
    result,
    seal,
    string,
)
from gateway.protocol.versions import Era
from gateway.registry import Kind, Route, ToolRegistry, View

SERVER_INFO = {"name": "kimi-gateway", "title": "kimi-gateway", "version": __version__}
CAPABILITIES: dict[str, object] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
INSTRUCTIONS_LIMIT = 4096
ENDING = "the gateway is shutting down"
OUR_METHODS = "kimi-gateway/"
"""How the gateway's own methods begin: who may not ask them asks nobody."""


class Upstreams(Protocol):
    """All connections together, as a conversation needs them."""

    def dispatch(self, server: str, exchange: Exchange) -> None:
        """Send an exchange on its way; it finishes by itself, also when the server is away."""
        ...

    def notify(self, server: str, frame: bytes) -> None:
        """Tell one server, if it is there."""
        ...

    def roots_changed(self, caller: object, params: bytes) -> None:
        """A client's roots are others now: those who know its roots should hear."""
        ...

    def relevel(self, wanted: str | None = None) -> None:
        """Who wants which log messages has changed; with a level: one request wants these."""
        ...

    def follow(self, server: str, uri: str) -> None:
        """Somebody wants to hear of this resource, by the server's own name for it."""
        ...

    def unfollow(self, server: str, uri: str) -> None:
        """One client less wants to."""
        ...

    def followed(self, server: str, uri: str) -> bool:
        """Whether any client wants to."""
        ...

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call back once no server is worth waiting for before a listing."""
        ...

    def greet(self, capabilities: bytes) -> None:
        """A client is there and can do this: upstreams held for it may be initialised."""
        ...

    def forget(self, caller: object) -> None:
        """A client is gone, and with it any connection of its own."""
        ...


class Members(Protocol):
    """Those who hear what belongs to no exchange."""

    def join(self, member: Conversation) -> None: ...

    def leave(self, member: Conversation) -> None: ...


class Write(Protocol):
    def __call__(self, frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        """A frame for the client; `about` is the key of the request it belongs to, `last` says it is its answer."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """What all conversations of one gateway share."""

    registry: ToolRegistry
    upstreams: Upstreams
    members: Members
    parking: Parking
    notes: Callable[[], str] = lambda: ""
    """What every client should be told before all else."""
    answers: Mapping[str, Callable[[], bytes]] = field(default_factory=dict[str, "Callable[[], bytes]"])
    """Methods of the gateway's own, by name: they answer people who ask how it is."""
    issuers: dict[Hashable, dict[str, str]] = field(default_factory=dict[Hashable, "dict[str, str]"])
    """Which server issued a link, by client and URI."""


class Conversation(ABC):
    """What one client says and hears. Fed frames by a face, writes frames through a function."""

    era: ClassVar[Era]
    REQUESTS: ClassVar[dict[str, Callable[..., None]]]
    NOTIFICATIONS: ClassVar[dict[str, Callable[..., None]]]

    def __init__(self, house: House, write: Write, *, profile: str | None, party: Hashable) -> None:
        self.profile = profile
        self.party = party
        """Who this is, where several conversations may be one client's."""
        self._house = house
        self._write = write
        self._requests: dict[bytes, Exchange] = {}
        """All that is not answered yet, also what went to no upstream."""
        self._idle: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def view(self) -> View:
        return self._house.registry.snapshot.views[self.profile]

    @property
    def client(self) -> Client:
        """What it has said of itself, apart from any request."""
        return NOBODY

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._requests)} in flight>"

    # What comes from the client

    def receive(self, message: Frame | list[Frame | Malformed]) -> None:
        if isinstance(message, list):
            self._received_batch(message)
        elif message.method is None:
            self._answered(message)
        elif message.id:
            self._asked(message)
        else:
            self._told(message)

    def malformed(self, malformed: Malformed) -> None:
        """A frame that could not be read is answered, and the stream goes on."""
        self._write(error(malformed.id, errors.error_object(malformed.code, malformed.message)))

    async def finished_within(self, seconds: float) -> None:
        """Return when nothing is in flight any more, or time is over."""
        if self._requests:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle], timeout=seconds)

    def close(self) -> None:
        """The client is gone: nothing of its work goes on."""
        self._closed = True
        for exchange in list(self._requests.values()):
            if exchange.port is not None:
                exchange.port.cancel(exchange, {"reason": quote("the client disconnected")})
        self._requests.clear()
        self._house.upstreams.forget(self)

    def abandon(self) -> None:
        """What is still in flight will not be waited for: upstreams are told, and so is the client, if it reads."""
        for exchange in list(self._requests.values()):
            if exchange.port is not None:
                exchange.port.cancel(exchange, {"reason": quote(ENDING)})
                sent = exchange.upstream_id > 0
                failure = Failure(exchange.server, ENDING, may_have_executed=sent, code=errors.SHUTDOWN)
                self.failed(exchange, failure)

    def awaits(self, key: bytes) -> bool:
        """Whether this request of the client's will still be answered."""
        return key in self._requests

    def conclude(self) -> None:
        """We are about to end: what would stay open for ever gets its last word."""
        return

    def cancel(self, key: bytes, words: Object) -> None:
        """The client has lost interest in one of its requests."""
        exchange = self._requests.pop(key, None)
        if exchange is not None and exchange.port is not None:
            exchange.port.cancel(exchange, words)

    def _received_batch(self, parts: list[Frame | Malformed]) -> None:
        self.malformed(Malformed(errors.INVALID_REQUEST, "Invalid Request: batches exist in 2025-03-26 only"))

    def _asked(self, frame: Frame) -> None:
        id = frame.id
        key = id_key(id)
        if key in self._requests:
            self._write(error(id, _in_use()))
            return
        asked = self._requests[key] = Exchange(self, id, frame.method or "", {}, key)
        try:
            self._request(asked, frame.params)
        except Malformed as malformed:
            self._refuse(id, malformed.code, malformed.message, malformed.data)

    @abstractmethod
    def _request(self, asked: Exchange, params: Raw) -> None:
        """Open one request, by the rules of its era, and take it."""

    def _told(self, frame: Frame) -> None:
        handler = self.NOTIFICATIONS.get(frame.method or "")
        try:
            if handler is not None:
                handler(self, open_object(frame.params))
            elif (server := self._only_upstream()) is not None:
                self._house.upstreams.notify(server, notification(frame.method or "", frame.params))
        except Malformed:
            return  # a notification has no answer

    def _answered(self, frame: Frame) -> None:
        """The client's answer to a question of an upstream's; no question of ours is open in the stateless era."""
        return

    # Requests that both eras have, one method each

    def _list(self, kind: Kind, asked: Exchange) -> None:
        if "cursor" in asked.params:
            raise Malformed(errors.INVALID_PARAMS, "Invalid params: unknown cursor, listings have one page")

        def answer() -> None:
            if self._requests.get(asked.key) is asked:
                self._reply(asked.id, self._listed(kind, self.view.array(kind)))

        self._house.upstreams.when_settled(answer)

    @abstractmethod
    def _listed(self, kind: Kind, array: bytes) -> bytes:
        """The result of a list, by the rules of its era."""

    def list_tools(self, asked: Exchange) -> None:
        self._list("tools", asked)

    def list_prompts(self, asked: Exchange) -> None:
        self._list("prompts", asked)

    def list_resources(self, asked: Exchange) -> None:
        self._list("resources", asked)

    def list_templates(self, asked: Exchange) -> None:
        self._list("templates", asked)

    def call_tool(self, asked: Exchange) -> None:
        self._by_name("tools", "tool", asked)

    def get_prompt(self, asked: Exchange) -> None:
        self._by_name("prompts", "prompt", asked)

    def _by_name(self, kind: Kind, noun: str, asked: Exchange) -> None:
        name = string(asked.params, "name")
        route = self.view.routes[kind].get(name)
        if route is not None:
            self._forward(asked, route)
        else:
            self._by_late_name(kind, noun, asked, name)

    def _by_late_name(self, kind: Kind, noun: str, asked: Exchange, name: str) -> None:
        self._found(
            asked,
            lambda: self.view.find(kind, name),
            lambda found: self._forward(asked, found),
            lambda: self._refuse(asked.id, errors.INVALID_PARAMS, f"Unknown {noun}: {name}"),
        )

    def _forward(self, asked: Exchange, route: Route) -> None:
        asked.params["name"] = route.raw
        self._send(route.server, asked, route.name)

    def read(self, asked: Exchange) -> None:
        self._by_uri(asked)

    def _by_uri(self, asked: Exchange, then: Callable[[Route], None] = lambda _: None) -> None:
        """Send it to whoever has this resource, and tell who that is."""
        uri = string(asked.params, "uri")

        def forward(route: Route) -> None:
            asked.params["uri"] = route.raw
            asked.by_our_uri = route.name != uri
            then(route)
            self._send(route.server, asked)

        self._found(asked, lambda: self._resource(uri), forward, lambda: self._missing(asked.id, uri))

    def _found(
        self,
        asked: Exchange,
        find: Callable[[], Route | None],
        forward: Callable[[Route], None],
        missing: Callable[[], None],
    ) -> None:
        """Go where the route leads. What is asked for before its server was ever listed is worth the wait for that."""
        route = find()
        if route is not None:
            forward(route)
            return

        def late() -> None:
            if self._requests.get(asked.key) is not asked:
                return
            try:
                found = find()
                if found is None:
                    missing()
                else:
                    forward(found)
            except Malformed as malformed:
                self._refuse(asked.id, malformed.code, malformed.message, malformed.data)

        self._house.upstreams.when_settled(late)

    @abstractmethod
    def _missing(self, id: bytes, uri: str) -> None:
        """No server has this resource: an error whose code the era decides."""

    def _resource(self, uri: str) -> Route | None:
        issuer = self._house.issuers.get(self.party, {}).get(uri)
        view = self.view
        if issuer in view.servers and view.find("resources", uri) is None:
            return Route(issuer, uri, quote(uri))
        return view.find_resource(uri)

    def complete(self, asked: Exchange) -> None:
        reference = open_object(asked.params.get("ref", b""))
        key, kind = ("name", "prompts") if "name" in reference else ("uri", "templates")
        name = string(reference, key)

        def find() -> Route | None:
            route = self.view.find(kind, name)
            return self.view.find_resource(name) if route is None and kind == "templates" else route

        def forward(route: Route) -> None:
            reference[key] = route.raw
            asked.params["ref"] = Raw(seal(reference))
            self._send(route.server, asked)

        def missing() -> None:
            self._refuse(asked.id, errors.INVALID_PARAMS, f"Invalid params: unknown reference {name}")

        self._found(asked, find, forward, missing)

    def _vendor(self, asked: Exchange) -> None:
        """A method that is not MCP's: ours, or the only upstream's."""
        own = self._house.answers.get(asked.method)
        if own is not None:
            self._reply(asked.id, own())
            return
        server = self._only_upstream() if not asked.method.startswith(OUR_METHODS) else None
        if server is None:
            self._refuse(asked.id, errors.METHOD_NOT_FOUND, f"Method not found: {asked.method}")
            return
        self._send(server, asked)

    def _only_upstream(self) -> str | None:
        """The one a vendor's method can be meant for."""
        snapshot = self._house.registry.snapshot
        others = [name for name in snapshot.policy.servers if name != "kimi"]
        if len(others) != 1 or not self.view.hears(others[0]):
            return None
        return others[0]

    def _send(self, server: str, asked: Exchange, tool: str = "") -> None:
        asked.server = server
        asked.tool = tool
        self._house.upstreams.dispatch(server, asked)

    # Notifications that both eras have

    def cancelled(self, params: Object) -> None:
        self.cancel(id_key(params.get("requestId", NOTHING)), params)

    # What comes back from upstreams (the exchange's caller)

    @abstractmethod
    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        """The answer, spelled as this era does."""

    @abstractmethod
    def input_required(self, exchange: Exchange, result: Raw) -> None:
        """A stateless upstream wants something first; then it is to be asked again."""

    @abstractmethod
    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        """The upstream's own error, spelled as this era does."""

    def _finish(self, exchange: Exchange, payload: bytes | Raw) -> None:
        """Answer with an upstream's result, in it the URIs under which this client can ask for them."""
        view = self.view
        if exchange.server in view.linking and exchange.method in links.CARRIERS:
            payload = links.outward(view, exchange, payload, self._remember_issuer)
        self._settle(exchange.key, result(exchange.id, payload))

    def _remember_issuer(self, uri: str, server: str) -> None:
        issued = self._house.issuers.setdefault(self.party, {})
        if len(issued) < links.REMEMBERED:
            issued[uri] = server

    def failed(self, exchange: Exchange, failure: Failure) -> None:
        if exchange.method == methods.TOOLS_CALL:
            self._reply(exchange.id, self._own(failure.as_tool_result()))
        else:
            self._reply_error(exchange.id, failure.as_error())

    def _own(self, payload: bytes) -> bytes:
        """A result of our own, spelled as this era does."""
        return payload

    def progressed(self, exchange: Exchange, params: Object) -> None:
        if exchange.token is not None:
            params["progressToken"] = exchange.token
            self._write(notification(methods.PROGRESS, seal(params)), exchange.key)

    # What upstreams tell that belongs to no exchange

    @abstractmethod
    def tell(self, method: str, params: bytes | Raw = b"") -> None:
        """A notification of an upstream's that anybody who sees it may hear."""

    @abstractmethod
    def tell_changed(self, kinds: Iterable[Kind], server: str | None = None) -> None:
        """Lists differ from what this client has seen; with a server: that one says so, whatever we see."""

    @abstractmethod
    def tell_updated(self, server: str, uri: str, params: Raw) -> None:
        """A resource of a server's is another now."""

    def followed(self) -> Iterable[tuple[str, str]]:
        """Server and URI there of all it wants to hear of."""
        return ()

    @property
    def wanted_level(self) -> tuple[int, bytes] | None:
        """The lowest level of log messages it wants, and the words it said so in."""
        return None

    def in_flight(self, port: Port) -> list[Exchange]:
        return [exchange for exchange in self._requests.values() if exchange.port is port]

    @abstractmethod
    def asked(self, question: Question, exchange: Exchange | None) -> None:
        """An upstream wants something of this client."""

    @abstractmethod
    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        """A notification that concerns this client, like a log message."""

    # Answers

    def _instructions(self) -> str:
        told = "\n\n".join(part for part in (self._house.notes(), self.view.instructions) if part)
        return told[:INSTRUCTIONS_LIMIT]

    def _reply(self, id: bytes, payload: bytes | Raw) -> None:
        self._settle(id_key(id), result(id, payload))

    def _reply_error(self, id: bytes, payload: bytes | Raw) -> None:
        self._settle(id_key(id), error(id, payload))

    def _refuse(self, id: bytes, code: int, message: str, data: object = None) -> None:
        self._reply_error(id, errors.error_object(code, message, data))

    def _settle(self, key: bytes, frame: bytes) -> None:
        """The last word about a request; none if the client has lost interest or is gone."""
        if self._requests.pop(key, self) is self or self._closed:
            return
        self._write(frame, key, True)
        if self._idle is not None and not self._requests and not self._idle.done():
            self._idle.set_result(None)


def capabilities_of(view: View) -> bytes:
    """What we declare; what we know nothing of passes only where a single upstream can be meant."""
    declared = {key: Raw(encode(value)) for key, value in CAPABILITIES.items()}
    return seal({**declared, **view.extras})


def _in_use() -> bytes:
    return errors.error_object(errors.INVALID_REQUEST, "Invalid Request: this id is already in use")
