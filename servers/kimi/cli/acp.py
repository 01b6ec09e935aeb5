"""Hold one conversation of one prompt with `kimi acp`, the Agent Client Protocol over stdio."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

import anyio

from servers.kimi.activity import Touched, touched
from servers.kimi.cli.output import failed
from servers.kimi.cli.process import Kimi, feed, lines
from servers.kimi.cli.request import Request
from servers.kimi.failure import Failure, cut_off
from servers.kimi.tasks import beside

Frame = dict[str, Any]


async def converse(kimi: Kimi, request: Request) -> str:
    """What the agent said after its last tool call; the journal says whether that is whole.

    Raises:
        Failure: The agent refused or went away.
    """
    conversation = _Conversation(kimi, request)
    result: Frame = {}
    async with beside() as group:
        group.start_soon(conversation.read)
        await conversation.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = await conversation.ask("session/new", {"cwd": str(request.project), "mcpServers": []})
        name = session.get("sessionId")
        if request.alias:
            await conversation.ask("session/set_model", {"sessionId": name, "modelId": request.alias})
        prompt = [{"type": "text", "text": request.prompt}]
        result = await conversation.ask("session/prompt", {"sessionId": name, "prompt": prompt})
        # Its journal is complete only once it has ended by itself.
        await feed(kimi, b"")
        with anyio.move_on_after(5):
            await kimi.process.wait()
    problem = _problem(result.get("stopReason"))
    if problem:
        raise problem
    return conversation.text


def _problem(stop: object) -> Failure | None:
    """What keeps an answer that ended in this way from being a whole one; who says nothing said all."""
    if stop in ("end_turn", None):
        return None
    if stop == "refusal":
        return Failure("content_filter", "Kimi refused to answer")
    if stop == "max_tokens":
        return cut_off("it reached the limit of tokens")
    return cut_off(f"Kimi stopped before its end: {stop}")


class _Conversation:
    def __init__(self, kimi: Kimi, request: Request) -> None:
        self._kimi = kimi
        self._request = request
        self._id = 0
        self._answer: Frame | None = None
        self._changed = anyio.Event()
        self._ended = False
        self._replies, self._pending = anyio.create_memory_object_stream[Frame](1000)
        self._calls: dict[str, Touched] = {}
        self._over: set[str] = set()
        self.text = ""

    async def read(self) -> None:
        assert self._kimi.process.stdout is not None
        async with beside() as group:
            group.start_soon(self._reply)
            await lines(self._kimi.process.stdout, self._line)
        self._ended = True
        self._changed.set()

    async def ask(self, method: str, params: Frame) -> Frame:
        self._id += 1
        self._answer = None
        await self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        while self._answer is None:
            if self._ended:
                with anyio.move_on_after(1):
                    await self._kimi.process.wait()
                raise failed(self._request, self._kimi.process.returncode or 0, self._kimi.stderr())
            self._changed = anyio.Event()
            await self._changed.wait()
        error = self._answer.get("error")
        if error:
            fields = _mapping(error)
            raise failed(self._request, 0, f"{fields.get('message', error)} {json.dumps(fields.get('data') or '')}")
        return _mapping(self._answer.get("result"))

    async def _send(self, frame: Frame) -> None:
        assert self._kimi.process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._kimi.process.stdin.send(json.dumps(frame).encode() + b"\n")

    def _line(self, line: bytes) -> None:
        try:
            fields = _mapping(json.loads(line))
        except (ValueError, RecursionError):
            return
        if "method" in fields and "id" in fields:
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError):
                self._replies.send_nowait(self._decide(fields))
        elif fields.get("method") == "session/update":
            self._update(_mapping(_mapping(fields.get("params")).get("update")))
        elif fields.get("id") == self._id:
            self._answer = fields
            self._changed.set()

    def _update(self, update: Frame) -> None:
        kind = update.get("sessionUpdate")
        activity = self._request.activity
        if kind == "agent_message_chunk":
            piece = str(_mapping(update.get("content")).get("text", ""))
            self.text += piece
            activity.characters += len(piece)
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(str(update.get("toolCallId")), update)

    def _tool(self, call: str, update: Frame) -> None:
        if call not in self._calls:
            self.text = ""
            self._calls[call] = None
            self._request.activity.step += 1
            self._request.activity.tools += 1
        if update.get("rawInput"):
            # The title turns from the tool's name into a sentence; its kind tells enough.
            name = {"read": "Read", "edit": "Edit"}.get(str(update.get("kind")), "")
            self._calls[call] = touched(name, update["rawInput"])
        if update.get("status") in ("completed", "failed") and call not in self._over:
            self._over.add(call)
            self._request.tool_ended(self._calls[call])

    def _decide(self, question: Frame) -> Frame:
        """Permission is given to tools that may write, and to nothing else."""
        answer: Frame = {"jsonrpc": "2.0", "id": question["id"]}
        if question["method"] != "session/request_permission":
            return {**answer, "error": {"code": -32601, "message": "not offered by this client"}}
        options = _mapping(question.get("params")).get("options")
        wanted = "allow" if self._request.writes else "reject"
        given = [_mapping(option) for option in cast("list[object]", options)] if isinstance(options, list) else []
        chosen = next((option for option in given if str(option.get("kind", "")).startswith(wanted)), None)
        if chosen is None:
            return {**answer, "result": {"outcome": {"outcome": "cancelled"}}}
        return {**answer, "result": {"outcome": {"outcome": "selected", "optionId": chosen.get("optionId")}}}

    async def _reply(self) -> None:
        async for frame in self._pending:
            await self._send(frame)


def _mapping(value: object) -> Frame:
    return cast("Frame", value) if isinstance(value, dict) else {}
