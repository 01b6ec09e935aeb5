"""What can be told about a configuration and its surroundings without starting any server."""

from __future__ import annotations

import os
import platform
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from configs import claims, executables
from configs.document import Fault, Json, KeyPath, dotted, read
from configs.files import data_directory
from configs.load import SERVERS
from configs.locate import find
from configs.models import Config, Server
from configs.section import SECTION
from configs.spelling import UnknownKey, unknown_gateway_keys, unknown_server_keys, unknown_variables
from gateway.cli.findings import Finding, judged, ok
from gateway.cli.wiring import cache_directory

OLDEST = (3, 11)
HOST, PORT = "127.0.0.1", 8765
INSTALL = {
    "npx": "Install Node.js, which brings it: https://nodejs.org",
    "node": "Install Node.js: https://nodejs.org",
    "bunx": "Install Bun: https://bun.sh",
    "uvx": "Install uv, which brings it: https://docs.astral.sh/uv",
    "uv": "Install uv: https://docs.astral.sh/uv",
    "pipx": "Install pipx: https://pipx.pypa.io",
    "docker": "Install Docker: https://docs.docker.com/get-docker",
    "podman": "Install Podman: https://podman.io",
    "deno": "Install Deno: https://deno.com",
}
"""Where the programs come from that most servers are started with."""


def python() -> Finding:
    version = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info >= OLDEST:
        return ok("python", version)
    return judged("python", True, f"{version} is too old", "Install Python 3.11 or newer.")


def config_files(config: Config, home: Path, cwd: Path, project: Path | None) -> Iterator[Finding]:
    """Each file there is, what is wrong in it, and the keys nobody reads."""
    places = find(project, cwd=cwd, home=home)
    files = [file for file in (places.personal, places.project_file) if file and file.exists()]
    if not files:
        fix = f'Write {{"mcpServers": {{…}}}} into {places.personal}, or try any command with --demo.'
        yield Finding("note", "config", "no servers are configured", fix)
    for file in files:
        if file not in config.broken:
            yield ok("config", f"{file} can be read")
    for problem in config.problems:
        if claims.COMMAND in problem.fix:
            continue  # `trust` below has it, claim by claim
        place = f"{problem.file}:{problem.line}:{problem.column}: " if problem.file else ""
        key = f"{problem.key}: " if problem.key else ""
        server = config.servers.get(problem.server or "")
        counts = server is None or server.enabled
        yield judged("config", counts, f"{place}{key}{problem.message}", problem.fix, problem.server)
    for file in files:
        yield from _unknown_keys(file, config)


def variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, nearest in unknown_variables(environ):
        yield judged("config", True, f"nobody reads the variable {name}", f"Set {nearest} instead.")


def trust(config: Config) -> Iterator[Finding]:
    for claim in config.claims:
        what = {
            "server": f"the server {claim.name} of {claim.source}",
            "overlay": f"what {claim.source} changes of the server {claim.name}",
            "settings": f"the gateway settings of {claim.source}",
        }[claim.kind]
        server = claim.name if claim.kind != "settings" else None
        if claim.trusted:
            yield ok("trust", f"you trust {what}", server)
        else:
            changed = f"; {'; '.join(claim.changes)}" if claim.changes else ""
            fix = f"Run `{claims.COMMAND}` to see what it asks for and allow it."
            yield judged("trust", claim.enabled, f"you do not trust {what}{changed}", fix, server)


def programs(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether what the entries start is installed."""
    for server in config.servers.values():
        if server.transport != "stdio" or server.source.scope == "builtin" or server.problem:
            continue
        found = program(server, config.project, environ)
        if found:
            if server.enabled:
                words = "is there" if found == server.command else f"is {found}"
                yield ok("program", f"{server.command} {words}", server.name)
            continue
        name = Path(server.command).name
        fix = INSTALL.get(name, f"Install {name}, or correct `command` in {server.source}.")
        words = f"{server.command} is not on PATH" if "/" not in server.command else f"there is no {server.command}"
        yield judged("program", server.enabled, words, fix, server.name)


def program(server: Server, project: Path, environ: Mapping[str, str]) -> str:
    """Where the command of an entry is; empty if nowhere."""
    directory = server.cwd or project
    return executables.find(server.command, path=server.env.get("PATH", environ.get("PATH")), directory=directory)


def port() -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, PORT))
        except OSError as error:
            fix = f"Serve on another port, `kimi-gateway serve --http {HOST}:{PORT + 1}`, or end what listens there."
            return Finding(
                "note", "port", f"{HOST}:{PORT}, where serve --http listens, is taken: {error.strerror}", fix
            )
    return ok("port", f"{HOST}:{PORT} is free for serve --http")


def directories(home: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether we may write where we keep things."""
    kept = {"the last-known listings": cache_directory(environ), "trust and tokens": data_directory(home, environ)}
    for what, directory in kept.items():
        there = next(one for one in (directory, *directory.parents) if os.path.lexists(one))
        try:
            with tempfile.TemporaryFile(dir=there):
                yield ok("write", f"{directory} can be written ({what})")
        except OSError as error:
            words = f"{directory} cannot be written ({what}): {error.strerror}"
            yield judged("write", True, words, f"Run `chown -R $USER {there}` or make {there} writable.")


def _unknown_keys(file: Path, config: Config) -> Iterator[Finding]:
    try:
        document = read(file)
    except Fault:
        return  # said already
    values: dict[str, Json] = document.value if document else {}
    section = values.get(str(SECTION[0]))
    entries = values.get(SERVERS)
    found: list[tuple[KeyPath, UnknownKey, str | None]] = []
    if isinstance(section, dict):
        found += [((*SECTION, *key.path), key, None) for key in unknown_gateway_keys(section)]
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if isinstance(entry, dict):
            # An entry is also read by other tools: a key that is like none of ours is theirs.
            keys = (key for key in unknown_server_keys(entry) if key.nearest)
            found += [((SERVERS, name, *key.path), key, name) for key in keys]
    for path, key, server in found:
        assert document is not None
        place = document.place(path, key=True)
        owner = config.servers.get(server or "")
        fix = f'Write "{key.nearest}" instead.' if key.nearest else "Remove it: it has no effect."
        words = f"{file}:{place.line}:{place.column}: nobody reads {dotted(path)}"
        yield judged("config", owner is None or owner.enabled, words, fix, server)
