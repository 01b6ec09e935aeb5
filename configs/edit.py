"""Change one value in the text of a JSON file and leave every other byte as it was. Pure."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from configs.document import Document, Fault, Json, KeyPath, Member, Span, dotted, parse, uncomment

_SPACES = " \t\r\n"
_OWN_COMMENT = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)(?=[ \t]*\r?\n)")
"""A comment in the rest of a member's line: it belongs to it."""
_LINE_ENDS = re.compile(r"[ \t]*\r?\n")


def put(document: Document, path: KeyPath, value: Json) -> str:
    """The text with a value at a path of keys: in place of the one there, or after its last sibling.

    Raises:
        Fault: something that is no object stands in the way.
    """
    style = _Style.of(document)
    if document.root is None:
        before = document.text.rstrip(_SPACES)
        glue = style.newline if before.strip("\ufeff") else ""
        return before + glue + style.spell(_nested(path, value), "") + style.newline
    if found := document.find(path):
        here = _indentation(document.text, found.key_span.start)
        whole = style.spell(value, here) if style.pretty else style.compact(value)
        return _spliced(document.text, found.value_span, whole)
    depth = next(depth for depth in range(len(path)) if not document.find(path[: depth + 1]))
    holder = document.find(path[:depth])
    if holder and not isinstance(holder.value, dict):
        place = document.locate(holder.value_span.start)
        raise Fault(place, f"{dotted(path[:depth])} must be an object", "Write { … } in its place.")
    return _insert(document, style, path[:depth], str(path[depth]), _nested(path[depth + 1 :], value))


def drop(document: Document, path: KeyPath) -> str:
    """The text without the member at a path, however often it is written, and without what only it needed."""
    text = document.text
    while document.find(path):
        text = _without_last(document, path)
        document = parse(text)
    return text


class _Style(NamedTuple):
    """How a file is written."""

    newline: str
    unit: str
    """One level of indentation."""
    pretty: bool
    colon: str
    comma: str

    @classmethod
    def of(cls, document: Document) -> _Style:
        text = document.text
        newline = "\r\n" if "\r\n" in text else "\n"
        members = document.members()
        if not members or document.root is None:
            return cls(newline, "  ", True, ": ", ", ")
        first = members[0]
        pretty = "\n" in text[document.root.start : document.root.end]
        own_line = "\n" in text[document.root.start : first.key_span.start]
        unit = (own_line and _indentation(text, first.key_span.start)) or "  "
        tight = text[first.key_span.end : first.value_span.start] == ":"
        return cls(newline, unit, pretty, ":" if tight else ": ", "," if tight else ", ")

    def spell(self, value: Json, indentation: str) -> str:
        """A value over several lines, all but the first indented."""
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + indentation).join(lines)

    def compact(self, value: Json) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))


def _insert(document: Document, style: _Style, path: KeyPath, key: str, value: Json) -> str:
    """The text with a new last member in the object at a path."""
    text, span, members = document.text, _span(document, path), document.members(path)
    close = span.end - 1
    # Up to here everything is somebody's: members, commas, comments.
    end = span.start + 1 + len(text[span.start + 1 : close].rstrip(_SPACES))
    name = json.dumps(key, ensure_ascii=False)
    outer = _indentation(text, span.start)
    if members and _first_in_line(text, members[-1].key_span.start):
        inner = _indentation(text, members[-1].key_span.start)
    else:
        inner = outer + style.unit
    lines = f"{style.newline}{inner}{name}: {style.spell(value, inner)}"
    one_line = f"{name}{style.colon}{style.compact(value)}"
    if not members:
        if "\n" in text[end:close]:
            return text[:end] + lines + text[end:]
        if end == span.start + 1 and (style.pretty or not path):
            return text[:end] + lines + style.newline + outer + text[close:]
        return text[:end] + one_line + text[end:]
    last = members[-1].value_span.end
    inline = "\n" not in text[end:close]
    if "," in uncomment(text[last:close]):
        return text[:end] + (style.comma[1:] + one_line if inline else lines) + "," + text[end:]
    if inline:
        return text[:last] + style.comma + one_line + text[last:]
    return text[:last] + "," + text[last:end] + lines + text[end:]


def _without_last(document: Document, path: KeyPath) -> str:
    """The text without the last member of that name."""
    text, span, members = document.text, _span(document, path[:-1]), document.members(path[:-1])
    index = max(index for index, member in enumerate(members) if member.key == path[-1])
    region = _region(text, span, members, index)
    if len(members) == 1:
        rest = text[span.start + 1 : region.start] + text[region.end : span.end - 1]
        return _spliced(text, Span(span.start + 1, span.end - 1), rest if rest.strip(_SPACES) else "")
    shorter = _spliced(text, region, "")
    owned_comma = "," in uncomment(text[members[index].value_span.end : region.end])
    if index == len(members) - 1 and not owned_comma:
        # The comma before it has nothing to separate any more.
        before = members[index - 1].value_span.end
        comma = before + uncomment(text[before : members[index].key_span.start]).index(",")
        shorter = _spliced(shorter, Span(comma, comma + 1), "")
    return shorter


def _region(text: str, span: Span, members: tuple[Member, ...], index: int) -> Span:
    """A member with its comma, the comment behind it in its line, and the white space before it."""
    member = members[index]
    floor = members[index - 1].value_span.end if index else span.start + 1
    ceiling = members[index + 1].key_span.start if index + 1 < len(members) else span.end - 1
    key = member.key_span.start
    start = floor + len(text[floor:key].rstrip(_SPACES))
    end = member.value_span.end
    end += uncomment(text[end:ceiling]).find(",") + 1
    if own := _OWN_COMMENT.match(text, end, ceiling):
        end = own.end()
    elif start == key and index + 1 < len(members):
        end += len(text[end:ceiling]) - len(text[end:ceiling].lstrip(" \t"))
    commented = text[floor:start].rstrip(_SPACES) != uncomment(text[floor:start]).rstrip(_SPACES)
    if commented and not _LINE_ENDS.match(text, end):
        # What follows must not move up into a comment.
        start = key
    return Span(start, end)


def _span(document: Document, path: KeyPath) -> Span:
    found = document.find(path) if path else None
    span = found.value_span if found else document.root
    assert span is not None, "an object without a place"
    return span


def _nested(path: KeyPath, value: Json) -> Json:
    for key in reversed(path):
        value = {str(key): value}
    return value


def _spliced(text: str, span: Span, new: str) -> str:
    return text[: span.start] + new + text[span.end :]


def _indentation(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _first_in_line(text: str, offset: int) -> bool:
    return not text[text.rfind("\n", 0, offset) + 1 : offset].strip(" \t\ufeff")
