"""One prompt for a CLI, and what both generations need to run it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from servers.kimi.activity import Activity, Touched
from servers.kimi.api import Access
from servers.kimi.prompts import CONTEXT_TOKENS, tokens

ARGUMENT_LIMIT = 131_072
"""Bytes the kernel takes for one argument, its final NUL included."""
ROOMY = 4 * CONTEXT_TOKENS
"""A context size at which no CLI starts to shorten a prompt that we found to fit."""

_HISTORY = frozenset({"sessions", "session_index.jsonl", "workspaces.json", "logs", "cache", "telemetry", "kimi.json"})
_HANDS = frozenset({"mcp.json", "agents", "plugins", "workspace-trust"})
"""What would give a reading agent more hands than it should have, or start programs a project brings."""


def _nobody(touched: Touched) -> None:
    """Nobody follows the tools of this run."""


@dataclass(frozen=True, slots=True)
class Request:
    program: str
    prompt: str
    project: Path
    environ: Mapping[str, str]
    access: Access | None
    model: str
    """A model id; empty leaves the choice to the CLI's own configuration."""
    writes: bool
    activity: Activity = field(default_factory=Activity)
    tool_ended: Callable[[Touched], None] = _nobody
    """Told of each tool that ended or was stopped, with what it may have changed."""

    @property
    def alias(self) -> str:
        """The model to name on the command line: one of the CLI's own configuration, not one the environment gives."""
        return "" if self.access or self.environ.get("KIMI_MODEL_NAME") else self.model

    @property
    def fits_argument(self) -> bool:
        return len(self.prompt.encode()) < ARGUMENT_LIMIT


@contextmanager
def all_tools_told(request: Request, journal: Callable[[], int | None]) -> Generator[Request]:
    """See to it that a tool whose end nobody reported, because the run was stopped, is reported after all.

    `journal` counts the tools that a journal knows of; without a journal, and with no word of tools on stdout, this is
    a Kimi whose tools cannot be followed, and what changed while it ran is taken for its doing.
    """
    ended = 0

    def count(touched: Touched) -> None:
        nonlocal ended
        ended += 1
        request.tool_ended(touched)

    try:
        yield replace(request, tool_ended=count)
    finally:
        journaled, told = journal(), request.activity.tools
        unfollowed = journaled is None and not told
        if unfollowed or max(journaled or 0, told) > ended:
            request.tool_ended(None)


def own_home(environ: Mapping[str, str], variable: str, directory: str) -> Path:
    """Where a CLI keeps the user's login and settings."""
    given = environ.get(variable)
    return Path(given) if given else Path(environ.get("HOME") or Path.home(), directory)


@contextmanager
def throw_away_home(real: Path, *, reads_only: bool) -> Generator[Path]:
    """The user's login and settings for one run, none of their history; removed with all the run wrote into it."""
    with tempfile.TemporaryDirectory(prefix="kimi-gateway-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        left_out = _HISTORY | _HANDS if reads_only else _HISTORY
        if real.is_dir():
            for entry in real.iterdir():
                if entry.name not in left_out:
                    (home / entry.name).symlink_to(entry)
        yield home


def context_size(prompt: str) -> dict[str, str]:
    """Settings that keep a CLI from shortening a long prompt, and the answer within what is left."""
    if tokens(prompt) < CONTEXT_TOKENS // 4:
        return {"KIMI_MODEL_MAX_CONTEXT_SIZE": str(CONTEXT_TOKENS)}
    room = max(4096, CONTEXT_TOKENS - tokens(prompt))
    return {"KIMI_MODEL_MAX_CONTEXT_SIZE": str(ROOMY), "KIMI_MODEL_MAX_COMPLETION_TOKENS": str(room)}
