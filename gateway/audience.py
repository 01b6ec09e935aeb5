"""Who hears what belongs to no exchange: questions, logs, subscriptions, list_changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Protocol

from msgspec import Raw

from gateway.conversation import Conversation
from gateway.eras.subscription import covers
from gateway.exchange import Caller, Exchange, Port, Question
from gateway.protocol import errors, methods
from gateway.protocol.frames import Frame, open_object, text
from gateway.registry import KINDS, Kind

COALESCE = 0.05
"""Seconds in which several changes of our own become one notice."""
NO_ROOTS = Raw(b'{"roots":[]}')


class SharedPort(Port, Protocol):
    @property
    def owner(self) -> Caller | None:
        """The one client it serves, if it serves only one."""
        ...

    def callers(self) -> Set[Caller]:
        """Whose calls are in flight there."""
        ...


class Audience:
    """All clients that are connected now and can be spoken to unasked."""

    def __init__(self, later: Callable[[float, Callable[[], None]], object], *, single: bool) -> None:
        self._later = later
        self._single = single
        """The one client of a stdio endpoint: whatever comes can only be meant for it."""
        self._members: dict[Conversation, None] = {}
        self._changed: set[Kind] = set()

    def __len__(self) -> int:
        return len(self._members)

    def join(self, member: Conversation) -> None:
        self._members[member] = None

    def leave(self, member: Conversation) -> None:
        self._members.pop(member, None)

    def asked(self, port: SharedPort, question: Question, origin: Exchange | None) -> None:
        """An upstream wants something of a client: of the right one or of none."""
        caller = self._whose(port, origin)
        if caller is not None:
            caller.asked(question, origin)
        elif question.method == methods.ROOTS_LIST:
            question.answered(Frame(result=NO_ROOTS))  # nobody's directories may reach another
        else:
            message = f"{question.method} refused: it is not clear which client is meant"
            question.refuse(errors.INVALID_REQUEST, message)

    def told(self, port: SharedPort, method: str, params: Raw, origin: Exchange | None) -> None:
        """An upstream's notification, to those it concerns."""
        if method == methods.UPDATED:
            self._updated(port.name, params)
        elif method == methods.MESSAGE or origin is not None or port.owner is not None:
            caller = self._whose(port, origin)
            if caller is not None:
                caller.notified(port, method, params, origin)
        else:
            for member in self._seeing(port.name):
                member.tell(method, params)

    def changed(self, kinds: Iterable[Kind]) -> None:
        """Lists changed by what the gateway did: told soon, once, and only to who sees a difference."""
        if not self._changed and kinds:
            self._later(COALESCE, self._tell_changed)
        self._changed |= set(kinds)

    def announced(self, server: str, kinds: Iterable[Kind]) -> None:
        """An upstream says that its lists changed: always passed on."""
        for member in self._seeing(server):
            member.tell_changed(set(kinds), server)

    def followed(self, server: str) -> set[str]:
        """The URIs, as the server knows them, that somebody follows."""
        return {uri for member in self._members for owner, uri in member.followed() if owner == server}

    def level(self) -> tuple[int, bytes] | None:
        """The lowest level of log messages that anybody has asked for, in their words."""
        wanted = [member.wanted_level for member in self._members]
        return min((level for level in wanted if level is not None), default=None)

    def _tell_changed(self) -> None:
        kinds, self._changed = self._changed, set[Kind]()
        for member in list(self._members):
            member.tell_changed([kind for kind in KINDS if kind in kinds])

    def _whose(self, port: SharedPort, origin: Exchange | None) -> Caller | None:
        if origin is not None:
            return origin.caller
        if port.owner is not None:
            return port.owner
        callers = port.callers()
        if len(callers) == 1:
            return next(iter(callers))
        return next(iter(self._seeing(port.name)), None) if self._single and not callers else None

    def _seeing(self, server: str) -> list[Conversation]:
        return [member for member in self._members if member.view.hears(server)]

    def _updated(self, server: str, params: Raw) -> None:
        uri = text(open_object(params).get("uri")) or ""
        for member in self._seeing(server):
            if self._single or any(covers(followed, server, uri) for followed in member.followed()):
                member.tell_updated(server, uri, params)
