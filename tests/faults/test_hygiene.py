"""No process of an upstream's outlives the gateway, its client, or its own replacement."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from clients import guard
from tests.client import Gateway, until
from tests.conftest import Start
from tests.faults.processes import SERVER, alive, descendants, gone, pid_of, server
from tests.real import install

FAMILY = Path(__file__).parent / "family.py"


def shell() -> dict[str, Any]:
    """A grandchild, as `sh -c` makes one: the shell stays in between."""
    return {"command": "sh", "args": ["-c", f"{sys.executable} -I -S {SERVER} fine; true"]}


def launcher(directory: Path, name: str) -> dict[str, Any]:
    """What npx and uvx do: a program that starts another and waits for it, or becomes it."""
    script = directory / name
    run = f'"{sys.executable}" -I -S "{SERVER}" fine\n'
    script.write_text(f"#!/bin/sh\n{run}exit $?\n" if name == "npx" else f"#!/bin/sh\nexec {run}")
    script.chmod(0o755)
    return {"command": str(script)}


def family() -> dict[str, Any]:
    """A server with children of every kind: in its group, in a session of their own, and orphaned on purpose."""
    return {"command": sys.executable, "args": ["-I", "-S", str(FAMILY), str(SERVER)]}


def all_sorts(directory: Path) -> dict[str, Any]:
    return {
        "plain": server(),
        "shell": shell(),
        "npx": launcher(directory, "npx"),
        "uvx": launcher(directory, "uvx"),
        "family": family(),
        "deaf": server("ignores-the-end"),
    }


def population(gateway: Gateway, servers: dict[str, Any]) -> set[int]:
    """Every process below the gateway, once all servers are up."""
    for name in servers:
        pid_of(gateway, name)
    until(lambda: len(descendants(gateway.pid)) >= 12, "all of the families")
    return descendants(gateway.pid)


@pytest.mark.parametrize("end", ["stdin closed", "SIGTERM", "SIGINT", "SIGKILL"])
def test_nothing_is_left_however_the_gateway_ends(start: Start, tmp_path: Path, end: str) -> None:
    servers = all_sorts(tmp_path)
    gateway = start(servers=servers)
    below = population(gateway, servers)
    if end == "stdin closed":
        gateway.close_input()
    else:
        os.kill(gateway.pid, getattr(signal, end))
    gateway.wait()
    gone(below)


def test_a_gateway_killed_before_its_client_has_spoken_leaves_nothing(start: Start, tmp_path: Path) -> None:
    gateway = start(servers=all_sorts(tmp_path), version=None)
    until(lambda: len(descendants(gateway.pid)) >= 12, "all of the families")
    below = descendants(gateway.pid)
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait()
    gone(below)


def test_nothing_is_left_of_a_server_that_was_replaced_or_removed(start: Start, tmp_path: Path) -> None:
    servers = all_sorts(tmp_path)
    gateway = start(servers=servers)
    below = population(gateway, servers)
    keep = pid_of(gateway, "plain")
    (helper,) = [pid for pid in below if os.getpgid(pid) == pid and _parent(pid) == gateway.pid]
    gateway.configure({"plain": server()})
    gone(below - {keep, helper})
    assert pid_of(gateway, "plain") == keep
    assert descendants(gateway.pid) == {keep, helper}


def test_reconnects_leave_nothing_of_the_family_before(start: Start) -> None:
    gateway = start(servers={"family": family()})
    for _ in range(3):
        pid = pid_of(gateway, "family")
        until(lambda: len(descendants(gateway.pid)) == 5, "the whole family")
        below = descendants(gateway.pid)
        (helper,) = [one for one in below if _parent(one) == gateway.pid]
        os.kill(pid, signal.SIGKILL)
        gone(below - {helper})


def test_a_killed_guard_is_replaced_and_what_it_kept_is_ended(start: Start, tmp_path: Path) -> None:
    servers = all_sorts(tmp_path)
    gateway = start(servers=servers)
    below = population(gateway, servers)
    (helper,) = [pid for pid in below if _parent(pid) == gateway.pid]
    os.kill(helper, signal.SIGKILL)
    gone(below)
    for name in servers:
        until(lambda name=name: gateway.call(f"{name}__pid").text.isdigit(), f"{name} started again")
    again = population(gateway, servers)
    assert not again & below
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait()
    gone(again)


def test_guard_and_gateway_killed_together_leave_no_direct_child(start: Start) -> None:
    gateway = start(servers={"a": server(), "b": server()})
    a, b = pid_of(gateway, "a"), pid_of(gateway, "b")
    (helper,) = [pid for pid in descendants(gateway.pid) if _parent(pid) == gateway.pid]
    os.kill(gateway.pid, signal.SIGSTOP)
    os.kill(helper, signal.SIGKILL)
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait()
    gone({a, b, helper})


def test_a_server_behind_the_real_npx_goes_too(start: Start, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "small", "version": "1.0.0", "bin": {"small": "small.js"}}')
    (package / "small.js").write_text(
        "#!/usr/bin/env node\n"
        f"const child = require('child_process').spawn({sys.executable!r}, ['-I', '-S', {str(SERVER)!r}, 'fine'],"
        " {stdio: 'inherit'});\nchild.on('exit', code => process.exit(code));\n"
    )
    node = install.node()
    npm = Path(node.npm[-1])
    npx = [*node.npm[:-1], str(npm.with_name(npm.name.replace("npm", "npx")))]
    variables = {"npm_config_cache": str(tmp_path), "PATH": f"{Path(node.node).parent}:{os.environ['PATH']}"}
    entry = {"command": npx[0], "args": [*npx[1:], "--offline", "-y", str(package)], "env": variables}
    gateway = start(servers={"a": entry})
    until(lambda: "a__pid" in gateway.tool_names(), "its tools")
    below = {pid_of(gateway, "a"), *descendants(gateway.pid)}
    assert len(below) >= 4  # the guard, npx, node, the server
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait()
    gone(below)


def _parent(pid: int) -> int:
    process = guard.look_up(pid)
    return process.parent if process is not None and alive(pid) else 0
