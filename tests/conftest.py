"""Fixtures for tests with a real gateway process and scripted upstreams."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.client import Gateway
from tests.puppets import Puppet


class Start(Protocol):
    def __call__(
        self,
        *puppets: Puppet,
        servers: dict[str, Any] | None = None,
        version: str | None = "2025-11-25",
        capabilities: dict[str, Any] | None = None,
        entries: dict[str, dict[str, Any]] | None = None,
        directory: Path | None = None,
        **options: Any,
    ) -> Gateway:
        """A gateway in front of these upstreams; introduced, unless `version` is `None`.

        `servers` are more entries, `entries` more keys for a puppet's, `directory` that of an earlier gateway,
        `options` go to `Gateway`.
        """
        ...


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="kg") as name:
        yield Path(name)


@pytest.fixture
def puppet(sockets: Path) -> Iterator[Callable[..., Puppet]]:
    """Make a scripted upstream: `puppet("a", tools=[...])`."""
    made: list[Puppet] = []

    def make(name: str = "a", **options: Any) -> Puppet:
        made.append(Puppet(sockets, name, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a gateway: `start(puppet("a"), puppet("b"))`."""
    started: list[Gateway] = []

    def make(
        *puppets: Puppet,
        servers: dict[str, Any] | None = None,
        version: str | None = "2025-11-25",
        capabilities: dict[str, Any] | None = None,
        entries: dict[str, dict[str, Any]] | None = None,
        directory: Path | None = None,
        **options: Any,
    ) -> Gateway:
        all_servers = dict(servers or {})
        for one in puppets:
            all_servers[one.name] = {**one.entry, **(entries or {}).get(one.name, {})}
        if directory is None:
            directory = tmp_path / f"gateway{len(started)}"
            directory.mkdir()
        gateway = Gateway(directory, all_servers, **options)
        started.append(gateway)
        if version is not None:
            gateway.initialize(version, capabilities)
        return gateway

    yield make
    for gateway in started:
        gateway.close()
