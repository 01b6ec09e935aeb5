"""The stateless era, 2026-07-28: every request says who asks, and a server asks back in its answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar

from msgspec import Raw

from gateway.conversation import SERVER_INFO, Conversation, House, Write, capabilities_of
from gateway.eras.subscription import Subscription
from gateway.exchange import Client, Exchange, Port, Question, refusal
from gateway.parking import unknown_state
from gateway.protocol import errors, methods
from gateway.protocol.frames import (
    Malformed,
    Object,
    encode,
    notification,
    open_object,
    quote,
    recoded,
    request,
    seal,
    text,
)
from gateway.protocol.versions import (
    META_CAPABILITIES,
    META_CLIENT,
    META_LEVEL,
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    STATELESS_VERSIONS,
    Era,
)
from gateway.registry import Kind

_DONE = b'"resultType":"complete"'
_KEPT = b'"resultType":"complete","ttlMs":0,"cacheScope":"private"'
"""Of an answer whose era says nothing about how long it holds, and for whom."""
_META = encode({META_SERVER: SERVER_INFO})
_GONE = frozenset((methods.INITIALIZE, methods.PING, methods.SUBSCRIBE, methods.UNSUBSCRIBE, methods.SET_LEVEL))
"""Requests of the older era: nobody's, though an only upstream might know them."""


class StatelessDialect:
    """The upstream speaks the stateless era."""

    era: Era = "stateless"
    probe: str = methods.DISCOVER

    def __init__(self, version: str, client_info: object) -> None:
        self._version = quote(version)
        self._info = Raw(encode(client_info))

    def frame(self, exchange: Exchange, id: int) -> bytes:
        key = b"%d" % id
        opened = dict(exchange.params)
        meta = dict(exchange.meta) if exchange.meta is not None else open_object(opened.get("_meta", b""))
        if exchange.token is not None:
            meta["progressToken"] = Raw(key)
        self._introduce(meta, exchange.client)
        opened["_meta"] = Raw(seal(meta))
        return request(key, exchange.method, seal(opened))

    def _introduce(self, meta: Object, client: Client) -> None:
        """Say who asks, where the client has not said so itself."""
        if META_VERSION not in meta:
            meta[META_VERSION] = self._version
        if META_CAPABILITIES not in meta:
            meta[META_CAPABILITIES] = Raw(client.capabilities)
        if META_CLIENT not in meta:
            meta[META_CLIENT] = self._info
        if client.level is not None and META_LEVEL not in meta:
            meta[META_LEVEL] = quote(client.level)

    def answered(self, exchange: Exchange, result: Raw) -> None:
        # Looked for before it is looked into: nearly every answer is complete.
        if b"input_required" in bytes(result) and text(open_object(result).get("resultType")) == "input_required":
            exchange.caller.input_required(exchange, result)
        else:
            exchange.caller.finished(exchange, result, "stateless")


def speaks(params: Raw) -> bool:
    """Whether a request carries the envelope of this era."""
    if META_VERSION.encode() not in bytes(params):
        return False
    try:
        return META_VERSION in open_object(open_object(params).get("_meta", b""))
    except Malformed:
        return False


class StatelessConversation(Conversation):
    """A client that speaks the stateless era: over HTTP, for the length of one request."""

    era: ClassVar[Era] = "stateless"

    def __init__(
        self,
        house: House,
        write: Write,
        *,
        profile: str | None = None,
        party: Hashable = None,
        check: Callable[[Exchange], None] | None = None,
    ) -> None:
        """`check` looks at each request before anything of it is believed, and raises `Malformed`."""
        super().__init__(house, write, profile=profile, party=party if party is not None else self)
        self._check = check
        self._listening: dict[bytes, Subscription] = {}

    def _request(self, asked: Exchange, params: Raw) -> None:
        method = asked.method
        opened = asked.params = open_object(params)
        meta = asked.meta = open_object(opened.get("_meta", b""))
        if self._check is not None:
            self._check(asked)
        if method == methods.INITIALIZE and not speaks(params):
            data = {"supported": list(STATELESS_VERSIONS)}
            raise Malformed(errors.UNSUPPORTED_VERSION, "This connection speaks 2026-07-28: no initialize", data=data)
        check_envelope(meta)
        asked.token = meta.get("progressToken")
        asked.client = self._client_of(meta)
        self._house.upstreams.greet(bytes(meta[META_CAPABILITIES]))
        handler = self.REQUESTS.get(method)
        if handler is not None:
            handler(self, asked)
        elif method in _GONE:
            raise Malformed(errors.METHOD_NOT_FOUND, f"Method not found: {method}")
        else:
            self._vendor(asked)

    def close(self) -> None:
        for key in list(self._listening):
            self._unlisten(key)
        super().close()
        self._house.parking.leave(self)

    def _client_of(self, meta: Object) -> Client:
        level = text(meta.get(META_LEVEL))
        if level is not None:
            self._house.upstreams.relevel(level)
        return Client(bytes(meta[META_CAPABILITIES]), level)

    def _send(self, server: str, asked: Exchange, tool: str = "") -> None:
        state = text(asked.params.get("requestState")) if "requestState" in asked.params else None
        if state is None or not self._house.parking.holds(state):
            super()._send(server, asked, tool)  # an upstream's, which knows what it means
            return
        # Read before the call is claimed: a retry that cannot be read leaves it where it is.
        responses = open_object(asked.params.get("inputResponses", b""))
        for response in responses.values():
            open_object(response)
        parked = self._house.parking.claim(state, self.party, server, asked.method, asked.params)
        if parked is None:
            raise unknown_state()
        self._requests[asked.key] = parked.exchange
        parked.resume(asked, responses)

    # Requests of this era only

    def discover(self, asked: Exchange) -> None:
        answer: Object = {
            "resultType": Raw(b'"complete"'),
            "supportedVersions": Raw(encode(STATELESS_VERSIONS)),
            "capabilities": Raw(capabilities_of(self.view)),
            "ttlMs": Raw(b"0"),
            "cacheScope": Raw(b'"private"'),
            "_meta": Raw(_META),
        }
        told = self._instructions()
        if told:
            answer["instructions"] = quote(told)
        self._reply(asked.id, seal(answer))

    def listen(self, asked: Exchange) -> None:
        """The one request whose answer is a stream: it stays open until either side has had enough."""
        subscription = Subscription(asked.id, open_object(asked.params.get("notifications", b"")))
        self._listening[asked.key] = subscription
        self._house.members.join(self)
        self._write(notification(methods.ACKNOWLEDGED, subscription.acknowledgement()), asked.key)

        def begin() -> None:
            if self._listening.get(asked.key) is not subscription:
                return
            subscription.begin(self.view, self._resource)
            for server, uri in subscription.followed():
                self._house.upstreams.follow(server, uri)

        self._house.upstreams.when_settled(begin)

    def _unlisten(self, key: bytes) -> None:
        subscription = self._listening.pop(key, None)
        if subscription is None:
            return
        if not self._listening:
            self._house.members.leave(self)
        for server, uri in subscription.followed():
            self._house.upstreams.unfollow(server, uri)

    def conclude(self) -> None:
        for key, subscription in list(self._listening.items()):
            self._unlisten(key)
            self._reply(subscription.id, subscription.result())

    def cancel(self, key: bytes, words: Object) -> None:
        self._unlisten(key)
        super().cancel(key, words)

    # How answers are spelled

    def _listed(self, kind: Kind, array: bytes) -> bytes:
        view = self.view
        scope = b"public" if view.public else b"private"
        key = methods.RESULT_KEYS[kind].encode()
        return b'{"resultType":"complete","%b":%b,"ttlMs":%d,"cacheScope":"%b","_meta":%b}' % (
            key, array, view.ttl, scope, _META,
        )  # fmt: skip

    def _missing(self, id: bytes, uri: str) -> None:
        self._refuse(id, errors.INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})

    def finished(self, exchange: Exchange, result: Raw, era: Era) -> None:
        payload: bytes | Raw = result
        if era == "session":
            payload = completed(result, _KEPT if exchange.method == methods.RESOURCES_READ else _DONE)
        self._finish(exchange, payload)

    def _own(self, payload: bytes) -> bytes:
        return bytes(completed(payload, _DONE))

    def input_required(self, exchange: Exchange, result: Raw) -> None:
        self._reply(exchange.id, result)

    def refused(self, exchange: Exchange, error: Raw, era: Era) -> None:
        if era == "session" and exchange.method == methods.RESOURCES_READ:
            error = recoded(error, errors.RESOURCE_NOT_FOUND, errors.INVALID_PARAMS)
        self._reply_error(exchange.id, error)

    # What upstreams ask and tell

    def asked(self, question: Question, exchange: Exchange | None) -> None:
        """Answer the call it belongs to with the question, and keep the call until its retry."""
        if exchange is None:
            # One of them is asked for; whichever the client retries, the answer finds its question.
            exchange = next(reversed(self.in_flight(question.port)), None)
        if exchange is None:
            question.refuse(errors.INVALID_REQUEST, "There is no call of the client's that could ask it")
            return
        refused = refusal(question, exchange.client.capabilities)
        if refused is None and question.method not in methods.ASKS_FOR:
            refused = errors.METHOD_NOT_FOUND, f"The client knows no {question.method}"
        if refused is not None:
            question.refuse(*refused)
            return
        payload = self._house.parking.park(exchange, self.party, question)
        if payload is None:
            question.refuse(errors.INTERNAL_ERROR, "Too many calls wait for an answer")
        else:
            self._reply(exchange.id, payload)

    def notified(self, port: Port, method: str, params: Raw, exchange: Exchange | None) -> None:
        calls = [exchange] if exchange is not None else self.in_flight(port)
        if method == methods.MESSAGE:
            calls = [call for call in calls if _reaches(params, call.client.level)]
        if calls:
            self._write(notification(method, params), calls[-1].key)

    def tell(self, method: str, params: bytes | Raw = b"") -> None:
        for key, subscription in self._listening.items():
            self._write(notification(method, subscription.marked(params)), key)

    def tell_changed(self, kinds: Iterable[Kind], server: str | None = None) -> None:
        for key, subscription in self._listening.items():
            for method in subscription.changed(kinds, self.view, server):
                self._write(notification(method, subscription.marked(b"")), key)

    def tell_updated(self, server: str, uri: str, params: Raw) -> None:
        for key, subscription in self._listening.items():
            shown = subscription.shown(server, uri, self.view)
            if shown is not None:
                told = seal({**open_object(params), "uri": quote(shown)})
                self._write(notification(methods.UPDATED, subscription.marked(told)), key)

    def followed(self) -> Iterable[tuple[str, str]]:
        return [followed for subscription in self._listening.values() for followed in subscription.followed()]

    REQUESTS: ClassVar[dict[str, Callable[..., None]]] = {
        methods.DISCOVER: discover,
        methods.LISTEN: listen,
        methods.TOOLS_LIST: Conversation.list_tools,
        methods.PROMPTS_LIST: Conversation.list_prompts,
        methods.RESOURCES_LIST: Conversation.list_resources,
        methods.TEMPLATES_LIST: Conversation.list_templates,
        methods.TOOLS_CALL: Conversation.call_tool,
        methods.PROMPTS_GET: Conversation.get_prompt,
        methods.RESOURCES_READ: Conversation.read,
        methods.COMPLETE: Conversation.complete,
    }
    NOTIFICATIONS: ClassVar[dict[str, Callable[..., None]]] = {methods.CANCELLED: Conversation.cancelled}


def check_envelope(meta: Object) -> None:
    """Whether a request's `_meta` says what it must in this era.

    Raises:
        Malformed: it does not, or wants a version we do not speak.
    """
    if META_VERSION not in meta or META_CAPABILITIES not in meta:
        missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in meta]
        raise Malformed(errors.INVALID_PARAMS, f"Invalid params: _meta lacks {', '.join(missing)}")
    version = text(meta[META_VERSION])
    if version is None:
        raise Malformed(errors.INVALID_PARAMS, f"Invalid params: {META_VERSION} must be a string")
    if version not in STATELESS_VERSIONS:
        data = {"supported": list(STATELESS_VERSIONS), "requested": version}
        raise Malformed(errors.UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)
    open_object(meta[META_CAPABILITIES])


def completed(result: bytes | Raw, members: bytes) -> bytes | Raw:
    """A result of the older era with what this one requires, put before the rest, which is not looked into."""
    whole = bytes(result)
    if b'"resultType"' in whole or not whole.startswith(b"{"):
        return _completed_slowly(result, members)
    rest = whole[1:]
    return b"{" + members + (b"}" if rest[:64].strip() == b"}" else b"," + rest)


def _completed_slowly(result: bytes | Raw, members: bytes) -> bytes | Raw:
    try:
        return seal({**open_object(b"{" + members + b"}"), **open_object(result)})
    except Malformed:
        return result


def _reaches(params: Raw, wanted: str | None) -> bool:
    """Whether a log message is one that its request asked for: none are sent unasked."""
    level = text(open_object(params).get("level")) or ""
    if wanted not in methods.LEVELS:
        return False
    return level not in methods.LEVELS or methods.LEVELS.index(level) >= methods.LEVELS.index(wanted)


def unmarked(params: Raw) -> Raw:
    """A notification's params without the mark of the stream it came on, which is ours alone."""
    if META_SUBSCRIPTION.encode() not in bytes(params):
        return params
    opened = open_object(params)
    meta = open_object(opened.get("_meta", b""))
    if meta.pop(META_SUBSCRIPTION, None) is None:
        return params
    if meta:
        opened["_meta"] = Raw(seal(meta))
    else:
        opened.pop("_meta", None)
    return Raw(seal(opened))
