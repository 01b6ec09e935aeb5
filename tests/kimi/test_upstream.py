"""Kimi as one of the gateway's servers, and the guard against recursion: what is decided before anything starts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.load import load
from configs.models import Config, Server, Source
from servers.kimi.recursion import MARK, processes_of, run_of
from servers.kimi.upstream import BELOW, entry, shipped, with_kimi
from tests.client import until


def config(home: Path, **gateway: object) -> Config:
    servers = {"files": {"command": "files"}}
    (home / ".kode.json").write_text(json.dumps({"mcpServers": servers, "gateway": gateway}))
    return load(cwd=home, home=home, environ={})


def test_it_is_there_unless_it_is_switched_off(home: Path) -> None:
    assert list(with_kimi(config(home), {}).servers) == ["files", "kimi"]
    assert list(with_kimi(config(home, kimi=False), {}).servers) == ["files"]


def test_its_listing_is_shipped_but_not_that_of_somebody_elses_kimi(home: Path) -> None:
    listing = shipped(with_kimi(config(home), {}).servers["kimi"])
    assert listing is not None
    assert [json.loads(tool)["name"] for tool in listing.tools] == [
        "kimi_analyze", "kimi_implement", "kimi_refactor", "kimi_verify",
    ]  # fmt: skip
    assert shipped(Server("kimi", "stdio", Source(None, "global"), command="kimi")) is None


def test_it_gets_kimis_variables_and_none_of_the_gateways(home: Path) -> None:
    environ = {
        "KIMI_API_KEY": "sk-1",
        "KIMI_MCP_TIMEOUT": "60",
        "MOONSHOT_API_KEY": "sk-2",
        "https_proxy": "http://user:secret@proxy",
        "NO_PROXY": "localhost",
        "KIMI_GATEWAY_TOKEN": "token",
        "GITHUB_TOKEN": "ghp",
    }
    server = entry(environ)
    assert set(server.env) == {"KIMI_API_KEY", "KIMI_MCP_TIMEOUT", "MOONSHOT_API_KEY", "https_proxy", "NO_PROXY"}
    assert server.secrets == {"sk-1", "sk-2", "http://user:secret@proxy"}
    assert server.timeout == math.inf


def test_below_a_kimi_run_no_server_is_started_unless_asked_for(home: Path) -> None:
    inside = {MARK: "run"}
    below = with_kimi(config(home), inside)
    assert below.servers == {} and BELOW in below.problems
    assert '"kimi": {"tools": true}' in str(BELOW)
    assert list(with_kimi(config(home, kimi={"tools": True}), inside).servers) == ["files"]


@pytest.mark.parametrize(
    ("variables", "before", "seen"),
    [
        ({MARK: "run"}, "", "True"),
        ({}, "from servers.kimi.recursion import name_server; name_server()", "True"),
        ({}, "", "False"),
    ],
)
def test_a_kimi_run_is_noticed_through_the_ancestors(variables: dict[str, str], before: str, seen: str) -> None:
    """By the variables of one above, or by our server above it: programs between hand on nothing."""
    look = "from servers.kimi.recursion import below_kimi; print(below_kimi())"
    program = f"{before}\nimport subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], env={{}})"
    environ = {name: value for name, value in os.environ.items() if name != MARK} | variables
    command = [sys.executable, "-c", program, look]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == seen


def test_processes_of_a_run_are_found_by_its_mark() -> None:
    environ = {**os.environ, MARK: "a-run-of-this-test"}
    with subprocess.Popen(["sleep", "100"], env=environ, start_new_session=True) as process:
        try:
            until(lambda: run_of(process.pid) == "a-run-of-this-test", "the variables of a program just started")
            assert processes_of("a-run-of-this-test") == [process.pid]
            assert processes_of("another") == []
        finally:
            process.kill()
