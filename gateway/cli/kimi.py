"""`kimi-gateway kimi`: only Kimi's four tools, over stdio."""

from __future__ import annotations

import argparse
import sys

HINT = """\
This is an MCP server: a client starts it and speaks to it over stdin and stdout. For Claude Code:
  claude mcp add kimi -- kimi-gateway kimi
To try a tool by hand: kimi-gateway call kimi:kimi_analyze prompt=hello
Ctrl-C ends it.
"""


def run(options: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    if sys.stdin.isatty():
        sys.stderr.write(HINT)
    # Here, because no other command should pay for importing the SDK.
    from servers.kimi.server import run as serve

    return serve()
