"""A home, a project and the command line in them, piped or on a terminal of a given width."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.client import DEADLINE, Json, command

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DEMO: Json = {"command": sys.executable, "args": ["-P", "-m", "servers.demo"]}


class Terminal:
    """A command on a pseudo-terminal; what it writes is read all the time."""

    def __init__(self, words: list[str], env: Mapping[str, str], cwd: Path, columns: int) -> None:
        self._text = ""
        self._seen = 0
        self._changed = threading.Condition()
        self._ended = False
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            words,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"TERM": "xterm-256color", **env},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def raw(self) -> str:
        with self._changed:
            return self._text

    @property
    def text(self) -> str:
        """What was written, without colours."""
        return CODES.sub("", self.raw).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        return [line.rsplit("\r", 1)[-1] for line in self.text.split("\n")]

    def expect(self, words: str) -> None:
        """Wait until this is written after what was expected before."""

        def there() -> bool:
            found = self._text.find(words, self._seen)
            if found >= 0:
                self._seen = found + len(words)
            return found >= 0 or self._ended

        before = self._seen
        with self._changed:
            self._changed.wait_for(there, DEADLINE)
            assert self._seen > before, f"{words!r} was never written; after what was expected:\n{self._text[before:]}"

    def type(self, words: str) -> None:
        os.write(self._master, words.encode())

    def wait(self) -> int:
        code = self.process.wait(2 * DEADLINE)
        self._reader.join(DEADLINE)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DEADLINE)
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE)
        os.close(self._master)

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(OSError):  # how Linux says that the other side is closed
            while chunk := os.read(self._master, 65536):
                data += chunk
                with self._changed:
                    self._text = data.decode(errors="ignore")
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Place:
    """Where commands are run: nothing of the machine's own configuration is seen."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.project = directory / "project"
        self.bin = directory / "bin"
        for one in (self.home, self.project, self.bin):
            one.mkdir()
        self.variables: dict[str, str] = {}
        self.terminals: list[Terminal] = []

    @property
    def environment(self) -> dict[str, str]:
        ours = str(Path(command()).parent)
        return {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{ours}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "LANG": "C.UTF-8",
            **self.variables,
        }

    def configure(self, servers: Mapping[str, Json] | None = None, gateway: Json | None = None, **more: Any) -> Path:
        """Write `~/.kode.json`."""
        return self._write(
            self.home, {"mcpServers": dict(servers or {}), "gateway": {"kimi": False, **(gateway or {})}, **more}
        )

    def configure_project(self, servers: Mapping[str, Json], gateway: Json | None = None) -> Path:
        return self._write(self.project, {"mcpServers": dict(servers), **({"gateway": gateway} if gateway else {})})

    def _write(self, directory: Path, config: Json) -> Path:
        file = directory / ".kode.json"
        file.write_text(json.dumps(config, indent=2))
        return file

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command with its output piped and no input."""
        return subprocess.run(
            [command(), *arguments],
            cwd=cwd or self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *arguments: str) -> Any:
        """What a command prints as JSON; it must say that all went well."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def terminal(self, *arguments: str, columns: int = 80) -> Terminal:
        made = Terminal([command(), *arguments], self.environment, self.project, columns)
        self.terminals.append(made)
        return made

    def close(self) -> None:
        for one in self.terminals:
            one.close()
