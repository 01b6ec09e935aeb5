"""Name what went wrong with a Kimi call by a stable kind. Pure."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal[
    "timeout", "auth", "rate_limit", "quota", "overloaded", "context_too_long", "content_filter", "model_not_found",
    "cli_missing", "cli_unsupported", "connection", "invalid_input", "failed",
]  # fmt: skip

KEYS = "MOONSHOT_API_KEY (or KIMI_API_KEY)"
GET_CLI = "npm install -g @moonshot-ai/kimi-code (Node 22.19 or newer)"
CURRENT = "kimi-k3, kimi-k2.7-code, kimi-k2.7-code-highspeed, kimi-k2.6"

ADVICE: dict[Kind, str] = {
    "timeout": "Real work takes minutes: call again with a larger `timeout` (seconds, up to 3600).",
    "auth": f"Log in with `kimi` and /login, or set {KEYS} to a valid key; a key of api.moonshot.cn needs "
    "KIMI_BASE_URL=https://api.moonshot.cn/v1.",
    "rate_limit": "Wait a moment, then call again.",
    "quota": "Top up the account or check its plan at platform.moonshot.ai, then call again.",
    "overloaded": "Kimi's service is busy or down: try again in a minute.",
    "context_too_long": "Send less: fewer or smaller files, or split the task into several calls.",
    "content_filter": "Rephrase the prompt or leave out the text that may have triggered the filter.",
    "model_not_found": f"Choose another `model`; old ids are retired. Current ids: {CURRENT}.",
    "cli_missing": f"Install the Kimi CLI: {GET_CLI}; or set {KEYS} to use the HTTP API.",
    "cli_unsupported": f"Install the current Kimi CLI: {GET_CLI}; or set {KEYS} to use the HTTP API.",
    "connection": "Check the network, the proxy variables and KIMI_BASE_URL, then call again.",
    "invalid_input": "Mend the arguments and call again.",
    "failed": "Read the message above; calling again may help if the cause was passing.",
}

# In this order: a 429 may mean any of the first three, and words tell more than its number.
_SIGNS: tuple[tuple[Kind, str], ...] = (
    ("quota", r"exceeded_current_quota|quota|billing|suspended|insufficient.balance"),
    ("overloaded", r"overloaded"),
    ("rate_limit", r"provider\.rate_limit|rate_limit_reached|rate.limit|\b429\b"),
    ("context_too_long", r"context\.overflow|contextoverflow|token limit|context.length|context window"
     r"|token length|maximum context|too many tokens|prompt is too long"),
    ("content_filter", r"content_filter|provider\.filtered|safety policy|high risk"),
    ("auth", r"provider\.auth_error|invalid_authentication|\bauth\.\w+|authentication required|\b401\b|\b403\b"
     r"|no model configured|llm not set"),
    ("model_not_found", r"resource_not_found|not found the model|\b404\b|is not configured in config"),
    ("connection", r"provider\.connection_error|connection error|econnrefused|enotfound|connection refused"
     r"|peer closed connection|connection reset|request timed out|etimedout"),
    ("overloaded", r"(?:error code|provider\.\w+): 5\d\d\b|internal server error|service unavailable|bad gateway"),
)  # fmt: skip


class Failure(Exception):
    """A call that gave no whole answer."""

    def __init__(self, kind: Kind, words: str, advice: str | None = None) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind: Kind = kind
        self.words = words
        self.advice = ADVICE[kind] if advice is None else advice

    def text(self) -> str:
        """The kind first, then what Kimi said, then what to do."""
        return f"{self.kind}: {self.words}\n\n{self.advice}".rstrip()

    def but(self, more: str) -> Failure:
        """The same failure with something else the caller has to know."""
        return Failure(self.kind, self.words, f"{self.advice}\n\n{more}".strip())


def classify(words: str) -> Kind:
    """The kind that a message of the CLI or the API stands for."""
    lowered = words.lower()
    for kind, sign in _SIGNS:
        if re.search(sign, lowered):
            return kind
    return "failed"


def cut_off(how: str) -> Failure:
    """Half an answer is worse than none: the caller cannot see where it ends."""
    return Failure(
        "failed",
        f"the answer was cut off ({how}), so it is not shown",
        "Ask for less at once, or call again if the connection broke.",
    )
