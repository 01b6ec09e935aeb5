"""Sessions of the older era: one conversation each, and the streams its frames go out on."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from time import monotonic

from gateway.conversation import House
from gateway.eras.session import SessionConversation
from gateway.protocol import methods
from gateway.protocol.frames import Frame, Malformed, Object, quote
from servers.http.door import Guest
from servers.http.streams import Memory, Stream

UNHEARD = 256 * 1024
"""Bytes kept for a client that has no stream open to hear what belongs to no request."""
STREAMS = 64
"""Finished streams that a session keeps for a client that comes back for the rest."""
GONE: Object = {"reason": quote("the client disconnected")}


@dataclass(frozen=True, slots=True)
class Limits:
    body: int = 4 * 1024 * 1024
    sessions: int = 10_000
    idle: float = 1800.0
    outbox: int = 16 * 1024 * 1024
    """Bytes a client may leave unread; at half of it we stop taking its requests."""
    resume: float = 30.0
    """Seconds a client has to come back for the answer of a stream it lost."""
    headers: float = 10.0
    """Seconds for the headers of a request to come."""
    arrival: float = 30.0
    """Seconds for its body."""
    kept: float = 75.0
    """Seconds a connection is kept for the next request."""


class Session:
    """One client's. Frames go out on the stream of the request they belong to, else on the common one."""

    def __init__(
        self, house: House, guest: Guest, profile: str | None, limits: Limits, *, merged: bool = False
    ) -> None:
        """`merged` is the older transport, whose only stream carries everything."""
        self.id = secrets.token_urlsafe(24)
        self.guest = guest
        self.profile = profile
        self.used = monotonic()
        self.open_responses = 0
        self.ended = False
        self._memory = None if merged else Memory()
        self.common = Stream(0, moved=self._count, memory=self._memory)
        self.conversation = SessionConversation(house, self.write, profile=profile)
        self._house = house
        self._limits = limits
        self._merged = merged
        self._streams: dict[bytes, Stream] = {}
        self._numbered: dict[int, Stream] = {0: self.common}
        self._last = 0
        self.queued = 0
        """Bytes that the client has not read yet."""
        self._held: list[Callable[[], None]] = []
        """Requests that are not taken before there is room for their answers."""
        house.members.join(self.conversation)

    def in_use(self, key: bytes) -> bool:
        """Whether a request with this id is under way."""
        return key in self._streams

    def stream_for(self, keys: Iterable[bytes]) -> Stream:
        """A stream for the answers to these requests, none of which is in use."""
        self._last += 1
        stream = Stream(self._last, moved=self._count, memory=self._memory)
        stream.keys = tuple(keys)
        self._streams.update(dict.fromkeys(stream.keys, stream))
        self._numbered[stream.number] = stream
        if len(self._numbered) > STREAMS:
            finished = [kept for kept in self._numbered.values() if kept.ended and kept.reader is None]
            for kept in finished[: max(0, len(finished) - STREAMS)]:
                self.forget(kept)
        return stream

    def receive(self, message: Frame | list[Frame | Malformed]) -> None:
        self.conversation.receive(message)
        parts = message if isinstance(message, list) else (message,)
        if any(isinstance(part, Frame) and part.method == methods.CANCELLED for part in parts):
            self._end_cancelled()

    def numbered(self, number: int) -> Stream | None:
        return self._numbered.get(number)

    def write(self, frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        if self.queued > self._limits.outbox:
            # What was there before counts: one frame, however large, is no sign of a client that does not read.
            self.cut()
            return
        stream = self._streams.get(about, self.common) if about is not None else self.common
        if stream.bare and not last:
            stream = self.common
        if self._merged or stream is self.common:
            self.common.put(frame)
            if self.common.reader is None:
                self.common.trim(UNHEARD)
            return
        stream.put(frame, last)
        if last:
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        for key in stream.keys:
            self._streams.pop(key, None)

    def forget(self, stream: Stream) -> None:
        """Nobody can come back for it."""
        self._drop(stream)
        self._numbered.pop(stream.number, None)
        stream.discard()

    def _end_cancelled(self) -> None:
        """The client has lost interest in some request: a response whose requests are all gone is over."""
        for stream in set(self._streams.values()):
            if not any(self.conversation.awaits(key) for key in stream.keys):
                self._drop(stream)
                stream.end()

    def abandon(self, stream: Stream, later: Callable[[float, Callable[[], None]], object]) -> None:
        """The client of a response is gone: its requests end with it, unless it can come back for the answer."""

        def give_up() -> None:
            if stream.reader is None:
                for key in stream.keys:
                    if self._streams.get(key) is stream:
                        self.conversation.cancel(key, GONE)
                self.forget(stream)

        if stream.reader is None:
            if stream.marked:
                later(self._limits.resume, give_up)
            else:
                give_up()

    def when_room(self, then: Callable[[], None]) -> None:
        """Call back when the client has read enough of what it asked for to ask for more, or the session is over."""
        if self.queued <= self._limits.outbox // 2 or self.ended:
            then()
        else:
            self._held.append(then)

    def enter(self) -> None:
        """A response begins."""
        self.open_responses += 1

    def leave(self) -> None:
        """It has ended; from now on the session may be idle."""
        self.open_responses -= 1
        self.used = monotonic()

    def idle_since(self) -> float | None:
        """When it was last used; `None` while it is."""
        return self.used if not self.open_responses and not self._streams else None

    def end(self, *, quietly: bool = True) -> None:
        """Nothing of it goes on; `quietly`: nor does anybody hear what is not sent yet."""
        if self.ended:
            return
        self.ended = True
        self._house.members.leave(self.conversation)  # first: what it followed is unfollowed if nobody else does
        self.conversation.close()
        self._house.issuers.pop(self.conversation, None)
        for stream in {*self._streams.values(), *self._numbered.values()}:
            if quietly:
                stream.discard()
            else:
                stream.end()
        self._streams.clear()
        self._numbered.clear()
        self._readmit()

    def cut(self) -> None:
        """End it, and with it the connections of a client that does not read."""
        streams = {*self._streams.values(), *self._numbered.values()}
        self.end()
        for stream in streams:
            stream.cut()

    def _count(self, bytes: int) -> None:
        self.queued += bytes
        if self._held and self.queued <= self._limits.outbox // 2:
            self._readmit()

    def _readmit(self) -> None:
        held, self._held = self._held, []
        for then in held:
            asyncio.get_running_loop().call_soon(self.when_room, then)


class Sessions:
    """All sessions, bounded in number; those nobody uses any more are ended."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """Bytes that clients have not read yet."""
        return sum(session.queued for session in self._sessions.values())

    @property
    def full(self) -> bool:
        return len(self._sessions) >= self._limits.sessions

    def add(self, session: Session) -> None:
        self._sessions[session.id] = session

    def find(self, id: str, guest: Guest, profile: str | None) -> Session | None:
        """A session of this guest's: another's is as good as none."""
        session = self._sessions.get(id)
        if session is None or session.guest != guest or session.profile != profile:
            return None
        if session.ended:
            self.remove(session)
            return None
        session.used = monotonic()
        return session

    def of_guest(self, id: str, guest: Guest) -> Session | None:
        """A session of this guest's, at whichever address it was opened."""
        session = self._sessions.get(id)
        return None if session is None else self.find(id, guest, session.profile)

    def remove(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        session.end()

    def conclude(self) -> None:
        """We are about to end: no stream goes on, but each is sent to its end."""
        for session in list(self._sessions.values()):
            self._sessions.pop(session.id)
            session.end(quietly=False)

    def sweep(self) -> None:
        """End what nobody uses."""
        oldest = monotonic() - self._limits.idle
        for session in list(self._sessions.values()):
            since = session.idle_since()
            if session.ended or (since is not None and since < oldest):
                self.remove(session)

    def expel(self, welcome: Container[Guest]) -> None:
        """End the sessions of whoever may not come in any more."""
        for session in list(self._sessions.values()):
            if session.guest not in welcome:
                self.remove(session)
