"""The command line as a client of its own gateway: the same conversation any other client has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from gateway import __version__
from gateway.cli.wiring import Gateway
from gateway.eras.session import SessionConversation
from gateway.protocol import methods
from gateway.protocol.frames import Frame, Object, decode, encode, notification, open_object, request
from gateway.protocol.versions import LATEST_SESSION


class Refusal(Exception):
    """The answer was an error."""

    def __init__(self, error: bytes) -> None:
        found: Any = json.loads(error)
        data = f" {json.dumps(found['data'], ensure_ascii=False)}" if found.get("data") is not None else ""
        super().__init__(f"{found.get('message', '')} (error {found.get('code')}){data}")


class LocalClient:
    """Talks to a gateway in the same process."""

    def __init__(
        self, gateway: Gateway, *, profile: str | None = None, heard: Callable[[Frame], None] = lambda _: None
    ) -> None:
        self._conversation = SessionConversation(gateway.house, self._hear, profile=profile)
        gateway.audience.join(self._conversation)
        self._answers: dict[bytes, asyncio.Future[Frame]] = {}
        self._ids = count(1)
        self._heard = heard

    async def introduce(self, capabilities: Mapping[str, object]) -> None:
        await self.ask(
            methods.INITIALIZE,
            encode(
                {
                    "protocolVersion": LATEST_SESSION,
                    "capabilities": capabilities,
                    "clientInfo": {"name": "kimi-gateway call", "version": __version__},
                }
            ),
        )

    async def ask(self, method: str, params: bytes = b"") -> Object:
        """The result, one level open; if we are interrupted meanwhile, the upstream is told.

        Raises:
            Refusal: it was an error.
        """
        id = b"%d" % next(self._ids)
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        self.say(request(id, method, params))
        try:
            reply = await answer
        except asyncio.CancelledError:
            reason = {"requestId": int(id), "reason": "interrupted by the user"}
            self.say(notification(methods.CANCELLED, encode(reason)))
            raise
        if reply.error:
            raise Refusal(bytes(reply.error))
        return open_object(reply.result)

    def say(self, data: bytes) -> None:
        """A frame, as a client would send it."""
        frame = decode(data)
        assert isinstance(frame, Frame)
        self._conversation.receive(frame)

    def _hear(self, frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        message = decode(frame)
        assert isinstance(message, Frame)
        answer = self._answers.pop(bytes(message.id), None) if message.method is None else None
        if answer is None:
            self._heard(message)
        elif not answer.done():
            answer.set_result(message)
