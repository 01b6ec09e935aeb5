"""The command line: one module per command, and the only place where objects are wired together."""

from __future__ import annotations

import io
import os
import sys

INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell says of a program that SIGPIPE ended."""


def main() -> None:
    """The console script."""
    from gateway.cli.parser import parse

    _fill_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the output cannot show costs itself, not the command.
            stream.reconfigure(errors="replace")
    try:
        code = parse(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output (`| head`) has seen enough; nothing may be flushed there at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = PIPE_CLOSED
    sys.exit(code)


def _fill_standard_streams() -> None:
    """Where one of the three is closed, a socket of ours would take its number and be written to as if it were that."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
