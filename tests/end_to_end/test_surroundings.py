"""Where the gateway runs does not matter: a project's own packages are never ours, and stdout holds only frames."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.client import DEADLINE, Gateway, command, until
from tests.conftest import Start
from tests.faults.processes import descendants, gone, pid_of, server
from tests.puppets import Puppet

Make = Callable[..., Puppet]
OURS = ("gateway", "clients", "servers", "configs", "tests")
OTHERS = ("mcp", "msgspec", "uvloop", "tenacity", "pydantic_settings", "ctypes", "sitecustomize", "usercustomize")
"""What ours import, and what Python itself looks for."""


def canaries(project: Path) -> Path:
    """Packages of the project's own that tell when somebody imports them."""
    told = project / "told"
    told.mkdir(exist_ok=True)
    for name in (*OURS, *OTHERS):
        package = project / name
        package.mkdir()
        text = f"import pathlib; pathlib.Path({str(told / name)!r}).touch()\n"
        (package / "__init__.py").write_text(text)
        (package / "__main__.py").write_text(text)
        (package / "cli.py").write_text(text)
    (project / "guard.py").write_text(f"import pathlib; pathlib.Path({str(told / 'guard')!r}).touch()\n")
    return told


def directory(gateway: Path) -> Path:
    (gateway / "project").mkdir(parents=True)
    return gateway / "project"


def test_a_projects_own_packages_are_neither_used_nor_executed(start: Start, tmp_path: Path) -> None:
    place = tmp_path / "place"
    told = canaries(directory(place))
    gateway = start(servers={"a": server()}, directory=place, arguments=("--demo",), gateway={"kimi": True})
    names = gateway.tool_names()
    assert {"a__pid", "demo__add"} <= set(names)
    assert pid_of(gateway, "a")
    assert gateway.call("demo__add", {"a": 1, "b": 2}).text == "3"
    kimi = next(name for name in names if name.startswith("kimi__"))
    gateway.call(kimi, {"prompt": "hello"})  # its process is started by this, whatever it answers
    (helper,) = [pid for pid in descendants(gateway.pid) if _parent(pid) == gateway.pid]
    os.kill(helper, signal.SIGKILL)  # and another guard
    gone({helper})
    until(lambda: gateway.call("a__pid").text.isdigit(), "its next life")
    for words in (
        ("tools", "--demo"),
        ("status", "--demo"),
        ("call", "demo:add", "a=1", "b=2", "--demo"),
        ("--help",),
    ):
        done = gateway.run(*words)
        assert done.returncode == 0, done.stderr
    gateway.close()
    assert list(told.iterdir()) == []


def test_the_canaries_would_tell(tmp_path: Path) -> None:
    """The proof that the test above could fail."""
    told = canaries(tmp_path)
    subprocess.run([sys.executable, "-m", "gateway"], cwd=tmp_path, check=True, timeout=60)
    assert [file.name for file in told.iterdir()] == ["gateway"]


def only_frames(gateway: Gateway) -> None:
    for message in gateway.messages:
        frame = json.loads(message.raw)
        assert frame["jsonrpc"] == "2.0", message


def test_stdout_holds_only_frames_whatever_children_print(start: Start, puppet: Make) -> None:
    noisy = puppet("noisy", noise=2_000_000)
    gateway = start(
        noisy,
        servers={
            "floods": server("floods"),
            "garbage": server("prints-garbage"),
            "exits": server("exits"),
            "missing": {"command": "/nowhere"},
            "shell": {"command": "sh", "args": ["-c", "echo to stdout; echo to stderr >&2; exit 1"]},
        },
        environment={"PYTHONWARNINGS": "always", "PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1"},
    )
    until(lambda: "noisy__work" in gateway.tool_names(), "its tools")
    for _ in range(5):
        id = gateway.begin("noisy__work")
        noisy.reply(noisy.expect("tools/call"), {"content": []})
        gateway.answer(id)
    until(lambda: {"floods__pid", "garbage__pid"} <= set(gateway.tool_names()), "theirs")
    assert pid_of(gateway, "floods")
    assert pid_of(gateway, "garbage")
    gateway.close_input()
    assert gateway.wait() == 0
    only_frames(gateway)
    assert b"kimi_gateway.upstream" in gateway.errors, "logs go to stderr"


def test_a_wrong_word_on_the_command_line_prints_nothing_on_stdout(start: Start) -> None:
    gateway = start()
    done = gateway.run("serve", "--profile", "nobody")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "nobody" in done.stderr


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_terminal_is_left_as_blocking_as_it_was(start: Start, tmp_path: Path) -> None:
    gateway = start()  # for its home
    for name in ("serve", "kimi"):
        master, slave = os.openpty()
        process = subprocess.Popen(
            [command(), name],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env=gateway.environment(),
            cwd=tmp_path,
        )
        os.write(master, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        shown = b""
        while b'"result"' not in shown:
            shown += os.read(master, 4096)
        assert not os.get_blocking(slave)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
        assert os.get_blocking(slave)
        os.close(slave)
        os.close(master)
