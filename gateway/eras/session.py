"""The session era, 2024-11-05 to 2025-11-25: `initialize` once, then requests both ways."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar

from msgspec import Raw

from gateway.batches import Batches
from gateway.conversation import SERVER_INFO, Conversation, House, Write, capabilities_of
from gateway.eras.rounds import Rounds
from gateway.exchange import NOBODY, Client, Exchange, Port, Question, refusal
from gateway.parking import unknown_state
from gateway.protocol import errors, methods
from gateway.protocol.frames import (
    NOTHING,
    Frame,
    Malformed,
    Object,
    encode,
    notification,
    open_object,
    quote,
    recoded,
    request,
    seal,
    string,
    text,
)
from gateway.protocol.versions import BATCHES, META_CAPABILITIES, META_CLIENT, META_LEVEL, META_VERSION, Era, negotiate
from gateway.questions import Questions
from gateway.registry import KINDS, Kind, Route

STATELESS_META = (META_VERSION, META_CAPABILITIES, META_CLIENT, META_LEVEL)
STATELESS_RESULT = ("resultType", "ttlMs", "cacheScope")
EMPTY = Raw(b"{}")
_OF_THE_NEWER = frozenset((methods.DISCOVER, methods.LISTEN))
"""Requests of the newer era: nobody's, though an only upstream might know them."""


class SessionDialect:
    """The upstream speaks the session era."""

    era: Era = "session"
    probe: str = methods.PING

    def frame(self, exchange: Exchange, id: int) -> bytes:
        key = b"%d" % id
        if exchange.bare:
            return request(key, exchange.method)
        params, meta = exchange.params, exchange.meta
        if meta is not None:
            if exchange.token is not None:
                meta["progressToken"] = Raw(key)
                params["_meta"] = Raw(seal(meta))
            if META_VERSION in meta:
                if bytes(params.get("requestState", b"null")) != b"null":
                    raise unknown_state()  # a server of this era issues none, and would execute the call anew
                params = {**params, "_meta": Raw(seal({k: v for k, v in meta.items() if k not in STATELESS_META}))}
        return request(key, exchange.method, seal(params))

    def answered(self, exchange: Exchange, result: Raw) -> None:
        exchange.caller.finished(exchange, result, "session")


class SessionConversation(Conversation):
    """A client that speaks the session era."""

    era: ClassVar[Era] = "session"

    def __init__(self, house: House, write: Write, *, profile: str | None = None, party: Hashable = None) -> None:
        super().__init__(house, write, profile=profile, party=party if party is not None else self)
        self.version: str | None = None
        self.level: int | None = None
        self._level_words = b""
        self.subscriptions: dict[str, tuple[str, str]] = {}
        """Server and URI there, by the URI the client knows."""
        self._client = NOBODY
        self._batches = Batches(write)
        self._questions = Questions(write)
        self._rounds = Rounds(self._questions, self._retry, lambda exchange, raw: self._reply_error(exchange.id, raw))
        self._seen: dict[Kind, bytes] = {}

    @property
    def client(self) -> Client:
        return self._client

    @property
    def open(self) -> bool:
        """It has introduced itself, so it may be spoken to."""
        return self.version is not None and not self._closed

    def close(self) -> None:
        super().close()
        self._questions.close()
        for server, uri in self.subscriptions.values():
            self._house.upstreams.unfollow(server, uri)

    def cancel(self, key: bytes, words: Object) -> None:
        super().cancel(key, words)
        self._batches.left(key)

    def _received_batch(self, parts: list[Frame | Malformed]) -> None:
        if self.version != BATCHES:
            super()._received_batch(parts)
            return
        for frame in self._batches.opened(parts, self._requests):
            self.receive(frame)

    def _request(self, asked: Exchange, params: Raw) -> None:
        method = asked.method
        opened = asked.params = open_object(params)
        if "_meta" in opened:
            meta = asked.meta = open_object(opened["_meta"])
            asked.token = meta.get("progressToken")
        asked.client = self._client
        handler = self.REQUESTS.get(method)
        if handler is None:
            asked.bare = not params
            self._unknown(asked)
        elif self.version is None and method not in (methods.INITIALIZE, methods.PING):
            raise Malformed(errors.INVALID_REQUEST, f"{method} before initialize: send initialize first")
        else:
            handler(self, asked)

    def _unknown(self, asked: Exchange) -> None:
        if self.version is None or asked.method in _OF_THE_NEWER:
            raise Malformed(errors.METHOD_NOT_FOUND, f"Method not found: {asked.method}")
        self._vendor(asked)

    def _told(self, frame: Frame) -> None:
        if frame.method in self.NOTIFICATIONS or self.open:
            super()._told(frame)

    def _answered(self, frame: Frame) -> None:
        self._questions.answered(frame)

    # Requests of this era only

    def initialize(self, asked: Exchange) -> None:
        declared = asked.params.get("capabilities", EMPTY)
        open_object(declared)
        wanted = string(asked.params, "protocolVersion") if "protocolVersion" in asked.params else None
        again = self.version is not None
        self.version = negotiate(wanted)
        self._client = Client(bytes(declared), "info")
        if self.version == BATCHES:
            self._write = self._batches.write
        answer: Object = {
            "protocolVersion": quote(self.version),
            "capabilities": Raw(capabilities_of(self.view)),
            "serverInfo": Raw(encode(SERVER_INFO)),
        }
        told = self._instructions()
        if told:
            answer["instructions"] = quote(told)
        self._reply(asked.id, seal(answer))
        if not again:
            self._house.upstreams.greet(bytes(declared))

    def ping(self, asked: Exchange) -> None:
        self._reply(asked.id, b"{}")

    def subscribe(self, asked: Exchange) -> None:
        shown = string(asked.params, "uri")

        def follow(route: Route) -> None:
            self.subscriptions[shown] = route.server, route.name

        self._by_uri(asked, follow)

    def unsubscribe(self, asked: Exchange) -> None:
        server, uri = self.subscriptions.pop(string(asked.params, "uri"), ("", ""))
        if self._house.upstreams.followed(server, uri):
            self._reply(asked.id, b"{}")  # another client still wants to hear of it
        else:
            self._by_uri(asked)

    def set_level(self, asked: Exchange) -> None:
        level = string(asked.params, "level")
        if level not in methods.LEVELS:
            raise Malformed(errors.INVALID_PARAMS, f"Invalid params: unknown level {level}")
        self.level = methods.LEVELS.index(level)
        self._level_words = seal(asked.params)
        self._client = Client(self._client.capabilities, level)
        self._house.upstreams.relevel()
        self._reply(asked.id, b"{}")

    def _retry(self, exchange: Exchange) -> None:
        """Send a request again that an upstream has asked to; unless the client has lost interest."""
        if self._requests.get(exchange.key) is exchange:
            self._house.upstreams.dispatch(exchange.server, exchange)

    # Notifications of this era only

    def ignore(self, params: Object) -> None:
        return

    def progress(self, params: Object) -> None:
        self._questions.progressed(params)

    def roots_changed(self, params: Object) -> None:
        self._house.upstreams.roots_changed(self, seal(params) if params else b"")

    # How answers are spelled

    def _listed(self, kind: Kind, array: bytes) -> bytes:
        self._seen[kind] = array
        return b'{"%b":%b}' % (methods.RESULT_KEYS[kind].encode(), array)

    def _missing(self, id: bytes, uri: str) -> None:
        self._refuse(id, errors.RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        self._finish(exchange, result if era == "session" else plain(result))

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        self._rounds.begin(exchange, result)

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        if exchange.method == methods.SUBSCRIBE:
            self.subscriptions = {
                shown: (server, uri)
                for shown, (server, uri) in self.subscriptions.items()
                if server != exchange.server or quote(uri) != _uri(exchange)
            }
        if era == "stateless" and exchange.method == methods.RESOURCES_READ:
            error = recoded(error, errors.INVALID_PARAMS, errors.RESOURCE_NOT_FOUND)
        self._reply_error(exchange.id, error)

    # What upstreams ask and tell

    def asked(self, question: Question, exchange: Exchange | None) -> None:
        refused = refusal(question, self._client.capabilities) if self.open else _NOBODY_THERE
        if refused is not None:
            question.refuse(*refused)
            return
        meanwhile = self.in_flight(question.port)
        if exchange is None and len(meanwhile) == 1:
            exchange = meanwhile[0]
        self._questions.ask(question, meanwhile, exchange)

    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        if not self.open or not self.view.hears(port.name):
            return
        if method == methods.MESSAGE and not _reaches(params, self.level or 0):
            return
        meanwhile = [exchange] if exchange is not None else self.in_flight(port)
        about = meanwhile[0].key if len(meanwhile) == 1 else None
        self._write(notification(method, params), about)

    @property
    def wanted_level(self) -> tuple[int, bytes] | None:
        return None if self.level is None else (self.level, self._level_words)

    def tell(self, method: str, params: bytes | Raw = b"") -> None:
        if self.open:
            self._write(notification(method, params))

    def tell_changed(self, kinds: Iterable[Kind], server: str | None = None) -> None:
        view = self.view
        due: dict[str, None] = {}
        for kind in KINDS:
            if kind not in kinds:
                continue
            array = view.array(kind)
            if server in view.servers if server is not None else kind in self._seen and self._seen[kind] != array:
                due[methods.CHANGED[kind]] = None
            if kind in self._seen:
                self._seen[kind] = array
        for method in due:
            self.tell(method)

    def tell_updated(self, server: str, uri: str, params: Raw) -> None:
        asked = (shown for shown, followed in self.subscriptions.items() if followed == (server, uri))
        shown = next(asked, None) or self.view.outward(server, uri)
        if shown == uri:
            self.tell(methods.UPDATED, params)
        else:
            self.tell(methods.UPDATED, seal({**open_object(params), "uri": quote(shown)}))

    def followed(self) -> Iterable[tuple[str, str]]:
        return self.subscriptions.values()

    REQUESTS: ClassVar[dict[str, Callable[..., None]]] = {
        methods.INITIALIZE: initialize,
        methods.PING: ping,
        methods.TOOLS_LIST: Conversation.list_tools,
        methods.PROMPTS_LIST: Conversation.list_prompts,
        methods.RESOURCES_LIST: Conversation.list_resources,
        methods.TEMPLATES_LIST: Conversation.list_templates,
        methods.TOOLS_CALL: Conversation.call_tool,
        methods.PROMPTS_GET: Conversation.get_prompt,
        methods.RESOURCES_READ: Conversation.read,
        methods.SUBSCRIBE: subscribe,
        methods.UNSUBSCRIBE: unsubscribe,
        methods.COMPLETE: Conversation.complete,
        methods.SET_LEVEL: set_level,
    }
    NOTIFICATIONS: ClassVar[dict[str, Callable[..., None]]] = {
        methods.INITIALIZED: ignore,
        methods.CANCELLED: Conversation.cancelled,
        methods.PROGRESS: progress,
        methods.ROOTS_CHANGED: roots_changed,
    }


_NOBODY_THERE = (errors.INVALID_REQUEST, "There is no client yet to be asked")


def plain(result: Raw) -> Raw:
    """A stateless upstream's result as a client of the session era knows it."""
    opened = open_object(result)
    for name in STATELESS_RESULT:
        opened.pop(name, None)
    return Raw(seal(opened))


def _reaches(params: Raw, lowest: int) -> bool:
    level = text(open_object(params).get("level")) or ""
    return level not in methods.LEVELS or methods.LEVELS.index(level) >= lowest


def _uri(exchange: Exchange) -> Raw:
    return exchange.params.get("uri", NOTHING)
