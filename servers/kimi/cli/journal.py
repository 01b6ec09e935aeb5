"""Read in the journal of a Kimi Code session how its last turn really ended. Pure but for reading the file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from servers.kimi.failure import Failure, classify, cut_off

Record = dict[str, Any]


@dataclass(slots=True)
class Ending:
    """What the journal knows; all unset where there is no journal."""

    known: bool = False
    text: str = ""
    finish: str | None = None
    error: str = ""
    squeezed: bool = False
    """The prompt was summarised before the model saw it."""

    def problem(self) -> Failure | None:
        """The exit code is 0 for half an answer too: only this tells."""
        if self.error:
            return Failure(classify(self.error), self.error)
        if not self.known:
            return None
        if self.squeezed:
            return Failure(
                "context_too_long", "the prompt was too long for Kimi, which shortened it; that answer is void"
            )
        if self.finish == "filtered":
            return Failure("content_filter", "Kimi's content filter stopped the answer")
        if self.finish == "truncated":
            return cut_off("it reached the limit of tokens")
        return None if self.finish == "completed" else cut_off("the stream ended early")


def read(home: Path) -> Ending:
    """The ending of the only session in a throw-away home."""
    files = sorted(home.glob("sessions/*/*/agents/main/wire.jsonl"), key=lambda path: path.stat().st_mtime)
    if not files:
        return Ending()
    with files[-1].open("rb") as lines:
        return ending(lines)


def tool_calls(home: Path) -> int | None:
    """How many tools were started in the only session of a throw-away home; `None` where no journal was kept."""
    paths = list(home.glob("sessions/*/*/agents/main/wire.jsonl"))
    return sum(path.read_bytes().count(b'"event":{"type":"tool.call"') for path in paths) if paths else None


def ending(lines: Iterable[bytes]) -> Ending:
    found = Ending()
    for line in lines:
        record = _record(line)
        kind = record.get("type")
        if kind == "agent.message.appended":
            _message(record, found)
        elif kind == "context.apply_compaction" and not found.known:
            found.squeezed = True
        elif kind == "turn.ended" and record.get("reason") not in ("completed", None):
            error = _mapping(record.get("error"))
            found.error = f"{error.get('code', 'failed')}: {error.get('message', record.get('reason'))}"
    return found


def _message(record: Record, found: Ending) -> None:
    outer = _mapping(record.get("message"))
    message = _mapping(outer.get("message"))
    if message.get("role") != "assistant":
        return
    finish = _mapping(_mapping(outer.get("meta")).get("finish"))
    found.known = True
    found.finish = finish.get("finishReason")
    content = message.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else []
    found.text = "".join(str(_mapping(part).get("text", "")) for part in parts if _mapping(part).get("type") == "text")


def _record(line: bytes) -> Record:
    try:
        return _mapping(json.loads(line))
    except ValueError:
        return {}


def _mapping(value: object) -> Record:
    return cast("Record", value) if isinstance(value, dict) else {}
