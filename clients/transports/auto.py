"""A `url` without a `type`: Streamable HTTP, or the older HTTP+SSE where the server knows only that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clients.causes import Lost
from clients.transports.channel import Noise, Receiver
from clients.transports.http import HttpChannel
from clients.transports.sse import SseChannel
from configs.models import Server
from gateway.exchange import Exchange


class AutoChannel:
    """Streamable HTTP until `initialize` meets 400, 404 or 405; then whatever is at the same address."""

    def __init__(self, server: Server, receiver: Receiver, *, limit: int) -> None:
        self._server = server
        self._receiver = receiver
        self._limit = limit
        self._http = HttpChannel(server, receiver, limit=limit, rejected=self._fall_back)
        self._channel: HttpChannel | SseChannel = self._http
        self._older: SseChannel | None = None
        self._project = Path()

    @property
    def noise(self) -> Noise:
        return self._channel.noise

    @property
    def pid(self) -> int | None:
        return None

    @property
    def tail(self) -> str:
        return ""

    async def open(self, project: Path) -> None:
        self._project = project
        await self._http.open(project)

    def negotiated(self, version: str) -> None:
        self._channel.negotiated(version)

    def listed(self, tools: Sequence[bytes]) -> Sequence[bytes]:
        return self._channel.listed(tools)

    def send(self, frame: bytes, exchange: Exchange | None = None) -> None:
        self._channel.send(frame, exchange)

    def withdraw(self, exchange: Exchange) -> bool:
        return self._channel.withdraw(exchange)

    def is_writing(self, exchange: Exchange) -> bool:
        return self._channel.is_writing(exchange)

    async def close(self) -> None:
        await self._http.close()
        if self._older is not None:
            await self._older.close()

    async def _fall_back(self, words: str, frame: bytes, exchange: Exchange) -> None:
        """Offer `initialize` to the older transport; if that fails too, the first refusal is the cause.

        Raises:
            GaveUp: the older one cannot be had as configured.
            Lost: neither is there.
        """
        older = SseChannel(self._server, self._receiver, limit=self._limit)
        try:
            await older.open(self._project)
        except BaseException as cause:
            await older.close()
            if not isinstance(cause, Lost) or cause.retry_after is not None:
                raise
            raise Lost(f"speaks neither Streamable HTTP ({words}) nor SSE ({cause.reason}) at its url") from cause
        self._channel = self._older = older
        older.send(frame, exchange)
