"""A person with a home, a project and a terminal, who types commands."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.client import DEADLINE, command

DEMO = [sys.executable, "-P", "-m", "servers.demo"]
ENTRY: dict[str, Any] = {"command": DEMO[0], "args": DEMO[1:]}
# A session leader gets the first terminal it opens as its controlling one.
_ON_A_TERMINAL = "import os, sys; os.close(os.open(os.ttyname(0), os.O_RDWR)); os.execv(sys.argv[1], sys.argv[1:])"
HELD_TO_MODES = ["setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
"""Starts a command to which a read-only file is read-only, also if root does."""
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Person:
    """Runs the console script as a new user of a machine would."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        for folder in (self.home, self.project / ".git"):
            folder.mkdir(parents=True)
        self.mine = self.home / ".kode.json"
        self.theirs = self.project / ".kode.json"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {"HOME": str(self.home), "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(more or {})}

    def run(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        launcher: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """A command without a terminal."""
        return subprocess.run(
            [*launcher, command(), *arguments],
            cwd=cwd or self.project,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
        )

    def at_a_terminal(self, *arguments: str, columns: int = 80, environment: Mapping[str, str] | None = None) -> Screen:
        return Screen([command(), *arguments], self.project, self.environment(environment), columns)


class Screen:
    """A command at a terminal of its own."""

    def __init__(self, words: list[str], cwd: Path, environment: Mapping[str, str], columns: int) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_A_TERMINAL, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )
        os.close(slave)
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """All that was shown, without colours."""
        return _CONTROLS.sub("", self.raw).replace("\r\n", "\n")

    def see(self, words: str) -> None:
        """Wait until these words are on the screen."""
        end = time.monotonic() + DEADLINE
        while words not in self.text:
            assert time.monotonic() < end and self._more(end), f"never seen: {words}\n{self.text}"

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        end = time.monotonic() + DEADLINE
        while self._more(end):
            pass
        return self._process.wait(DEADLINE)

    def _more(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        data = b""
        if ready:
            with contextlib.suppress(OSError):  # how Linux says that the other side has closed
                data = os.read(self._master, 65536)
        self.raw += data.decode(errors="replace")
        return bool(data)
