"""A client of whom nothing is known yet: its first request decides the era it is spoken to in."""

from __future__ import annotations

from collections.abc import Callable

from gateway.conversation import Conversation, House, Write
from gateway.eras.session import SessionConversation
from gateway.eras.stateless import StatelessConversation, check_envelope, speaks
from gateway.protocol import errors, methods
from gateway.protocol.frames import Frame, Malformed, error, open_object


class Opening:
    """Takes frames until one is a request, then hands over to a conversation of that era."""

    def __init__(
        self, house: House, write: Write, opened: Callable[[Conversation], None], *, profile: str | None = None
    ) -> None:
        self._house = house
        self._write = write
        self._opened = opened
        self._profile = profile

    def receive(self, message: Frame | list[Frame | Malformed]) -> None:
        if isinstance(message, Frame):
            if not message.is_request:
                return  # nobody can have asked for an answer, nor is there anything to be told about
            if message.method != methods.INITIALIZE and speaks(message.params):
                self._receive_stateless(message)
                return
        conversation = SessionConversation(self._house, self._write, profile=self._profile)
        self._opened(conversation)
        conversation.receive(message)

    def malformed(self, malformed: Malformed) -> None:
        self._write(error(malformed.id, errors.error_object(malformed.code, malformed.message)))

    def _receive_stateless(self, frame: Frame) -> None:
        try:
            check_envelope(open_object(open_object(frame.params).get("_meta", b"")))
        except Malformed as malformed:
            # Refused, and nothing decided: a client that only knows other versions may still say `initialize`.
            payload = errors.error_object(malformed.code, malformed.message, malformed.data)
            self._write(error(frame.id, payload))
            return
        conversation = StatelessConversation(self._house, self._write, profile=self._profile)
        self._opened(conversation)
        conversation.receive(frame)
