"""Read what a CLI prints: an agent's messages, words for people around them, and why it failed."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from servers.kimi.activity import Calls
from servers.kimi.cli.request import Request
from servers.kimi.failure import Failure, classify

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NOISE = re.compile(r"^(To resume this session: .*|See log: .*|kimi version .*)$|^error: failed to run prompt: |^• ")
LAST_LINES = 20


def clean(text: str) -> str:
    """A CLI's words without the noise around them."""
    plain = (_NOISE.sub("", line.strip()).strip() for line in _COLOUR.sub("", text).splitlines())
    return "\n".join([line for line in plain if line][-LAST_LINES:])


class Said:
    """What came on stdout in the format `stream-json` that both generations share."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._calls = Calls()
        self.answer = ""
        """The text of the last message: earlier ones led up to a tool."""
        self.plain = ""
        """Lines that are no messages."""

    def line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self.plain += line.decode("utf-8", "replace") + "\n"
            return
        if isinstance(message, dict):
            self._message(cast("dict[str, Any]", message))

    def _message(self, message: dict[str, Any]) -> None:
        activity = self._request.activity
        if message.get("role") == "assistant":
            activity.step += 1
            self.answer = _text(message.get("content"))
            activity.characters += len(self.answer)
            self._calls.begin(message)
        elif message.get("role") == "tool":
            self._request.tool_ended(self._calls.end(message))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [cast("dict[str, Any]", part) for part in cast("list[object]", content) if isinstance(part, dict)]
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def failed(request: Request, code: int, words: str) -> Failure:
    """The failure that a CLI's exit stands for."""
    said = clean(words) or f"kimi ended with exit code {code} and said nothing"
    if request.access:
        said = request.access.mask(said)
    kind = classify(said)
    if kind == "auth" and "llm not set" in said.lower() and request.model and not request.access:
        # The old CLI says the same of a model it does not know and of a missing login.
        kind = "model_not_found"
    if kind == "connection":
        said = f"{said} (address: {_address(request)})"
    return Failure(kind, said)


def _address(request: Request) -> str:
    if request.access:
        return request.access.url
    return (
        request.environ.get("KIMI_MODEL_BASE_URL")
        or request.environ.get("KIMI_BASE_URL")
        or "the one in the Kimi CLI's own configuration"
    )
