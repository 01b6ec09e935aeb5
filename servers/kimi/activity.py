"""Follow what a running agent does: its steps, its characters, and which files its tools may have changed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass(slots=True)
class Activity:
    started: float = field(default_factory=time.monotonic)
    running: bool = False
    """False while it waits for its turn."""
    step: int = 0
    characters: int = 0
    tools: int = 0
    """How many tools Kimi said it started."""

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def message(self) -> str:
        seconds = f"{self.elapsed():.0f} s"
        if not self.running:
            return f"waiting for its turn, {seconds}"
        return f"Kimi is working: step {max(1, self.step)}, {self.characters} characters, {seconds}"


_WRITE_ONE = frozenset({"Write", "Edit", "WriteFile", "StrReplaceFile"})
_WRITE_NONE = frozenset(
    {
        "Read",
        "ReadFile",
        "ReadMediaFile",
        "Grep",
        "Glob",
        "TodoList",
        "SetTodoList",
        "FetchURL",
        "WebSearch",
        "SearchWeb",
    }
    | {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TaskList", "TaskOutput", "GetGoal", "CronList", "Think"}
)

Touched = str | None
"""A path, the empty text for no file at all, `None` for any file."""


def touched(name: str, arguments: object) -> Touched:
    """What one call may have changed; arguments come as an object or as its JSON."""
    if name in _WRITE_NONE:
        return ""
    if name in _WRITE_ONE:
        given = _object(arguments)
        path = given.get("path") or given.get("file_path")
        return path if isinstance(path, str) and path else None
    return None


class Calls:
    """Tool calls of a chat in the form of the API, remembered until their results come."""

    def __init__(self) -> None:
        self._open: dict[str, Touched] = {}

    def begin(self, message: Mapping[str, Any]) -> int:
        """Note the calls of an assistant's message and return how many they are."""
        given = message.get("tool_calls")
        calls = [_object(call) for call in cast("list[object]", given)] if isinstance(given, list) else []
        for call in calls:
            function = _object(call.get("function"))
            self._open[str(call.get("id"))] = touched(str(function.get("name")), function.get("arguments"))
        return len(calls)

    def end(self, message: Mapping[str, Any]) -> Touched:
        return self._open.pop(str(message.get("tool_call_id")), None)


def _object(arguments: object) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {}
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
