"""What a doctor finds: one thing each, how bad it is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    """`problem` counts against the exit code; `note` is worth knowing and nothing that is used depends on it."""
    check: str
    """What was looked at: `python`, `config`, `server`, …"""
    message: str
    fix: str = ""
    server: str | None = None

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "fix": self.fix or None}


def ok(check: str, message: str, server: str | None = None) -> Finding:
    return Finding("ok", check, message, server=server)


def judged(check: str, counts: bool, message: str, fix: str, server: str | None = None) -> Finding:
    """A problem where it counts, else a note."""
    return Finding("problem" if counts else "note", check, message, fix, server)
