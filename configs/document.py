"""Read JSON that people edit (comments and trailing commas allowed) into plain values whose places are known."""

from __future__ import annotations

import json
import re
import stat
from bisect import bisect_left
from collections.abc import Iterator
from json import JSONDecodeError
from pathlib import Path
from typing import NamedTuple, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
KeyPath: TypeAlias = tuple[str | int, ...]

SIZE_LIMIT = 64 * 1024 * 1024

_BOM = "\ufeff"
_SPACE = re.compile(r"[ \t\n\r]*+")
_BREAK = re.compile("\n")
_VISIBLE = re.compile(r"[^\n]")
_PLAIN_KEY = re.compile(r"[\w-]+")
# Possessive, and an unclosed text or comment runs to the end: each pass stays linear whatever the input.
_COMMENT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\]++|\\.)*+"?|,(?=[ \t\n\r]*+[}\]])', re.DOTALL)

_DECODER = json.JSONDecoder()
# Python refuses integers of more than 4,300 digits; a file that holds one is still a file we must read.
_HUGE_NUMBERS = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 4000 else float(digits))


class Fault(Exception):
    """A file that cannot be read as a whole: where, why, and what to do."""

    def __init__(self, place: Place, message: str, fix: str) -> None:
        super().__init__(f"{place.line}:{place.column}: {message}. {fix}")
        self.place = place
        self.message = message
        self.fix = fix


class Place(NamedTuple):
    """Line and column as an editor counts them, from 1."""

    line: int
    column: int


class Span(NamedTuple):
    """A stretch of `Document.text`, in characters."""

    start: int
    end: int


class Member(NamedTuple):
    """One member of an object or array; `key` is spanned with its quotes, an array's index by its value."""

    key: str | int
    value: Json
    key_span: Span
    value_span: Span


class Document:
    """The values of one file; places below the top level are looked up only when somebody asks."""

    def __init__(self, text: str, plain: str) -> None:
        self.text = text
        self._plain = plain
        self._children: dict[int, tuple[Member, ...]] = {}
        self._breaks: list[int] | None = None
        start = _skip(plain, 1 if text.startswith(_BOM) else 0)
        self.root: Span | None = None
        self.value: dict[str, Json] = {}
        if start < len(plain):
            self._read_root(start)

    def _read_root(self, start: int) -> None:
        if self._plain[start] != "{":
            _read_value(self._plain, start)
            place = locate(self.text, start)
            raise Fault(place, "the file must hold one JSON object", "Put everything inside { }.")
        members, end = _walk(self._plain, start)
        if (rest := _skip(self._plain, end)) < len(self._plain):
            raise JSONDecodeError("Extra data", self._plain, rest)
        self.root = Span(start, end)
        self._children[start] = members
        self.value = {str(member.key): member.value for member in members}

    def members(self, path: KeyPath = ()) -> tuple[Member, ...]:
        """All members at a path in the order written, duplicates included; none for what is not a container."""
        found = self.find(path) if path else None
        span = found.value_span if found else self.root
        if span is None or (path and found is None) or self._plain[span.start] not in "{[":
            return ()
        if span.start not in self._children:
            self._children[span.start] = _walk(self._plain, span.start)[0]
        return self._children[span.start]

    def find(self, path: KeyPath) -> Member | None:
        """The member at a path; of duplicates the last, as in the values."""
        siblings = self.members(path[:-1]) if path else ()
        return next((member for member in reversed(siblings) if member.key == path[-1]), None)

    def place(self, path: KeyPath, *, key: bool = False) -> Place:
        """Where a value (or its key) stands; for what is not written, the key of what would hold it."""
        for length in range(len(path), 0, -1):
            if member := self.find(path[:length]):
                at_key = key or length < len(path)
                return self.locate((member.key_span if at_key else member.value_span).start)
        return self.locate(self.root.start if self.root else 0)

    def locate(self, offset: int) -> Place:
        """Line and column of an offset; many of them cost one pass over the text."""
        if self._breaks is None:
            self._breaks = [match.start() for match in _BREAK.finditer(self.text)]
        line = bisect_left(self._breaks, offset)
        start = self._breaks[line - 1] + 1 if line else int(self.text.startswith(_BOM))
        return Place(line + 1, max(offset - start, 0) + 1)

    def duplicates(self, path: KeyPath, depth: int = 6) -> Iterator[tuple[KeyPath, Place]]:
        """Keys below a path written more than once, each with the place of the first; bounded in depth."""
        seen: dict[str | int, Member] = {}
        for member in self.members(path):
            first = seen.setdefault(member.key, member)
            if first is not member:
                yield (*path, member.key), self.locate(first.key_span.start)
            elif depth and isinstance(member.value, dict):
                yield from self.duplicates((*path, member.key), depth - 1)


def read(file: Path) -> Document | None:
    """The document in a file, or `None` where there is no such file.

    Raises:
        Fault: it is there and cannot be read.
    """
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):
            kind = "a directory" if stat.S_ISDIR(about.st_mode) else "not a regular file"
            raise Fault(Place(1, 1), f"this is {kind}", "Put a JSON file in its place, or remove it.")
        if about.st_size > SIZE_LIMIT:
            raise Fault(Place(1, 1), f"the file is larger than {SIZE_LIMIT >> 20} MiB", "Make it smaller.")
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Fault(Place(1, 1), f"cannot be read: {reason}", "Check its permissions.") from error
    return parse(_decode(data))


def parse(text: str) -> Document:
    """The document of a text; white space alone is an empty document.

    Raises:
        Fault: it is not JSON, not even with comments and trailing commas.
    """
    try:
        return Document(text, text)
    except JSONDecodeError:
        pass
    try:
        return Document(text, blank(text))
    except JSONDecodeError as error:
        raise _explain(text, error) from error


def blank(text: str) -> str:
    """The text with comments and trailing commas turned into spaces: strict JSON in which every offset still holds."""
    return _TRAILING.sub(_without_comma, uncomment(text))


def uncomment(text: str) -> str:
    """The text, or a stretch of it that begins outside of quotes, with comments turned into spaces."""
    return _COMMENT.sub(_without_comment, text)


def _without_comment(match: re.Match[str]) -> str:
    found = match.group()
    closed = found.startswith("//") or (found.endswith("*/") and len(found) > 3)
    return _VISIBLE.sub(" ", found) if found[0] == "/" and closed else found


def _without_comma(match: re.Match[str]) -> str:
    found = match.group()
    return " " if found == "," else found


def dotted(path: KeyPath) -> str:
    """A path as people write it: `mcpServers.github.args[2]`, `projects["/a/b"].mcpServers`."""
    parts: list[str] = []
    for key in path:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif _PLAIN_KEY.fullmatch(key):
            parts.append(f".{key}" if parts else key)
        else:
            parts.append(f"[{json.dumps(key, ensure_ascii=not key.isprintable())}]")
    return "".join(parts)


def locate(text: str, offset: int) -> Place:
    """Line and column of one offset in a text that is no document."""
    start = text.rfind("\n", 0, offset) + 1
    hidden = 1 if start == 0 and text.startswith(_BOM) else 0
    return Place(text.count("\n", 0, offset) + 1, max(offset - start - hidden, 0) + 1)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8")
        raise Fault(locate(good, len(good)), "the file is not UTF-8", "Save it as UTF-8.") from error


def _skip(plain: str, offset: int) -> int:
    match = _SPACE.match(plain, offset)
    return match.end() if match else offset


def _walk(plain: str, start: int) -> tuple[tuple[Member, ...], int]:
    """The members of the object or array that starts here, and where it ends; values are skipped at C speed."""
    is_object = plain[start] == "{"
    close = "}" if is_object else "]"
    members: list[Member] = []
    position = _skip(plain, start + 1)
    if plain[position : position + 1] == close:
        return (), position + 1
    while True:
        key: Json = len(members)
        key_start = key_end = position
        if is_object:
            key, key_end, position = _read_key(plain, position)
        value, end = _read_value(plain, position)
        key_span = Span(key_start, key_end) if is_object else Span(position, end)
        members.append(Member(key, value, key_span, Span(position, end)))
        position = _skip(plain, end)
        mark = plain[position : position + 1]
        if mark == close:
            return tuple(members), position + 1
        if mark != ",":
            raise JSONDecodeError("Expecting ',' delimiter", plain, position)
        position = _skip(plain, position + 1)


def _read_key(plain: str, position: int) -> tuple[str, int, int]:
    if plain[position : position + 1] != '"':
        raise JSONDecodeError("Expecting property name enclosed in double quotes", plain, position)
    key, end = _DECODER.raw_decode(plain, position)
    colon = _skip(plain, end)
    if plain[colon : colon + 1] != ":":
        raise JSONDecodeError("Expecting ':' delimiter", plain, colon)
    return key, end, _skip(plain, colon + 1)


def _read_value(plain: str, position: int) -> tuple[Json, int]:
    try:
        try:
            return _DECODER.raw_decode(plain, position)
        except JSONDecodeError:
            raise
        except ValueError:
            return _HUGE_NUMBERS.raw_decode(plain, position)
    except RecursionError:
        place = locate(plain, position)
        raise Fault(place, "this value is nested too deeply", "Nest it less deeply.") from None


_MESSAGES = {
    "Expecting property name": ("a key is expected here", 'Write "key": value, with double quotes around the key.'),
    "Expecting ':'": ("a colon is missing here", 'Write "key": value.'),
    "Expecting ','": ("a comma or a closing bracket is missing before this", "Put it there."),
    "Expecting value": ("a value is expected here", "Write text in double quotes, a number, true, false, [ ] or { }."),
    "Unterminated string": ("this text has no closing quote", 'Close it with ".'),
    "Invalid control character": ("a text must end in the line it began in", 'Close it with ", or write \\n or \\t.'),
    "Invalid \\": ("this backslash means nothing in JSON", "Write \\\\ for a backslash."),
    "Extra data": ("the JSON object has ended before this", "Remove it, or the closing bracket too many."),
}  # fmt: skip


def _explain(text: str, error: JSONDecodeError) -> Fault:
    """Say what JSON's own message means to the person who wrote the file."""
    message, fix = next(
        (words for start, words in _MESSAGES.items() if error.msg.startswith(start)),
        (error.msg.lower(), "Write it as JSON."),
    )
    rest = text[error.pos : error.pos + 2]
    if rest == "/*":
        message, fix = "this comment is not closed", "Close it with */."
    elif not rest and error.msg.startswith("Expecting"):
        message, fix = "the file ends too early", "Add the closing bracket that is missing."
    elif rest.startswith("'"):
        message, fix = "single quotes are not JSON", 'Use double quotes: ".'
    return Fault(locate(text, error.pos), message, fix)
