"""Show a tool's result: text as text, pictures and sound as files, everything else in a line."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
import tempfile
from itertools import count
from pathlib import Path
from typing import Any, cast

from gateway.cli.screen import complain, say

EXTENSIONS = {"image/jpeg": ".jpg", "image/webp": ".webp", "audio/wav": ".wav", "audio/mpeg": ".mp3"}
"""Where the machine's own table is known to be missing or odd."""


class Shown:
    """Prints one result; files go to a directory, by default a new temporary one."""

    def __init__(self, tool: str, directory: Path | None) -> None:
        self._stem = re.sub(r"[^A-Za-z0-9_-]+", "-", tool).strip("-") or "result"
        self._directory = directory

    def show(self, result: dict[str, Any]) -> None:
        texts: list[str] = []
        for item in cast("list[dict[str, Any]]", result.get("content") or []):
            self._item(item, texts)
        structured = result.get("structuredContent")
        # Servers send it as text too, for clients that do not know it.
        if structured is not None and not any(_same(text, structured) for text in texts):
            say(json.dumps(structured, indent=2, ensure_ascii=False))

    def _item(self, item: dict[str, Any], texts: list[str]) -> None:
        match item:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
                say(text)
            case {"type": "image" | "audio" as what, "data": str(data)}:
                self._save(what, data, str(item.get("mimeType") or ""))
            case {"type": "resource_link", "uri": str(uri)}:
                say(_line(f"resource {uri}", item, ("title", "name", "mimeType", "description")))
            case {"type": "resource", "resource": {"text": str(text)}}:
                say(text)
            case {"type": "resource", "resource": {"blob": str(data)} as resource}:
                self._save(f"resource {resource.get('uri', '')}", data, str(resource.get("mimeType") or ""))
            case _:
                say(json.dumps(item, ensure_ascii=False))

    def _save(self, what: str, data: str, kind: str) -> None:
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            complain(f"{what} ({kind}): it is not base64 and was not saved")
            return
        file = self._write(content, EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ".bin")
        say(f"{what} ({kind or 'no type'}, {len(content)} bytes): {file}")

    def _write(self, content: bytes, extension: str) -> Path:
        """In a new file: one that is there stays."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="kimi-gateway-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            file = self._directory / f"{self._stem}-{number}{extension}"
            try:
                with file.open("xb") as opened:
                    opened.write(content)
            except FileExistsError:
                continue
            return file
        raise AssertionError


def _line(start: str, item: dict[str, Any], keys: tuple[str, ...]) -> str:
    words = [str(item[key]) for key in keys if item.get(key)]
    return f"{start} ({'; '.join(words)})" if words else start


def _same(text: str, structured: object) -> bool:
    try:
        return json.loads(text) == structured
    except (ValueError, RecursionError):
        return False
