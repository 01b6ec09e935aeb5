"""What each tool asks of Kimi."""

from __future__ import annotations

import pytest

from servers.kimi.arguments import Job, Tool
from servers.kimi.failure import Failure
from servers.kimi.files import Source
from servers.kimi.prompts import CONTEXT_TOKENS, ROLES, Hands, frame


def framed(tool: Tool, hands: Hands = "reads", roles: dict[str, str] | None = None, **more: object) -> str:
    job = Job(tool=tool, **{"prompt": "THE TASK", "model": "k2", "timeout": 30.0, **more})  # pyright: ignore[reportArgumentType]
    return frame(job, (), hands, roles or {})


def test_task_context_and_files_are_all_there_and_apart() -> None:
    job = Job("analyze", "THE TASK", "k2", 30, context="THE CONTEXT")
    prompt = frame(job, [Source("a.md", "text\n```\ncode\n```\n"), Source("b", "`" * 5)], "reads", {})
    assert "# Task\n\nTHE TASK" in prompt and "# Context\n\nTHE CONTEXT" in prompt
    assert "# File a.md\n\n````\ntext\n```\ncode\n```\n\n````" in prompt
    assert "# File b\n\n``````\n`````\n``````" in prompt


@pytest.mark.parametrize("tool", ["analyze", "implement", "refactor", "verify"])
@pytest.mark.parametrize("text", ["/help", "--yolo", "-", "@file", "!ls"])
def test_no_prompt_starts_as_a_command_or_an_option_would(tool: Tool, text: str) -> None:
    prompt = framed(tool, "writes", prompt=text)
    assert prompt.startswith("You ") and text in prompt


@pytest.mark.parametrize("role", ROLES)
def test_every_role_asks_its_own(role: str) -> None:
    assert ROLES[role] in framed("analyze", role=role)
    assert ROLES[role] in framed("analyze", role=f" {role.upper()} ")


def test_roles_of_the_settings_add_and_replace_and_others_are_passed_on() -> None:
    assert ROLES["general"] in framed("analyze")
    assert "Mind the style." in framed("analyze", roles={"style": "Mind the style."}, role="style")
    assert "Mine." in framed("analyze", roles={"security": "Mine."}, role="security")
    assert "Take this role: a tired reviewer" in framed("analyze", role="a tired reviewer")


def test_reading_tools_say_that_they_only_read() -> None:
    for tool in ("analyze", "verify"):
        assert "cannot change files or run commands" in framed(tool)


def test_verify_wants_a_verdict_for_each_requirement() -> None:
    prompt = framed("verify", points=("It is fast", "It is right"))
    assert "1. It is fast\n2. It is right" in prompt and "REQUIREMENT n: PASS" in prompt
    assert "REQUIREMENT n" not in framed("verify") and "PASS, FAIL or UNCLEAR" in framed("verify")


def test_constraints_are_listed() -> None:
    assert "# Constraints\n\n1. No globals" in framed("implement", "writes", points=("No globals",))
    assert "Constraints" not in framed("implement", "writes")


def test_without_hands_a_change_is_proposed_as_text() -> None:
    for tool in ("implement", "refactor"):
        assert "edit the files" in framed(tool, "writes")
        assert "unified diff" in framed(tool, "text") and "edit the files" not in framed(tool, "text")


def test_safety_checks_change_what_is_asked_with_either_backend() -> None:
    assert "run the project's tests before and after" in framed("refactor", "writes")
    assert "Say which tests to run" in framed("refactor", "text")
    for hands in ("writes", "text"):
        assert "Safety checks" not in framed("refactor", hands, safety_checks=False)


def test_a_prompt_beyond_the_context_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Failure) as caught:
        framed("analyze", prompt="x" * (4 * CONTEXT_TOKENS))
    assert caught.value.kind == "context_too_long" and "nothing was sent" in caught.value.words
    assert "262,144" in caught.value.words
