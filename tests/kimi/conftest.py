"""What Kimi's tests stand on: the real CLIs, installed once, and a stand-in of Moonshot's API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kimi import moonshot
from tests.kimi.moonshot import Moonshot
from tests.kimi.peer import Peer, serving
from tests.real import install

HERE = Path(__file__).parent
CACHE = install.CACHE / "kimi"
Environ = dict[str, str]
Serve = Callable[..., Peer]


@pytest.fixture(scope="session")
def npm() -> Path:
    """`node_modules` with the real Kimi Code and Claude Code."""
    return install.npm(CACHE / "npm", (HERE / "package.json").read_text())


@pytest.fixture(scope="session")
def code_bin(npm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with the new generation's `kimi` and a `node` new enough for it."""
    directory = tmp_path_factory.mktemp("code-bin")
    (directory / "kimi").symlink_to(npm / ".bin" / "kimi")
    (directory / "node").symlink_to(install.new_node())
    return directory


def new_python() -> str | None:
    """A Python that can run kimi-cli 1.51.0: 3.12 or newer, but not 3.12.0 and 3.12.1, whose typing breaks it."""
    named = [shutil.which(f"python3.{minor}") for minor in (14, 13, 12)]
    managed = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"), reverse=True)
    for place in [sys.executable, *filter(None, named), *map(str, managed)]:
        check = "import sys; sys.exit(sys.version_info < (3, 12, 2))"
        if subprocess.run([place, "-c", check], capture_output=True, check=False).returncode == 0:
            return place
    return None


@pytest.fixture(scope="session")
def legacy_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with the old generation's real `kimi`."""
    python = new_python()
    if python is None:
        pytest.skip("kimi-cli 1.51.0 needs Python 3.12.2 or newer, and there is none; test_replay stands in")
    programs = install.pypi(CACHE / "legacy", (HERE / "legacy.txt").read_text(), python=python)
    directory = tmp_path_factory.mktemp("legacy-bin")
    (directory / "kimi").symlink_to(programs / "kimi")
    return directory


@pytest.fixture
def api() -> Generator[Moonshot]:
    with moonshot.running() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


@pytest.fixture
def environ(home: Path, tmp_path: Path, api: Moonshot) -> Environ:
    """A throw-away home, the stand-in's address and a key; no `kimi` on PATH."""
    return {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "MOONSHOT_API_KEY": "sk-test-123",
        "KIMI_BASE_URL": api.url,
        "TMPDIR": str(tmp_path),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        # Node keeps what it compiled: a third less to do for every start of the real CLI.
        "NODE_COMPILE_CACHE": str(CACHE / "compiled"),
    }


@pytest.fixture
def serve(project: Path, environ: Environ) -> Generator[Serve]:
    """Starts servers in the project, initialised, and ends them after the test."""
    with ExitStack() as stack:

        def start(*, handshake: bool = True, **variables: str) -> Peer:
            peer = stack.enter_context(serving(project, {**environ, **variables}))
            if handshake:
                peer.initialize()
            return peer

        yield start
