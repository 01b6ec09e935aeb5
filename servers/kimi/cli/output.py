"""Read what a CLI prints: an agent's messages or its plain text, and why it failed."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from servers.kimi.activity import Calls
from servers.kimi.cli.request import Request
from servers.kimi.failure import Failure, Kind, classify

_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_AROUND = re.compile(r"(?:To resume this session: .*|See log: .*|kimi version .*)?")
_LEAD = re.compile(r"^error: failed to run prompt: |^• ")
_OTHER_CLI = re.compile(r"no longer maintained|unknown option|no such option|unrecognized argument", re.IGNORECASE)
"""It ran, and is not the program we know how to ask."""
LONGEST_FAREWELL = 500
"""Characters the last, empty release of kimi-cli may use to say that it is no program any more."""
_SIGNALLED = (130, 137, 143)
LAST_LINES = 20
MOST_PLAIN = 64 * 1024 * 1024


def clean(text: str) -> str:
    """A CLI's words for people, without the noise around them."""
    lines = (line.strip() for line in _COLOUR.sub("", text).splitlines())
    plain = (_LEAD.sub("", line).strip() for line in lines if not _AROUND.fullmatch(line))
    return "\n".join([line for line in plain if line][-LAST_LINES:])


def unwrapped(text: str) -> str:
    """An answer printed for people as the model gave it: a note of the CLI's own stands before or after it."""
    lines = [line.rstrip("\r") for line in _COLOUR.sub("", text).split("\n")]
    while lines and _AROUND.fullmatch(lines[0].strip()):
        lines.pop(0)
    while lines and _AROUND.fullmatch(lines[-1].strip()):
        lines.pop()
    if not lines or not lines[0].startswith("• "):
        return "\n".join(lines)
    # Kimi Code hangs a message from a dot, every line of it; a dot of the model's own stands on this.
    if all(line.startswith(("• ", "  ")) or not line.strip() for line in lines):
        return "\n".join(line[2:] for line in lines)
    return "\n".join([lines[0][2:], *lines[1:]])


class Said:
    """What came on stdout: messages in the format `stream-json` that both generations share, or plain text."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._calls = Calls()
        self._spoken = False
        self._message_text = ""
        """The text of the last message: earlier ones led up to a tool."""
        self._plain: list[str] = []
        self._size = 0

    def line(self, line: bytes) -> None:
        message = _object(line)
        if isinstance(message.get("role"), str):
            self._message(message)
        elif not self._spoken or not message:
            self._keep(line)

    def answer(self) -> str:
        """The whole answer: of a CLI that does not know the format, all it printed."""
        return self._message_text if self._spoken else unwrapped("\n".join(self._plain))

    def words(self) -> str:
        """What it said for people; half an answer that stands before an error is left out."""
        lines = clean("\n".join(self._plain)).splitlines()
        first = next((index for index, line in enumerate(lines) if classify(line) != "failed"), 0)
        return "\n".join(lines[first:])

    def _keep(self, line: bytes) -> None:
        self._size += len(line)
        if self._size > MOST_PLAIN:
            raise Failure("failed", f"Kimi's answer is larger than {MOST_PLAIN >> 20} MB")
        self._plain.append(line.decode("utf-8", "replace"))
        self._request.activity.characters += len(line)

    def _message(self, message: dict[str, Any]) -> None:
        self._spoken = True
        activity = self._request.activity
        if message.get("role") == "assistant":
            activity.step += 1
            self._message_text = _text(message.get("content"))
            activity.characters += len(self._message_text)
            activity.tools += self._calls.begin(message)
        elif message.get("role") == "tool":
            self._request.tool_ended(self._calls.end(message))


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object on a line; an empty one where there is none."""
    if not line.lstrip().startswith(b"{"):
        return {}
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [cast("dict[str, Any]", part) for part in cast("list[object]", content) if isinstance(part, dict)]
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def failed(request: Request, code: int, *heard: str) -> Failure:
    """The failure that a CLI's exit stands for; of several places where it may say why, the first that does."""
    places = [words for words in map(clean, heard) if words]
    telling = next((words for words in places if _kind(words) != "failed"), "")
    if not telling and (code < 0 or code in _SIGNALLED):
        # What came before may be half an answer.
        return Failure("failed", f"kimi was ended by a signal, with exit code {code}")
    said = telling or (places[0] if places else f"kimi ended with exit code {code} and said nothing")
    return _named(request, said)


def whole(request: Request, answer: str, stderr: str) -> str:
    """The answer of a CLI that ended well.

    Raises:
        Failure: It is none.
    """
    text, said = answer.strip("\r\n").rstrip(), clean(stderr)
    if not text.strip():
        raise _named(request, said if _kind(said) != "failed" else "Kimi answered with nothing")
    if len(text) < LONGEST_FAREWELL and "kimi" in text.lower() and "no longer maintained" in text:
        raise Failure("cli_unsupported", text)
    return text


def _kind(words: str) -> Kind:
    return "cli_unsupported" if _OTHER_CLI.search(words) else classify(words)


def _named(request: Request, said: str) -> Failure:
    if request.access:
        said = request.access.mask(said)
    kind = _kind(said)
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
