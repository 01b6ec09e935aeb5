"""A request of the stateless era: one conversation for its length, answered by a body or by a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable

from gateway.eras.stateless import StatelessConversation
from gateway.exchange import Exchange
from gateway.protocol import errors, headers, methods
from gateway.protocol.frames import Frame, Malformed, error, id_key, open_object, text
from gateway.protocol.versions import META_VERSION
from servers.http import replies
from servers.http.sessions import GONE
from servers.http.streams import Stream
from servers.http.visit import Visit


class Listeners:
    """Conversations that last: each is one open `subscriptions/listen`."""

    def __init__(self) -> None:
        self._open: set[StatelessConversation] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, conversation: StatelessConversation) -> None:
        self._open.add(conversation)

    def remove(self, conversation: StatelessConversation) -> None:
        self._open.discard(conversation)

    def conclude(self, staying: Container[Hashable] = ()) -> None:
        """Each gets its last word, but for those who stay."""
        for conversation in list(self._open):
            if conversation.party not in staying:
                conversation.conclude()


def post(visit: Visit, frame: Frame, listeners: Listeners) -> None:
    """Answer one message."""
    link = visit.link
    if not frame.is_request:
        link.answer(202, ())  # there are no notifications of this era over HTTP, and clients send some all the same
        return
    id = frame.id
    lasting = frame.method == methods.LISTEN
    if lasting and len(listeners) >= visit.limits.sessions:
        replies.crowded(link)
        return
    if lasting and not visit.accepts(b"text/event-stream"):
        replies.refuse(link, 406, errors.INVALID_REQUEST, "Accept text/event-stream to listen", id=id)
        return
    stream = Stream()

    def write(frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        if stream.size > visit.limits.outbox:
            stream.discard()
            stream.cut()  # it does not read: its response ends, and with it all it has asked for
        stream.put(frame, last)

    conversation = StatelessConversation(
        visit.house, write, profile=visit.profile, party=visit.guest, check=lambda asked: _check(visit, asked)
    )
    if lasting:
        listeners.add(conversation)

    def done(_: bool) -> None:
        conversation.cancel(id_key(id), GONE)  # closing the response is how a client of this era cancels
        if lasting:
            listeners.remove(conversation)
            conversation.close()

    conversation.receive(frame)
    events = visit.accepts(b"text/event-stream")
    replies.Reply(stream, link, done, status=_status(id), events=events).begin()


def _check(visit: Visit, asked: Exchange) -> None:
    """What the headers of this era must say.

    Raises:
        Malformed: they do not.
    """
    if visit.twice is not None:
        raise Malformed(errors.HEADER_MISMATCH, f"The header {visit.twice} came more than once")
    version = text((asked.meta or {}).get(META_VERSION))
    if version is None:
        return  # that the body says none is the worse fault, and found next
    route = None
    if asked.method == methods.TOOLS_CALL:
        route = visit.house.registry.view(visit.profile).find("tools", text(asked.params.get("name")) or "")
    wanted = (route.mirrored if route is not None else None) or {}
    wrong = headers.mismatch(visit.headers, version, asked.method, asked.params, wanted)
    if wrong is not None:
        raise Malformed(errors.HEADER_MISMATCH, wrong)


def _status(id: bytes) -> Callable[[bytes], int]:
    """What the status of an answer to this request is."""
    begins = error(id, b"")[:-1]

    def status(answer: bytes) -> int:
        if not answer.startswith(begins):
            return 200
        try:
            code = open_object(open_object(answer)["error"]).get("code", b"0")
            return replies.status_of(int(bytes(code)))
        except (Malformed, ValueError):
            return 200

    return status
