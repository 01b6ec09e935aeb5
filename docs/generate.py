"""Write what the docs take from the code: `docs/cli.md`, and the diagram in `docs/architecture.md`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from clients.state import diagram
from gateway.cli.parser import WIDTH, commands_of, parser

HERE = Path(__file__).parent
CLI = HERE / "cli.md"
ARCHITECTURE = HERE / "architecture.md"
_MERMAID = re.compile(r"(?<=```mermaid\n).*?(?=\n```)", re.DOTALL)
MARK = "<!-- From here on made from `--help` by `make docs`; `make check` fails where it is out of date. -->\n"


def cli(text: str) -> str:
    """The page with every command's help below its mark."""
    os.environ["COLUMNS"] = str(WIDTH)
    top = parser()
    parts = [text.partition(MARK)[0] + MARK, "## kimi-gateway\n", _fenced(top.format_help())]
    for name, sub in commands_of(top).items():
        parts += [f"## kimi-gateway {name}\n", _fenced(sub.format_help())]
    return "\n".join(parts)


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


def architecture(text: str) -> str:
    """The page with the diagram of the states as the table has it."""
    return _MERMAID.sub(lambda _: diagram(), text)


def outdated() -> dict[Path, str]:
    """The files that are not as they should be, with what they should be."""
    wanted = {CLI: cli(CLI.read_text()), ARCHITECTURE: architecture(ARCHITECTURE.read_text())}
    return {file: text for file, text in wanted.items() if file.read_text() != text}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="write nothing; fail where something is out of date")
    checking: bool = options.parse_args().check
    found = outdated()
    for file, text in found.items():
        if checking:
            sys.stderr.write(f"{file.name} is out of date: run `make docs`\n")
        else:
            file.write_text(text)
    return 1 if checking and found else 0


if __name__ == "__main__":
    sys.exit(main())
