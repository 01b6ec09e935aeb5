"""The session era over Streamable HTTP: a session for many requests, each answered where it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.protocol import errors, headers, methods
from gateway.protocol.frames import Frame, Malformed, id_key
from gateway.protocol.versions import BATCHES
from servers.http import replies
from servers.http.sessions import Session
from servers.http.streams import place
from servers.http.visit import Visit

PRIMED = "2025-11-25"
"""The first version whose clients understand an event that only marks a place."""
NO_REQUEST = b""
"""What a batch is answered under that holds no request to name it by."""
_SESSION = headers.SESSION.lower().encode()
_LAST_EVENT = headers.LAST_EVENT.lower().encode()


def post(visit: Visit, message: Frame | list[Frame | Malformed]) -> None:
    """Answer one message, or a batch."""
    session = _session(visit, message)
    if session is None:
        return
    mark = (_SESSION, session.id.encode())
    if not _wants_answer(message):
        session.receive(message)
        visit.link.answer(202, (mark,))
        return
    session.enter()

    def take() -> None:
        if session.ended:
            _unknown(visit)
            left()
        elif visit.link.gone:
            left()
        else:
            _answer(visit, session, message, mark, left)

    def left() -> None:
        session.leave()
        if session.conversation.version is None:
            visit.sessions.remove(session)  # it never came to be

    session.when_room(take)


def _answer(
    visit: Visit,
    session: Session,
    message: Frame | list[Frame | Malformed],
    mark: tuple[bytes, bytes],
    left: Callable[[], None],
) -> None:
    free = [key for key in _keys(message) if not session.in_use(key)]
    if not isinstance(message, list) and not free:
        words = "Invalid Request: this id is already in use"
        replies.refuse(visit.link, 400, errors.INVALID_REQUEST, words, id=message.id)
        left()
        return
    if isinstance(message, list) and session.conversation.version != BATCHES:
        words = f"Invalid Request: batches exist in {BATCHES} only"
        replies.refuse(visit.link, 400, errors.INVALID_REQUEST, words)
        left()
        return
    stream = session.stream_for(free or [NO_REQUEST])
    events = visit.accepts(b"text/event-stream")
    stream.bare = not events

    def done(whole: bool) -> None:
        if not whole:
            session.abandon(stream, asyncio.get_running_loop().call_later)
        elif not stream.marked:
            session.forget(stream)
        left()

    session.receive(message)
    primed = (session.conversation.version or "") >= PRIMED
    replies.Reply(stream, visit.link, done, headers=(mark,), primed=primed, events=events).begin()


def _wants_answer(message: Frame | list[Frame | Malformed]) -> bool:
    if isinstance(message, Frame):
        return message.is_request
    return any(isinstance(part, Malformed) or part.is_request for part in message)


def _keys(message: Frame | list[Frame | Malformed]) -> list[bytes]:
    """The requests in it."""
    if isinstance(message, Frame):
        return [id_key(message.id)]
    return [id_key(part.id) for part in message if isinstance(part, Frame) and part.is_request]


def get(visit: Visit) -> None:
    """The stream for what belongs to no request; or the rest of one that was lost."""
    session = _known(visit)
    if session is None:
        _unknown(visit)
        return
    if not visit.accepts(b"text/event-stream"):
        replies.refuse(visit.link, 406, errors.INVALID_REQUEST, "Accept text/event-stream to listen")
        return
    stream, first = session.common, list[bytes]()
    seen = place(visit.headers.get(_LAST_EVENT, b"").decode("latin-1"))
    if seen is not None:
        found = session.numbered(seen[0])
        if found is not None:
            stream, first = found, found.since(seen[1])
    primed = (session.conversation.version or "") >= PRIMED
    session.enter()

    def done(whole: bool) -> None:
        if not whole and stream is not session.common:
            session.abandon(stream, asyncio.get_running_loop().call_later)
        session.leave()

    mark = (_SESSION, session.id.encode())
    replies.follow(stream, visit.link, done, headers=(mark,), primed=primed and not first, first=first)


def delete(visit: Visit) -> None:
    session = _known(visit)
    if session is None:
        _unknown(visit)
        return
    visit.sessions.remove(session)
    visit.link.answer(200, ())


def _known(visit: Visit) -> Session | None:
    id = visit.headers.get(_SESSION)
    return None if id is None else visit.sessions.find(id.decode("latin-1"), visit.guest, visit.profile)


def _unknown(visit: Visit) -> None:
    if _SESSION in visit.headers:
        replies.refuse(visit.link, 404, errors.INVALID_REQUEST, "Session not found")
    else:
        replies.refuse(visit.link, 400, errors.INVALID_REQUEST, "Missing session ID: send initialize first")


def _session(visit: Visit, message: Frame | list[Frame | Malformed]) -> Session | None:
    """The session a message belongs to, a new one for `initialize`."""
    session = _known(visit)
    if session is not None:
        return session
    opening = isinstance(message, Frame) and message.is_request and message.method == methods.INITIALIZE
    if not opening or _SESSION in visit.headers:
        _unknown(visit)
        return None
    if visit.sessions.full:
        replies.crowded(visit.link)
        return None
    session = Session(visit.house, visit.guest, visit.profile, visit.limits)
    visit.sessions.add(session)
    return session
