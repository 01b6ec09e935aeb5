"""Stand between an old Kimi CLI and the API on 127.0.0.1, to see how the model's last answer ended."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import httpx
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from servers.kimi.api import client
from servers.kimi.failure import Failure, cut_off
from servers.kimi.tasks import beside

HEAD_LIMIT = 64 * 1024
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"(\w+)"')
_HOP = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive"})
_LAST = "connection: close\r\nx-should-retry: false\r\n"
"""Its HTTP client would try failed requests three times, which is for our caller to do; this it obeys."""


class Relay:
    """Passes requests on unchanged and remembers the finish of the last stream."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = client()
        self.url = ""
        self._answered = False
        self._finish: str | None = None

    def problem(self) -> Failure | None:
        """Why the last answer is not a whole one."""
        if not self._answered or self._finish in ("stop", "tool_calls"):
            return None
        if self._finish == "length":
            return cut_off("it reached the limit of tokens")
        if self._finish == "content_filter":
            return Failure("content_filter", "Kimi's content filter stopped the answer")
        return cut_off("the stream ended early")

    async def close(self) -> None:
        await self._client.aclose()

    async def serve(self, stream: SocketStream) -> None:
        """One connection, one request: the CLI opens another for the next."""
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with stream:
                incoming = BufferedByteReceiveStream(stream)
                head = await incoming.receive_until(b"\r\n\r\n", HEAD_LIMIT)
                first, *rest = head.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ", 2)
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
                length = int(headers.get("content-length", "0"))
                body = await incoming.receive_exactly(length) if length else b""
                await self._pass_on(stream, method, path, headers, body)

    async def _pass_on(
        self, stream: SocketStream, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> None:
        kept = {name: value for name, value in headers.items() if name not in _HOP}
        try:
            request = self._client.build_request(method, f"{self._address}{path}", headers=kept, content=body)
            response = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            await _unreachable(stream, f"Connection error: {error or type(error).__name__}")
            return
        try:
            kind = response.headers.get("content-type", "application/json")
            top = f"HTTP/1.1 {response.status_code} {response.reason_phrase}\r\ncontent-type: {kind}\r\n"
            await stream.send(f"{top}{_LAST}transfer-encoding: chunked\r\n\r\n".encode("latin-1"))
            await self._copy(response, stream, watched="event-stream" in kind)
        except httpx.HTTPError:
            return
        finally:
            await response.aclose()

    async def _copy(self, response: httpx.Response, stream: SocketStream, *, watched: bool) -> None:
        if watched:
            self._answered, self._finish = True, None
        tail = b""
        async for chunk in response.aiter_bytes():
            if watched:
                found = _FINISH.findall(tail + chunk)
                self._finish = found[-1].decode() if found else self._finish
                tail = (tail + chunk)[-64:]
            await stream.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await stream.send(b"0\r\n\r\n")


async def _unreachable(stream: SocketStream, why: str) -> None:
    body = json.dumps({"error": {"type": "connection_error", "message": why}}).encode()
    head = f"HTTP/1.1 502 Bad Gateway\r\ncontent-type: application/json\r\n{_LAST}content-length: {len(body)}\r\n\r\n"
    await stream.send(head.encode() + body)


@asynccontextmanager
async def watching(address: str) -> AsyncGenerator[Relay | None]:
    """A relay for the time of one run; none where the address of the API is not known."""
    if not address:
        yield None
        return
    relay = Relay(address)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    relay.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
    try:
        async with listener, beside() as group:
            group.start_soon(listener.serve, relay.serve)
            yield relay
    finally:
        with anyio.CancelScope(shield=True):
            await relay.close()
