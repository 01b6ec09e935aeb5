"""How a session of Kimi Code ended, by its journal: lines as 2.1.0 writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from servers.kimi.cli.journal import ending


def said(text: str, finish: str | None, role: str = "assistant") -> dict[str, Any]:
    content = [{"type": "think", "think": "hm"}, {"type": "text", "text": text}]
    message: dict[str, Any] = {"message": {"role": role, "content": content}, "meta": {}}
    if finish:
        message["meta"] = {"finish": {"finishReason": finish}}
    return {"type": "agent.message.appended", "message": message}


def ended(reason: str, **error: str) -> dict[str, Any]:
    return {"type": "turn.ended", "reason": reason, **({"error": error} if error else {})}


SQUEEZED = {"type": "context.apply_compaction"}


def read(*records: object) -> tuple[str, str]:
    """The text, and the kind of what is wrong."""
    found = ending([json.dumps(record).encode() for record in records])
    problem = found.problem()
    return found.text, problem.kind if problem else ""


def test_the_last_message_is_the_answer() -> None:
    steps = (said("Let me look", "tool_calls"), said("of a tool", None, role="tool"), said("Done.", "completed"))
    assert read(*steps, ended("completed")) == ("Done.", "")


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ((said("Half", "truncated"), ended("completed")), "failed"),
        ((said("Half", "filtered"), ended("completed")), "content_filter"),
        ((said("Half", None), ended("completed")), "failed"),
        ((SQUEEZED, said("Whole", "completed")), "context_too_long"),
        ((said("A step", "tool_calls"), ended("failed", code="provider.rate_limit", message="429")), "rate_limit"),
        ((ended("failed"),), "failed"),
    ],
)
def test_anything_less_than_a_whole_answer_is_a_failure(records: tuple[object, ...], kind: str) -> None:
    assert read(*records)[1] == kind


def test_what_was_shortened_later_is_the_agents_own_affair() -> None:
    assert read(said("A step", "tool_calls"), SQUEEZED, said("Done.", "completed")) == ("Done.", "")


def test_no_journal_and_garbage_know_nothing() -> None:
    assert ending([]).problem() is None
    assert ending([b"{half", b"[]", b"3", b'{"type": "agent.message.appended", "message": 3}']).problem() is None
