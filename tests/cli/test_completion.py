"""Completion scripts, run by the shells they are for where there is one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gateway.cli.completion import grammar
from gateway.cli.parser import commands_of, parser
from tests.cli.place import DEMO, Place

TRY = """
eval "$(kimi-gateway completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"'"'><=;|&(:"
_kimi_gateway
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(place: Place, line: str) -> list[str]:
    """What bash would offer at the end of a line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", TRY, "bash", line],
        cwd=place.project,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_commands_and_options_come_from_the_grammar(place: Place) -> None:
    assert set(complete(place, "kimi-gateway ")) == set(commands_of(parser()))
    assert complete(place, "kimi-gateway sta") == ["status"]
    assert complete(place, "kimi-gateway tools --t") == ["--tokens"]
    assert complete(place, "kimi-gateway completion ") == ["bash", "zsh", "fish"]


def test_names_come_from_the_files_and_the_last_known_listings(place: Place) -> None:
    place.configure({"demo": DEMO}, {"profiles": {"reviewer": {}}})
    assert complete(place, "kimi-gateway call demo") == []
    place.run("tools")
    assert complete(place, "kimi-gateway call demo:a") == ["add"]  # bash keeps what stands before the colon
    assert "demo:echo" in complete(place, "kimi-gateway tools d")
    assert complete(place, "kimi-gateway serve --profile re") == ["reviewer"]


def test_directories_are_offered(place: Place) -> None:
    (place.project / "deep").mkdir()
    assert complete(place, "kimi-gateway status --project de") == ["deep"]


def test_a_hostile_name_is_not_run_by_the_shell(place: Place) -> None:
    evil = f"$(touch {place.home}/ran)"
    place.configure({evil: DEMO, f"`touch {place.home}/ran`": DEMO, "good": DEMO}, {"profiles": {evil: {}}})
    place.run("tools")
    assert "good:add" in complete(place, "kimi-gateway call ")
    complete(place, "kimi-gateway serve --profile ")
    assert not (place.home / "ran").exists()


def test_a_shell_must_be_named(place: Place) -> None:
    done = place.run("completion")
    assert (done.returncode, done.stdout) == (2, "") and "bash" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_every_script(place: Place, shell: str) -> None:
    script = place.run("completion", shell).stdout
    for name, (_, words) in grammar().items():
        assert name in script
        for word in words:
            assert word.text.removeprefix("--") in script
    program = shutil.which(shell)
    if program:  # bash is everywhere; the others judge their script where they are installed
        checked = subprocess.run([program, "-n"], input=script, text=True, capture_output=True, timeout=60)
        assert checked.returncode == 0, checked.stderr
