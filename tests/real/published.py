"""List many published servers directly and through one gateway: `make published`.

Needs the network for its first run; what is installed stays in `.cache/published/`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from itertools import repeat
from pathlib import Path
from time import monotonic
from typing import Any

from tests.client import Gateway
from tests.real import install
from tests.real.compare import Json, Listings, count, differences, listings
from tests.real.direct import STATELESS, Gone, Stdio

CAPABILITIES: Json = {}
ENOUGH = 40
"""Servers below which a run proves too little to be called a success."""
PATIENCE = 600.0
"""Seconds one installation may take."""
SLOTS = 2
"""Installations and direct starts at a time."""
SETTLING = 300.0
"""Seconds until every server must be up behind the gateway: they all start at once."""


@dataclass
class Published:
    """One server of the list, and what became of it."""

    name: str
    registry: str
    package: str
    version: str
    program: str = ""
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    command: list[str] = field(default_factory=list[str])
    lists: Listings | None = None
    skipped: str = ""
    said_version: str = ""

    def entry(self) -> Json:
        return {"command": self.command[0], "args": self.command[1:], "env": self.env}


class Skipped(Exception):
    """It cannot be compared, for a reason that is not ours."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make published", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0, help="no installation is begun after this")
    parser.add_argument("--only", default="", help="a regular expression of names")
    options = parser.parse_args()
    chosen = [server for server in _read_list() if re.search(options.only, server.name)]
    until = monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="published") as name:
        directory = Path(name)
        for part in ("home", "project", "work"):
            (directory / part).mkdir()
        with ThreadPoolExecutor(SLOTS) as pool:
            list(pool.map(_prepare, chosen, repeat(directory), repeat(until)))
        compared = [server for server in chosen if server.lists is not None]
        found, through, state = _through_gateway(compared, directory)
        if _retold([server for server in compared if server.name in found], directory):
            found = differences(_direct(compared), through)
        for server in compared:
            if server.skipped:
                server.lists = None
                found.pop(server.name, None)
    return _report(chosen, found, state)


def _read_list() -> list[Published]:
    return [Published(**entry) for entry in json.loads((Path(__file__).parent / "published.json").read_text())]


def _prepare(server: Published, directory: Path, until: float) -> None:
    """Install it, start it and list it directly."""
    try:
        server.command = _installed(server, until)
        work = str(directory / "work")
        server.command += [argument.replace("{work}", work) for argument in server.args]
        server.env = {key: value.replace("{work}", work) for key, value in server.env.items()}
        server.lists = _listed_directly(server, directory)
    except (install.NotInstalled, Skipped, Gone) as reason:
        server.skipped = f"{type(reason).__name__}: {reason}"
    _say(f"{server.name}: {server.skipped or 'lists directly'}")


def _installed(server: Published, until: float) -> list[str]:
    directory = install.CACHE / "published" / server.name
    if server.registry == "npm":
        wanted = json.dumps({"private": True, "dependencies": {server.package: server.version}})
    else:
        wanted = f"{server.package}=={server.version}\n"
    if monotonic() > until and not install.stamped(directory, wanted):
        raise Skipped("no time was left to install it")
    if server.registry == "npm":
        return _node_command(install.npm(directory, wanted, PATIENCE) / server.package, server)
    return [str(_script(install.pypi(directory, wanted, PATIENCE), server))]


def _node_command(package: Path, server: Published) -> list[str]:
    programs: Any = json.loads((package / "package.json").read_text()).get("bin") or {}
    if isinstance(programs, str):
        return [install.node().node, str(package / programs)]
    if not programs:
        raise Skipped("it has no program")
    plain = server.package.rpartition("/")[2]
    name = server.program or (plain if plain in programs else next(iter(programs)))
    return [install.node().node, str(package / programs[name])]


def _script(programs: Path, server: Published) -> Path:
    site = next((programs.parent / "lib").glob("python*/site-packages"))
    for one in Distribution.discover(name=server.package, path=[str(site)]):
        names = [entry.name for entry in one.entry_points if entry.group == "console_scripts"]
        plain = server.package.lower()
        for name in (server.program, plain, *names):
            if name in names:
                return programs / name
        raise Skipped(f"it has no program of its own: {names}")
    raise Skipped("its metadata is not there")


def _environment(server: Published, directory: Path) -> dict[str, str]:
    """What the gateway gives its children."""
    keep = {key: os.environ[key] for key in ("PATH",) if key in os.environ}
    return {**keep, "HOME": str(directory / "home"), **server.env}


def _listed_directly(server: Published, directory: Path, *, older: bool = False) -> Listings:
    with Stdio(server.command, env=_environment(server, directory), cwd=directory / "project") as direct:
        try:
            introduced = direct.initialize(CAPABILITIES)["protocolVersion"] if older else direct.introduce(CAPABILITIES)
        except KeyError:
            raise Skipped("it refuses initialize") from None
        server.said_version = introduced
        lists = listings(direct.request)
    if not any(lists.values()):
        raise Skipped("it lists nothing")
    return lists


def _retold(servers: list[Published], directory: Path) -> bool:
    """Have those that differ list directly once more, in case that is not the gateway's doing; whether any did.

    Some list something else at every start, such as the date: with them there is nothing to compare. One that took
    longer than a second to start is spoken to in the older era, in which servers of the SDK spell lists otherwise.
    """
    for server in servers:
        newer = server.said_version == STATELESS
        again = _listed_directly(server, directory, older=newer)
        if newer:
            server.lists = again
        elif again != server.lists:
            server.skipped = "its own listing differs from start to start"
    return bool(servers)


def _direct(servers: list[Published]) -> dict[str, Listings]:
    return {server.name: server.lists for server in servers if server.lists is not None}


def _through_gateway(servers: list[Published], directory: Path) -> tuple[dict[str, list[str]], Listings, str]:
    """What is not the same through one gateway in front of all of them, all that it listed, and its log."""
    direct = _direct(servers)
    began = monotonic()
    with Gateway(directory, {server.name: server.entry() for server in servers}) as gateway:
        gateway.initialize(capabilities=CAPABILITIES)
        _say(f"the gateway has answered initialize after {monotonic() - began:.2f} s")

        def ask(method: str, params: Json) -> Json:
            return gateway.request(method, params).json

        through = listings(ask)
        found = differences(direct, through)
        while found and monotonic() - began < SETTLING:
            try:
                gateway.expect("notifications/tools/list_changed")
            except AssertionError:
                break  # nothing has changed for as long as we wait: this is how it is
            through = listings(ask)
            found = differences(direct, through)
        _say(f"all that came had come after {monotonic() - began:.1f} s")
        log = gateway.errors.decode(errors="replace")
    return found, through, log


def _report(chosen: list[Published], found: dict[str, list[str]], log: str) -> int:
    compared = [server for server in chosen if server.lists is not None]
    width = max(len(server.name) for server in chosen)
    for server in chosen:
        lists = server.lists
        if lists is None:
            _say(f"{server.name:{width}}  {server.version:12}  skipped  {server.skipped[:200]}")
            continue
        numbers = " ".join(f"{len(lists[kind]):4}" for kind in lists)
        outcome = "FAILED" if server.name in found else "same"
        _say(f"{server.name:{width}}  {server.version:12}  {server.said_version}  {numbers}  {outcome}")
    for name, words in found.items():
        for word in words[:10]:
            _say(f"{name or 'the gateway'}: {word}")
        for line in [line for line in log.splitlines() if name and f"{name} " in line][-3:]:
            _say(f"    log: {line}")
    lists = [server.lists for server in compared if server.lists is not None]
    totals = ", ".join(
        f"{count(lists, kind)} {kind}" for kind in ("tools", "prompts", "resources", "resourceTemplates")
    )
    failed = len(found)
    _say(f"{len(chosen) - len(compared)} skipped; {totals}")
    _say(f"{len(compared) - len([name for name in found if name])} passed, {failed} failed")
    if len(compared) < min(ENOUGH, len(chosen)):
        _say(f"only {len(compared)} could be compared; {ENOUGH} are wanted")
        return 1
    return 1 if failed else 0


def _say(words: str) -> None:
    columns = shutil.get_terminal_size((240, 24)).columns
    print(words[: max(240, columns)], flush=True)


if __name__ == "__main__":
    sys.exit(main())
