"""The SDK's two streams over stdin and stdout without its threads, which no signal could get out of a read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from gateway.pipes import Lines, Reader, Writer
from servers.kimi.tasks import beside
from servers.stdio import claimed_stdio

LINE_LIMIT = 64 * 1024 * 1024
FLUSH_SECONDS = 2.0

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def stdio() -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """What the client sends, until it closes its side, and where answers go."""
    with claimed_stdio() as (source, sink):
        outgoing, answers = anyio.create_memory_object_stream[SessionMessage]()
        client = _Client(source, sink)
        try:
            async with beside() as group:
                group.start_soon(client.write, answers)
                yield client.incoming, outgoing
                outgoing.close()
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()


def joined(text: str) -> str:
    """A text without lone surrogates: halves that meet make their character, others the sign for none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _joined(line: bytes) -> bytes:
    """A frame in which half an emoji, as JavaScript clients cut it, is no reason to refuse it all."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    try:
        return joined(json.dumps(json.loads(line), ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        return line


class _Client:
    def __init__(self, source: int, sink: int) -> None:
        self._received, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self._lines = Lines(LINE_LIMIT)
        self._descriptors = (source, sink)
        self._writer = Writer(sink, self._gone)
        self._reader = Reader(source, self._arrived)

    async def write(self, answers: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for answer in answers:
            self._send(answer.message)

    async def close(self) -> None:
        """Let the client have what is written, if it reads, and its descriptors as they were."""
        with anyio.move_on_after(FLUSH_SECONDS):
            await self._writer.flushed()
        for descriptor in self._descriptors:
            with suppress(OSError):
                os.set_blocking(descriptor, True)
        self._reader.close()
        self._writer.close()

    def _arrived(self, data: bytes | None) -> None:
        if data is None:
            self._line(self._lines.rest())
            self._received.close()
            return
        whole, over = self._lines.feed(data)
        for line in whole:
            self._line(line)
        for _ in over:
            self._refuse(types.INVALID_REQUEST, f"Invalid Request: over {LINE_LIMIT >> 20} MiB")

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(_joined(line), by_name=False)
        except ValidationError as error:
            if any(detail["type"] == "json_invalid" for detail in error.errors()):
                self._refuse(types.PARSE_ERROR, "Parse error")
            else:
                self._refuse(types.INVALID_REQUEST, "Invalid Request")
            return
        with suppress(anyio.BrokenResourceError):
            self._received.send_nowait(SessionMessage(message))

    def _refuse(self, code: int, message: str) -> None:
        self._send(types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=message)))

    def _send(self, message: types.JSONRPCMessage) -> None:
        self._writer.send(message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    def _gone(self, error: OSError) -> None:
        self._received.close()
