"""Frame what a tool asks of Kimi. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from servers.kimi.arguments import Job
from servers.kimi.failure import Failure
from servers.kimi.files import Source

CONTEXT_TOKENS = 262_144
CHARACTERS_PER_TOKEN = 4

Hands = Literal["reads", "writes", "text"]
"""What Kimi can do in this run: look around the project, change it, or only answer with text."""

ROLES: Mapping[str, str] = {
    "general": "Give a balanced analysis: what the code does, what is wrong or risky, what you would change first.",
    "security": "Look for vulnerabilities: untrusted input, injection, authentication, secrets, unsafe defaults. Rank "
    "findings by severity and say how each would be exploited and mended.",
    "performance": "Look for wasted time and memory: complexity, hot paths, needless I/O and copies, contention. Say "
    "what each costs and how to measure it.",
    "architecture": "Judge the structure: responsibilities, dependencies, boundaries, what will be hard to change.",
    "correctness": "Hunt for bugs: edge cases, races, error paths, wrong assumptions. Give an input that fails.",
    "testing": "Judge the tests: what is not covered, what would not fail if the code broke, which to write first.",
    "documentation": "Judge how well the code explains itself to a newcomer and what is missing or misleading.",
}
"""The views `kimi_analyze` can take, each with what it asks of the model."""

_NOTHING_ELSE = "You cannot change files or run commands here. Answer with text only."
_WRITES = (
    "Make the change yourself: edit the files in the working directory and run what you need. Do not ask questions, "
    "nobody can answer. When done, summarise what you did."
)
_PROPOSES = (
    "You cannot change files here. Propose the whole change as text: a unified diff against the files given, or the "
    "complete new content of each file under its path. Leave nothing out."
)
_SAFE = (
    "Safety checks: keep behaviour exactly as it is, public interfaces included. Work in small steps, and run the "
    "project's tests before and after; if they fail because of your change, mend or undo it."
)
_SAFE_TEXT = (
    "Safety checks: keep behaviour exactly as it is, public interfaces included. Say which tests to run before and "
    "after the change, and point out every place where behaviour could differ."
)


def frame(job: Job, sources: Sequence[Source], hands: Hands, roles: Mapping[str, str]) -> str:
    """The prompt as it is sent; it never starts with a character a command line could take for its own.

    Raises:
        Failure: `context_too_long`.
    """
    parts = [_task(job, hands, roles), f"# Task\n\n{job.prompt}"]
    if job.context.strip():
        parts.append(f"# Context\n\n{job.context}")
    parts += [f"# File {source.name}\n\n{_fenced(source)}" for source in sources]
    prompt = "\n\n".join(parts)
    check_size(prompt)
    return prompt


def tokens(prompt: str) -> int:
    """A cautious guess at how much of the context a text fills."""
    return -(-len(prompt) // CHARACTERS_PER_TOKEN)


def check_size(prompt: str) -> None:
    size = tokens(prompt)
    if size > CONTEXT_TOKENS:
        raise Failure(
            "context_too_long",
            f"prompt and files are about {size:,} tokens, the model takes {CONTEXT_TOKENS:,}; nothing was sent",
        )


def _task(job: Job, hands: Hands, roles: Mapping[str, str]) -> str:
    if job.tool == "analyze":
        return f"You analyse code for another engineer. {_instruction(job.role, roles)} {_NOTHING_ELSE}"
    if job.tool == "verify":
        return _verify(job)
    does = _WRITES if hands == "writes" else _PROPOSES
    if job.tool == "implement":
        rules = f"\n\n# Constraints\n\n{_listed(job.points)}" if job.points else ""
        return f"You implement a change for another engineer. {does}{rules}"
    safe = (_SAFE if hands == "writes" else _SAFE_TEXT) if job.safety_checks else ""
    return f"You refactor code for another engineer: better structure, same purpose. {does} {safe}".rstrip()


def _instruction(role: str, extra: Mapping[str, str]) -> str:
    """What a role asks; a role nobody described is passed on in its own words."""
    known = {**ROLES, **extra}
    if not role.strip():
        return known["general"]
    return known.get(role, known.get(role.strip().lower(), f"Take this role: {role}"))


def _verify(job: Job) -> str:
    base = f"You verify work for another engineer, sceptically and from the code itself. {_NOTHING_ELSE}"
    if not job.points:
        return f"{base} Name each thing you checked with a verdict: PASS, FAIL or UNCLEAR, and the evidence."
    return (
        f"{base} For each requirement below, in its order, give one line `REQUIREMENT n: PASS`, `FAIL` or `UNCLEAR`, "
        f"then the evidence (file and line). End with an overall verdict.\n\n# Requirements\n\n{_listed(job.points)}"
    )


def _listed(points: Sequence[str]) -> str:
    return "\n".join(f"{number}. {point}" for number, point in enumerate(points, 1))


def _fenced(source: Source) -> str:
    longest = max(map(len, re.findall("`+", source.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{source.text}\n{fence}"
