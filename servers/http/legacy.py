"""The older HTTP+SSE transport: one stream for everything, and an address to post to."""

from __future__ import annotations

from urllib.parse import parse_qs

from gateway.protocol import errors
from gateway.protocol.frames import decode
from servers.http import replies
from servers.http.sessions import Session
from servers.http.streams import event
from servers.http.visit import Visit


def listen(visit: Visit) -> None:
    """The stream; the session lasts as long as it does."""
    if visit.sessions.full:
        replies.crowded(visit.link)
        return
    session = Session(visit.house, visit.guest, visit.profile, visit.limits, merged=True)
    visit.sessions.add(session)
    address = f"/messages?session_id={session.id}"
    session.enter()

    def done(_: bool) -> None:
        visit.sessions.remove(session)

    replies.follow(session.common, visit.link, done, first=(event(address.encode(), kind=b"endpoint"),))


def message(visit: Visit, body: bytes) -> None:
    """One message of the client's; its answer goes out on the stream."""
    (id,) = parse_qs(visit.query.decode("latin-1")).get("session_id", [""])[:1]
    session = visit.sessions.of_guest(id, visit.guest)
    if session is None:
        replies.refuse(visit.link, 404, errors.INVALID_REQUEST, "Session not found")
        return
    content = decode(body)

    def take() -> None:
        session.receive(content)
        visit.link.answer(202, ((b"content-type", b"text/plain"),), b"Accepted")

    session.when_room(take)
