"""Real published servers, installed once per machine, and how to start them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real import install
from tests.real.compare import Json
from tests.real.direct import Stdio

HERE = Path(__file__).parent
EVERYTHING = "@modelcontextprotocol/server-everything"


@dataclass(frozen=True)
class Installed:
    """Where the programs are."""

    modules: Path
    programs: Path

    def npm(self, package: str, *arguments: str) -> list[str]:
        return [install.node().node, str(self.modules / package / "dist" / "index.js"), *arguments]

    def pypi(self, program: str, *arguments: str) -> list[str]:
        return [str(self.programs / program), *arguments]


@pytest.fixture(scope="session")
def installed() -> Installed:
    return Installed(
        install.npm(install.CACHE / "real" / "npm", (HERE / "package.json").read_text()),
        install.pypi(install.CACHE / "real" / "venv", (HERE / "requirements.txt").read_text()),
    )


@dataclass(frozen=True)
class Place:
    """A home, a project and some material, laid out as `Gateway` does."""

    directory: Path

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def project(self) -> Path:
        return self.directory / "project"

    @property
    def files(self) -> Path:
        return self.directory / "files"

    @property
    def repository(self) -> Path:
        return self.directory / "repository"

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        """What the gateway gives its children, as `Gateway` starts it."""
        return {"HOME": str(self.home), "PATH": os.environ.get("PATH", "/usr/bin:/bin"), **(more or {})}

    def direct(self, entry: Json) -> Stdio:
        """The server of a configuration's entry, without any gateway."""
        return Stdio([entry["command"], *entry["args"]], env=self.environment(entry.get("env")), cwd=self.project)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    for directory in (made.home, made.project, made.files, made.repository):
        directory.mkdir()
    (made.files / "hello.txt").write_text("Grüße, 世界 \U0001f600\n")
    git = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-C", str(made.repository)]
    environment = {**made.environment(), "GIT_CONFIG_NOSYSTEM": "1"}
    (made.repository / "first.txt").write_text("one\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "The first"]):
        subprocess.run([*git, *words], check=True, env=environment)
    (made.repository / "first.txt").write_text("two\n")
    return made


@contextmanager
def listening(command: list[str], environment: dict[str, str]) -> Generator[int]:
    """A server that listens on a port of its own; it says so on stderr."""
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen(
            command,
            env={**environment, "PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            if any(f"port {port}".encode() in line and b"Failed" not in line for line in process.stderr):
                yield port
                return
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
    raise AssertionError(f"{command} never listened")


@pytest.fixture
def everything_over(installed: Installed, place: Place) -> Generator[Callable[[str], int]]:
    """Start server-everything with a transport; returns its port."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(transport: str) -> int:
            return stack.enter_context(listening(installed.npm(EVERYTHING, transport), place.environment()))

        yield start
