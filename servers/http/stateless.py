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


async def post(visit: Visit, frame: Frame, twice: str | None, listeners: Listeners) -> None:
    """Answer one message; `twice` names a header that came more than once."""
    if not frame.is_request:
        # There are no notifications of this era over HTTP, and clients send some all the same.
        await replies.body(visit.link, 202, headers=())
        return
    id = frame.id
    lasting = frame.method == methods.LISTEN
    if lasting and len(listeners) >= visit.limits.sessions:
        await replies.crowded(visit.link)
        return
    if lasting and not visit.accepts(b"text/event-stream"):
        await replies.refuse(visit.link, 406, errors.INVALID_REQUEST, "Accept text/event-stream to listen", id=id)
        return
    stream = Stream()

    def write(frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        if stream.size > visit.limits.outbox:
            stream.discard()
            stream.cut()  # it does not read: its response ends, and with it all it has asked for
        stream.put(frame, last)

    conversation = StatelessConversation(
        visit.house, write, profile=visit.profile, party=visit.guest, check=lambda asked: _check(visit, asked, twice)
    )
    if lasting:
        listeners.add(conversation)
    try:
        conversation.receive(frame)
        events = visit.accepts(b"text/event-stream")
        await replies.answer(stream, visit.link, status=_status(id), events=events)
    finally:
        conversation.cancel(id_key(id), GONE)  # closing the response is how a client of this era cancels
        if lasting:
            listeners.remove(conversation)
            conversation.close()


def _check(visit: Visit, asked: Exchange, twice: str | None) -> None:
    """What the headers of this era must say.

    Raises:
        Malformed: they do not.
    """
    if twice is not None:
        raise Malformed(errors.HEADER_MISMATCH, f"The header {twice} came more than once")
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
        code = open_object(open_object(answer)["error"]).get("code", b"0")
        try:
            return replies.status_of(int(bytes(code)))
        except ValueError:
            return 200

    return status
