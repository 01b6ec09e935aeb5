"""Help, errors and pipes: what every command has in common."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gateway.cli.parser import commands_of, parser
from tests.cli.place import DEMO, Place
from tests.client import DEADLINE, command

COMMANDS = commands_of(parser())
HEAVY = ("mcp", "rich", "pydantic", "pydantic_settings", "asyncio", "aiohttp", "httpx", "msgspec", "uvicorn")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(place: Place, name: str) -> None:
    done = place.run(name, "--help")
    assert done.returncode == 0
    assert "example" in done.stdout and f"kimi-gateway {name}" in done.stdout.split("example", 1)[1]
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom gateway.cli.parser import parse\n"
        "try:\n    parse(['tools', '--help'])\nexcept SystemExit:\n    pass\n"
        f"heavy = set({HEAVY!r}) & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required: COMMAND"),
        (["stauts"], "Did you mean status?"),
        (["zzz"], "`kimi-gateway --help` lists all there are."),
        (["call"], "required: SERVER:TOOL"),
        (["status", "--jsno"], "unrecognized arguments: --jsno"),
        (["status", "--project", "/no/such/place"], "/no/such/place: no such directory"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
    ],
)
def test_wrong_usage_is_two_lines_at_most_and_exit_code_2(place: Place, words: list[str], said: str) -> None:
    done = place.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and 1 <= done.stderr.count("\n") <= 2


def test_help_fits_a_terminal_of_80_columns(place: Place) -> None:
    screen = place.terminal("--help", columns=80)
    assert screen.wait() == 0
    assert max(map(len, screen.lines)) <= 80


def test_a_directory_that_is_gone_is_said_to_be(place: Place) -> None:
    words = f'mkdir gone; cd gone; rmdir ../gone; exec "{command()}" status'
    done = subprocess.run(
        ["sh", "-c", words], cwd=place.project, env=place.environment, capture_output=True, text=True, timeout=DEADLINE
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kimi-gateway: the directory you are in is gone. Change to one that exists.\n"


def test_an_unexpected_failure_is_one_line(place: Place) -> None:
    from tests.cli.test_call import PIXEL

    server = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if 'id' not in m: continue\n"
        "    r = {'initialize': {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}},"
        " 'serverInfo': {'name': 'x', 'version': '1'}},"
        " 'tools/list': {'tools': [{'name': 'draw', 'inputSchema': {'type': 'object'}}]},"
        f" 'tools/call': {{'content': [{{'type': 'image', 'data': '{PIXEL}', 'mimeType': 'image/png'}}]}}}}"
        ".get(m['method'])\n"
        "    a = {'result': r} if r is not None else {'error': {'code': -32601, 'message': 'no'}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **a}), flush=True)\n"
    )
    place.configure({"x": {"command": sys.executable, "args": ["-c", server]}})
    blocked = place.home / "a-file"
    blocked.touch()
    done = place.run("call", "x:draw", "--output", str(blocked / "below"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "KIMI_GATEWAY_DEBUG=1" in done.stderr and "a-file" in done.stderr
    place.variables["KIMI_GATEWAY_DEBUG"] = "1"
    assert "Traceback" in place.run("call", "x:draw", "--output", str(blocked / "below")).stderr


def test_a_reader_that_has_seen_enough_ends_it_quietly(place: Place) -> None:
    place.configure({f"demo{number}": DEMO for number in range(3)})
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [command(), "tools"],
            cwd=place.project,
            env=place.environment,
            stdout=write,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_character_the_output_cannot_show_costs_only_itself(place: Place) -> None:
    place.variables["PYTHONIOENCODING"] = "ascii"
    place.configure({"demo": DEMO})
    done = place.run("call", "demo:echo", "text=Grüße")
    assert (done.returncode, done.stdout) == (0, "Gr??e\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["status", "serve"])
def test_a_closed_stdin_stdout_or_stderr_is_as_an_empty_one(place: Place, words: str, closed: str) -> None:
    script = f'exec "$0" {words} {closed}'
    done = subprocess.run(
        ["sh", "-c", script, command()],
        env=place.environment,
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr and "descriptor" not in done.stderr
