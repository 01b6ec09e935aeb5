"""Put what an upstream elicits to the person at the terminal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from gateway.cli.forms import Field, Invalid, fields
from gateway.cli.screen import complain, harmless
from gateway.protocol import errors, methods
from gateway.protocol.frames import Frame, encode, error, id_key, open_object, result

Answer = dict[str, Any]
CAPABILITIES: Answer = {"elicitation": {"form": {}, "url": {}}}
DECLINE: Answer = {"action": "decline"}
CANCEL: Answer = {"action": "cancel"}


class Gone(Exception):
    """Nobody types any more."""


def interactive() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Answering:
    """Answers an upstream's questions one after the other, each in a task of the group it is given."""

    def __init__(self, server: str, group: asyncio.TaskGroup, reply: Callable[[bytes], None]) -> None:
        self._server = server
        self._group = group
        self._reply = reply
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    def asked(self, frame: Frame) -> None:
        self._tasks[id_key(frame.id)] = self._group.create_task(self._answer(frame))

    def withdrawn(self, frame: Frame) -> None:
        """The upstream no longer wants to know."""
        task = self._tasks.pop(id_key(open_object(frame.params).get("requestId", b"")), None)
        if task is not None and not task.done():
            complain(f"\n{self._server} no longer waits for an answer.")
            task.cancel()

    def close(self) -> None:
        """The call is over; nobody waits for what is still open."""
        for task in self._tasks.values():
            task.cancel()

    async def _answer(self, frame: Frame) -> None:
        id = bytes(frame.id)
        if frame.method != methods.ELICITATION:
            message = f"The client does not support {frame.method}"
            self._reply(error(id, errors.error_object(errors.METHOD_NOT_FOUND, message)))
            return
        async with self._turn:
            answer = await elicited(self._server, json.loads(bytes(frame.params) or b"{}"))
        self._reply(result(id, encode(answer)))


async def elicited(server: str, params: dict[str, Any]) -> Answer:
    """What the person answers; without a terminal nobody can, so it is declined."""
    by_address = params.get("mode") == "url"
    complain(f"{server} asks: {params.get('message', '')}")
    if not interactive():
        where = f" ({params.get('url', '')})" if by_address else ""
        complain(f"Declined{where}, as there is no terminal to ask on.")
        return DECLINE
    try:
        return await (_visit(params) if by_address else _fill_in(fields(params.get("requestedSchema") or {})))
    except Gone:
        complain("")
        return CANCEL


async def _visit(params: dict[str, Any]) -> Answer:
    complain(f"  It wants you to open this address in a browser:\n  {params.get('url', '')}")
    agreed = await _yes("  Do you agree?", default=False)
    return {"action": "accept"} if agreed else DECLINE


async def _fill_in(form: list[Field]) -> Answer:
    if form:
        complain("  (Ctrl-D cancels)")
    content: dict[str, Any] = {}
    for field in form:
        value = await _asked(field)
        if value is not None:
            content[field.key] = value
    return {"action": "accept", "content": content} if await _yes("  Send this?", default=True) else DECLINE


async def _asked(field: Field) -> Any:
    if field.schema.get("description"):
        complain(f"  {field.schema['description']}")
    for number, name in enumerate(field.choices, 1):
        complain(f"    {number}. {name}")
    while True:
        try:
            return field.read(await _line(field.prompt))
        except Invalid as invalid:
            complain(f"    {invalid}")


async def _yes(question: str, *, default: bool) -> bool:
    while True:
        typed = (await _line(f"{question} [{'Y/n' if default else 'y/N'}] ")).strip().lower()
        if typed in ("", "y", "yes", "n", "no"):
            return typed.startswith("y") if typed else default


async def _line(prompt: str) -> str:
    """What is typed next. Not `input()` in a thread: that would still hold the terminal after Ctrl-C."""
    sys.stderr.write(harmless(prompt))
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def ready() -> None:
        loop.remove_reader(descriptor)
        typed.set_result(os.read(descriptor, 65536))

    loop.add_reader(descriptor, ready)
    try:
        data = await typed
    finally:
        loop.remove_reader(descriptor)
    if not data:
        raise Gone
    return data.decode(errors="replace").rstrip("\n")
