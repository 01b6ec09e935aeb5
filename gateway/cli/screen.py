"""What people read: tables on a terminal, plain lines when piped."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069]")

SHORTEST = 20
"""Characters that are left of a cell that may be cut."""
_NUMBER = re.compile(r"(?:\d[\d.]*(?: ms)?)?").fullmatch


def say(text: str) -> None:
    sys.stdout.write((harmless(text) if sys.stdout.isatty() else text) + "\n")


def say_json(value: object) -> None:
    """JSON for scripts: what the output cannot show, like half of an emoji, is escaped and not lost."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    say(text)


def complain(text: str) -> None:
    """Words of ours about what is going on, broken between words on a terminal."""
    shown = "\n".join(map(_broken, harmless(text).split("\n"))) if sys.stderr.isatty() else text
    sys.stderr.write(f"{shown}\n")


def harmless(text: str) -> str:
    """Somebody else's words as a terminal may be shown them: they must not move its cursor or set its title."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def flat(text: str) -> str:
    """In one line."""
    return " ".join(text.split())


def sentence(words: str) -> str:
    """In one line that ends as a sentence does."""
    text = flat(words)
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def headline(text: str) -> None:
    """A line that stands out on a terminal."""
    if not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(harmless(text), "bold"))


def paragraph(text: str, indent: str) -> None:
    """Words below a headline, broken at the terminal's width; piped, only indented."""
    for line in text.splitlines():
        words = f"{indent}{line}".rstrip()
        say(_broken(words) if sys.stdout.isatty() else words)


def _broken(line: str) -> str:
    """A line at the terminal's width, its own indentation kept; a path or an address stays whole."""
    width = max(shutil.get_terminal_size().columns, 40)
    indent = line[: len(line) - len(line.lstrip())]
    if not line.isascii():
        return _broken_by_cells(line, width, indent)
    if len(line) <= width:
        return line
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _broken_by_cells(line: str, width: int, indent: str) -> str:
    """The same for characters that may take two columns, or none."""
    from rich.cells import cell_len

    if cell_len(line) <= width:
        return line
    lines: list[str] = []
    current = ""
    for word in line.split():
        longer = f"{current} {word}" if current else f"{indent}{word}"
        if current and cell_len(longer) > width:
            lines.append(current)
            longer = f"{indent}{word}"
        current = longer
    return "\n".join((*lines, current))


def _no_style(heading: str, cell: str) -> str:
    return ""


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    style: Callable[[str, str], str] = _no_style,
    *,
    cut: Sequence[str] = (),
) -> None:
    """A table that fits the terminal; piped, one tab-separated line a row, never wrapped or cut.

    `style` gives the colour of a cell, by its column's heading and its words; the columns in `cut` may lose their end
    on a terminal, so that a row stays a line.
    """
    if not sys.stdout.isatty():
        for row in (headings, *rows):
            say("\t".join(map(flat, row)))
        return
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    lines = [tuple(map(harmless, row)) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *lines, strict=True)]
    taken = sum(width + 2 for heading, width in zip(headings, widths, strict=True) if heading not in cut)
    drawn = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for index, heading in enumerate(headings):
        number = all(_NUMBER(line[index]) for line in lines)
        drawn.add_column(heading, justify="right" if number else "left", overflow="fold")
    for line in lines:
        cells = [Text(cell, style(heading, cell)) for heading, cell in zip(headings, line, strict=True)]
        for cell in (cell for heading, cell in zip(headings, cells, strict=True) if heading in cut):
            cell.truncate(max(console.width - taken - 2, SHORTEST), overflow="ellipsis")
        drawn.add_row(*cells)
    console.print(drawn)
