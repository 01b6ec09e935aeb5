"""Which `kimi` is used, by what its `--version` says: by small programs that answer as the real ones do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from servers.kimi.cli.installed import Cli, Finder, Unusable, candidates, judge
from servers.kimi.failure import Failure

TOMBSTONE = "kimi-cli is no longer maintained. Please install Kimi Code instead."
Program = Callable[[str, str], str]


def test_the_generations_are_told_apart_by_version() -> None:
    assert judge("/k", 0, "kimi, version 1.51.0\n") == Cli("/k", "1.51.0", "legacy")
    assert judge("/k", 0, "2.1.0\n") == Cli("/k", "2.1.0", "code")
    assert judge("/k", 0, "a warning of node's\n2.2.0-beta.1\n") == Cli("/k", "2.2.0-beta.1", "code")
    assert judge("/k", 0, "kimi, version 2.1.0") == Cli("/k", "2.1.0", "code")
    assert judge("/k", 0, "kimi, version 0.9.3") == Cli("/k", "0.9.3", "legacy")


@pytest.mark.parametrize(
    ("code", "output", "words"),
    [
        (0, TOMBSTONE, "no longer maintained"),
        (1, "Node.js 22.19 or newer is required", "Node.js 22.19"),
        (0, "", "said: nothing"),
        (1, "2.1.0", "ended with 1"),
    ],
)
def test_anything_else_is_unsupported_and_says_why(code: int, output: str, words: str) -> None:
    verdict = judge("/k", code, output)
    assert isinstance(verdict, Unusable) and verdict.kind == "cli_unsupported" and words in verdict.why


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Makes a `kimi` in a directory of its own; its body is shell. Returns the directory."""

    def make(name: str, body: str) -> str:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        path = directory / "kimi"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(directory)

    return make


def found(*directories: str) -> Cli:
    return anyio.run(Finder({"PATH": os.pathsep.join((*directories, "/usr/bin:/bin"))}).find)


def test_the_first_that_works_is_taken(program: Program) -> None:
    empty = program("empty", f'[ "$1" = --version ] || touch "$0.installed"; echo "{TOMBSTONE}"')
    broken = program("broken", "exit 3")
    works = program("works", 'echo "2.1.0"')
    assert found(empty, broken, works) == Cli(f"{works}/kimi", "2.1.0", "code")
    assert not Path(empty, "kimi.installed").exists()


def test_nothing_usable_says_what_was_wrong_with_the_first(program: Program) -> None:
    with pytest.raises(Failure) as caught:
        found(program("empty", f'echo "{TOMBSTONE}"'), program("broken", "exit 3"))
    assert caught.value.kind == "cli_unsupported" and "empty" in caught.value.words
    assert "npm install -g @moonshot-ai/kimi-code" in caught.value.text()
    with pytest.raises(Failure) as caught:
        found(program("unstartable", "").replace("unstartable", "nowhere"))
    assert caught.value.kind == "cli_missing" and "MOONSHOT_API_KEY" in caught.value.text()


def test_a_program_that_cannot_be_started_is_named(program: Program) -> None:
    directory = program("bad", "")
    Path(directory, "kimi").write_text("#!/nowhere/node\n")
    with pytest.raises(Failure) as caught:
        found(directory)
    assert caught.value.kind == "cli_unsupported" and "cannot be started" in caught.value.words


def test_it_asks_again_only_when_the_program_changed_or_did_not_work(program: Program, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    directory = program("kimi", f'echo x >> "{asked}"; exit 1')
    finder = Finder({"PATH": directory})

    async def scene() -> None:
        with pytest.raises(Failure):
            await finder.find()
        program("kimi", f'echo xx >> "{asked}"; echo 2.1.0')
        for _ in range(3):
            assert (await finder.find()).version == "2.1.0"
        program("kimi", f'echo xxxx >> "{asked}"; echo kimi, version 1.51.0')
        assert (await finder.find()).generation == "legacy"

    anyio.run(scene)
    assert asked.read_text().split() == ["x", "xx", "xxxx"]


def test_a_project_cannot_bring_its_own_by_a_relative_path(program: Program, project: Path) -> None:
    directory = program("kimi", "echo 2.1.0")
    assert candidates({"PATH": f":.:bin:{directory}"}) == [f"{directory}/kimi"]
    assert candidates({}) == []
