"""What `serve --http` says when it starts: it fits a terminal, and what it says to paste is what clients understand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable

from gateway.cli.welcome import addresses, recipes
from tests.client import until
from tests.http.conftest import Serve
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]
URL = "http://127.0.0.1:8765/mcp"
TOKEN = "t" * 43


def section(lines: list[str], client: str) -> str:
    """What is to be pasted for a client."""
    start = next(number for number, line in enumerate(lines) if line.startswith("  ") and client in line) + 1
    taken: list[str] = []
    for line in lines[start:]:
        if not line.startswith("    "):
            break
        taken.append(line.removeprefix("    "))
    return "\n".join(taken)


def test_every_line_fits_a_terminal_of_80_columns() -> None:
    for line in (*addresses(URL), *recipes(URL, TOKEN, 80), *recipes(URL, None, 80)):
        assert len(line) <= 80, line


def test_what_is_to_be_pasted_says_address_and_token() -> None:
    lines = recipes(URL, TOKEN, 80)
    header = f"Authorization: Bearer {TOKEN}"
    for program in ("claude", "gemini"):
        command = section(lines, {"claude": "Claude Code", "gemini": "Gemini CLI"}[program])
        assert command == f'{program} mcp add --transport http kimi-gateway {URL} \\\n--header "{header}"'
    entry = {"url": URL, "headers": {"Authorization": f"Bearer {TOKEN}"}}
    assert json.loads(section(lines, "Cursor")) == {"mcpServers": {"kimi-gateway": entry}}
    assert section(lines, "Kimi Code") == section(lines, "Cursor")
    assert json.loads(section(lines, "VS Code")) == {"servers": {"kimi-gateway": {"type": "http", **entry}}}
    codex = tomllib.loads(section(lines, "Codex"))
    assert codex == {"mcp_servers": {"kimi-gateway": {"url": URL, "http_headers": entry["headers"]}}}


def test_where_there_is_no_terminal_a_command_is_one_line() -> None:
    lines = recipes(URL, TOKEN, None)
    for program in ("claude", "gemini"):
        command = section(lines, {"claude": "Claude Code", "gemini": "Gemini CLI"}[program])
        header = f"Authorization: Bearer {TOKEN}"
        assert command == f'{program} mcp add --transport http kimi-gateway {URL} --header "{header}"'


def test_without_a_token_nothing_says_one() -> None:
    lines = recipes(URL, None, None)
    assert "Authorization" not in "\n".join(lines)
    assert section(lines, "Claude Code") == f"claude mcp add --transport http kimi-gateway {URL}"
    assert tomllib.loads(section(lines, "Codex")) == {"mcp_servers": {"kimi-gateway": {"url": URL}}}


def test_it_names_the_tools_that_its_profile_leaves(serve: Serve, puppet: Make) -> None:
    a = puppet("a", tools=[tool("get"), tool("drop")])
    profiles = {"reader": {"tools": {"allow": ["a:get"]}}}
    served = serve(a, arguments=("--profile", "reader"), gateway={"profiles": profiles})
    until(lambda: b"VS Code" in served.gateway.errors, "the lines to paste")
    said = served.gateway.errors.decode()
    assert "get" in said.split() and "drop" not in said


def test_it_says_what_is_there_once_it_is_there(serve: Serve, puppet: Make) -> None:
    a = puppet("a", tools=[tool(f"t{number}") for number in range(9)])
    served = serve(a, servers={"broken": {"command": "/no/such/program"}})
    until(lambda: b"VS Code" in served.gateway.errors, "the lines to paste")
    said = served.gateway.errors.decode()
    assert "t0, t1, t2, t3, t4, t5 and 3 more" in said
    assert "broken" in said
    assert f"  http://127.0.0.1:{served.port}/mcp\n" in said
    assert served.gateway.messages == []
