"""Ask Kimi over Moonshot's HTTP API, streaming."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from httpx_sse import EventSource, SSEError

from servers.kimi.activity import Activity
from servers.kimi.failure import Failure, Kind, classify, cut_off
from servers.kimi.prompts import CONTEXT_TOKENS, tokens

DEFAULT_URL = "https://api.moonshot.ai/v1"
LONGEST_ANSWER = 131_072
"""Tokens; without a limit of ours the API's own small default would cut answers off."""

_KINDS: dict[str, Kind] = {
    "invalid_authentication_error": "auth",
    "rate_limit_reached_error": "rate_limit",
    "exceeded_current_quota_error": "quota",
    "engine_overloaded_error": "overloaded",
    "content_filter": "content_filter",
    "resource_not_found_error": "model_not_found",
}
_STATUSES: dict[int, Kind] = {
    401: "auth",
    403: "auth",
    402: "quota",
    413: "context_too_long",
    404: "model_not_found",
    429: "rate_limit",
}


@dataclass(frozen=True, slots=True)
class Access:
    url: str
    key: str

    def __repr__(self) -> str:
        return f"<Access {self.url}>"

    def mask(self, text: str) -> str:
        """The key must not travel back in somebody's error message."""
        return text.replace(self.key, "***")


def from_environment(environ: Mapping[str, str]) -> Access | None:
    """An empty key counts as unset."""
    for name in ("MOONSHOT_API_KEY", "KIMI_API_KEY"):
        key = environ.get(name, "").strip()
        if key:
            url = environ.get("KIMI_BASE_URL", "").strip() or DEFAULT_URL
            return Access(_base(url), key)
    return None


def _base(url: str) -> str:
    """What stands before `/chat/completions`, however much of it was given."""
    return url.rstrip("/").removesuffix("/chat/completions").rstrip("/")


def client() -> httpx.AsyncClient:
    """A pool of connections, with the proxies and certificates of the environment.

    Raises:
        Failure: These cannot be used.
    """
    try:
        # Silence is bounded by the call's own limit; only connecting has one of its own.
        return httpx.AsyncClient(timeout=httpx.Timeout(None, connect=10))
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        words = "a proxy or SSL variable of the environment cannot be used"
        raise Failure("connection", f"{words}: {error}") from None


@dataclass(slots=True)
class _Answer:
    pieces: list[str] = field(default_factory=list[str])
    finish: str | None = None


class Api:
    """The API behind one pool of connections."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client = client()
        self._url = access.url

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, prompt: str, model: str, activity: Activity) -> str:
        """The whole answer.

        Raises:
            Failure: Anything less.
        """
        answer = _Answer()
        try:
            await self._stream(self._body(prompt, model), answer, activity)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise self._unreachable(error) from None
        except SSEError as error:
            raise Failure("failed", f"{self.access.url} does not answer like Kimi's API: {error}") from None
        except httpx.HTTPError as error:
            if answer.pieces:
                raise cut_off("the connection broke") from None
            raise self._unreachable(error) from None
        except UnicodeEncodeError:
            raise Failure("auth", "the API key holds characters no key has") from None
        return _whole(answer)

    def _unreachable(self, error: Exception) -> Failure:
        reason = self.access.mask(str(error)) or type(error).__name__
        return Failure("connection", f"{self.access.url} cannot be reached: {reason}")

    def _body(self, prompt: str, model: str) -> dict[str, Any]:
        room = max(1024, CONTEXT_TOKENS - tokens(prompt))
        return {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "stream": True,
            "max_completion_tokens": min(LONGEST_ANSWER, room),
        }

    async def _stream(self, body: dict[str, Any], answer: _Answer, activity: Activity) -> None:
        headers = {"authorization": f"Bearer {self.access.key}", "accept": "text/event-stream"}
        url = f"{self._url}/chat/completions"
        async with self._client.stream("POST", url, json=body, headers=headers) as response:
            if response.has_redirect_location:
                place = self.access.mask(response.headers["location"])
                raise Failure("connection", f"{url} points to {place}, where the key is not sent unasked")
            if response.status_code == 404 and not urlsplit(self._url).path:
                # Only a host was given: there is nothing at its root, and the API is below its version.
                self._url = f"{self.access.url}/v1"
                await self._stream(body, answer, activity)
                return
            if response.status_code != 200:
                raise self._refused(response.status_code, await response.aread())
            async for chunk in _chunks(response):
                if chunk.get("error"):
                    raise self._refused(200, json.dumps(chunk).encode())
                activity.step = 1
                activity.characters += _take(chunk, answer)

    def _refused(self, status: int, body: bytes) -> Failure:
        code, message = _error(body)
        words = self.access.mask(f"{status} {code} {message}".strip() if code else f"{status} {message}")
        kind = _KINDS.get(code) or classify(f"{code} {message}")
        if kind == "failed":
            kind = _STATUSES.get(status) or ("overloaded" if status >= 500 else "failed")
        return Failure(kind, words)


async def _chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    if "json" in response.headers.get("content-type", ""):
        # Not streamed, though asked for: one answer, or an error that came with a 200.
        yield _mapping(_parsed(await response.aread()))
        return
    async for event in EventSource(response).aiter_sse():
        if event.data.strip() == "[DONE]":
            return
        chunk = _mapping(_parsed(event.data))
        yield {"error": chunk} if event.event == "error" and "error" not in chunk else chunk


def _parsed(data: str | bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise cut_off("the stream is garbled") from None


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _take(chunk: dict[str, Any], answer: _Answer) -> int:
    """Add a chunk to the answer and return how many characters it brought."""
    count = 0
    choices = chunk.get("choices")
    for choice in map(_mapping, cast("list[object]", choices) if isinstance(choices, list) else []):
        delta = _mapping(choice.get("delta") or choice.get("message"))
        if isinstance(delta.get("content"), str):
            answer.pieces.append(delta["content"])
            count += len(delta["content"])
        answer.finish = choice.get("finish_reason") or answer.finish
    return count


def _whole(answer: _Answer) -> str:
    text = "".join(answer.pieces).strip()
    if answer.finish == "content_filter":
        raise Failure("content_filter", "Kimi's content filter stopped the answer")
    if answer.finish == "length":
        raise cut_off("it reached the limit of tokens")
    if answer.finish is None:
        raise cut_off("the stream ended early")
    if answer.finish != "stop":
        raise cut_off(f"it ended with {answer.finish!r}")
    if not text:
        raise Failure("failed", "Kimi answered with nothing")
    return text


def _error(body: bytes) -> tuple[str, str]:
    """Type and message of an error body, whatever it looks like."""
    text = body.decode("utf-8", "replace").strip()
    try:
        parsed = json.loads(text)
    except ValueError:
        return "", text[:500]
    fields = _mapping(_mapping(parsed).get("error"))
    if not fields:
        return "", text[:500]
    return str(fields.get("type") or fields.get("code") or ""), str(fields.get("message") or "")
