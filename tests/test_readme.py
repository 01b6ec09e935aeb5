"""Every command of the README is run, in the order and with the configuration it shows.

Published packages come from the tests' own caches, through an `npx` and a `uvx` that know nothing else. Claude Code is
the real one. Not as written: `serve --http` and `make run` get a free port, and `make test`, which would run this file
again, is only looked at. What stands in a sentence is checked against the grammar where it is one of our commands;
`pipx`, `uv tool` and `npm install -g` would change the machine and are not run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli import running_file
from gateway.cli.parser import commands_of, parser
from tests.cli.place import Place
from tests.client import DEADLINE, until
from tests.kimi.conftest import npm as npm
from tests.real import install
from tests.real.conftest import Installed
from tests.real.conftest import installed as installed

pytestmark = pytest.mark.timeout(600)
"""Seconds: on a fresh machine the first of these installs all that the others need, too."""
REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text()
SECTIONS = {part.split("\n", 1)[0]: part for part in README.split("\n## ")[1:]}
CONFIGS = re.findall(r"```json\n(.*?)```", README, re.DOTALL)


def commands(text: str) -> list[str]:
    """The lines of its shell blocks, without their remarks."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = (re.sub(r"\s{2,}#.*", "", line).strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]


@pytest.fixture
def place(tmp_path: Path, installed: Installed, npm: Path) -> Iterator[Place]:
    """A home with the README's configuration, and the programs it names."""
    made = Place(tmp_path)
    (made.home / ".kode.json").write_text(CONFIGS[0])
    (made.project / ".kode.json").write_text(CONFIGS[1])
    (made.home / ".cursor").mkdir()
    (made.home / ".cursor" / "mcp.json").write_text(
        '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
    )
    script(
        made,
        "npx",
        f'shift; package=$1; shift\nexec {install.node().node} {installed.modules}/$package/dist/index.js "$@"',
    )
    script(made, "uvx", f'program=$1; shift\nexec {installed.programs}/$program "$@"')
    script(made, "claude", f'exec {npm}/@anthropic-ai/claude-code-linux-x64/claude "$@"')
    yield made
    made.close()


def script(place: Place, name: str, body: str) -> None:
    file = place.bin / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def run(place: Place, line: str) -> str:
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place.project,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def serves(place: Place, line: str) -> None:
    """Start an HTTP endpoint on a port of its own, see that it answers, and end it."""
    words = shlex.split(line.replace("--http", "--http 127.0.0.1:0"))
    file = running_file.place(place.project, place.home, {})
    with subprocess.Popen(
        words,
        cwd=place.project,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until(file.exists, f"what {line} leaves when it serves")
            url = json.loads(file.read_text())["url"].replace("/mcp", "/health")

            def healthy() -> bool:
                with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
                    return answer.read().strip() == b"ok"

            assert until(healthy, f"an answer of {url}")
        finally:
            process.terminate()
            process.wait(DEADLINE)


def made_by(target: str) -> list[str]:
    """The commands of a target of the Makefile, when everything is installed."""
    asked = ["make", "--no-print-directory", "-n", "-o", ".venv/.installed", target]
    return subprocess.run(asked, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("section", [name for name, text in SECTIONS.items() if commands(text)])
def test_every_command_works(place: Place, section: str) -> None:
    for line in commands(SECTIONS[section]):
        if line == "make test":
            assert "pytest" in made_by("test")[-1]
        elif line == "make run":
            program, *words = shlex.split(made_by("run")[-1])
            assert program.endswith("/kimi-gateway")
            serves(place, shlex.join(["kimi-gateway", *words]))
        elif line.startswith("kimi-gateway serve --http"):
            serves(place, line)
        elif line.startswith("claude mcp add"):
            run(place, line)
            name = line.split()[3]
            listed = run(place, "claude mcp list")
            assert re.search(rf"^{name}: .*Connected", listed, re.MULTILINE), listed
        else:
            assert line.startswith("kimi-gateway "), f"no way to test {line!r}"
            run(place, line)


def test_the_configuration_means_what_the_readme_says(place: Place) -> None:
    outside = place.home / "elsewhere"
    outside.mkdir()
    status = json.loads(run(place, f"kimi-gateway status --json --project {outside}"))["servers"]
    assert {name for name, one in status.items() if one["state"] == "ready"} == {"files", "memory", "git"}
    assert status["github"]["state"] == "disabled" and status["kimi"]["tools"] == 4
    names = {one["name"] for one in json.loads(run(place, f"kimi-gateway tools --json --project {outside}"))}
    assert "files:write_file" in names and "memory:create_entities" in names
    assert not any(name.startswith("memory:delete_") for name in names)


def test_the_project_narrows_as_the_readme_says(place: Place) -> None:
    names = {one["name"] for one in json.loads(run(place, "kimi-gateway tools --json"))}
    assert "files:read_text_file" in names and "git:git_log" in names
    assert not any(name.startswith(("memory:", "files:write_", "files:edit_", "files:move_")) for name in names)
    reviewer = {one["name"] for one in json.loads(run(place, "kimi-gateway tools --json --profile reviewer"))}
    assert "files:read_text_file" in reviewer and "kimi:kimi_analyze" in reviewer
    assert "kimi:kimi_implement" not in reviewer


def test_commands_in_sentences_are_ones_there_are() -> None:
    known = commands_of(parser())
    inline = re.findall(r"`kimi-gateway ([a-z]+)[^`]*`", README)
    assert inline and set(inline) <= set(known)
    assert os.fspath(REPOSITORY) not in README
