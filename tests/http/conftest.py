"""Fixtures for tests of the endpoint over HTTP: a real process, or the same code with small limits in a thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import Gateway, until
from tests.conftest import Start
from tests.http.inside import Inside
from tests.http.wire import TOKEN, Site
from tests.puppets import Puppet

SERVING = re.compile(rb"serving http://[^ ]*:(\d+)/mcp")


class Served:
    """A gateway process, and its door."""

    def __init__(self, gateway: Gateway, token: str | None) -> None:
        self.gateway = gateway
        said = until(lambda: SERVING.search(gateway.errors), "the line that says where it serves")
        assert said is not None
        self.port = int(said[1])
        self.site = Site(self.port, token)


Serve = Callable[..., Served]


@pytest.fixture
def serve(start: Start) -> Iterator[Serve]:
    """Start `serve --http` on a free port in front of these upstreams: `serve(puppet("a"))`."""
    served: list[Served] = []

    def make(
        *puppets: Puppet,
        arguments: tuple[str, ...] = (),
        token: str | None = TOKEN,
        environment: dict[str, str] | None = None,
        **options: Any,
    ) -> Served:
        given = {"KIMI_GATEWAY_TOKEN": token} if token else {}
        gateway = start(
            *puppets,
            version=None,
            arguments=("--http", "127.0.0.1:0", *arguments),
            environment={**given, **(environment or {})},
            **options,
        )
        served.append(Served(gateway, token))
        return served[-1]

    yield make
    for one in served:
        one.site.close()


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Inside]]:
    """The endpoint in a thread of this process: `inside(puppet("a"), limits=Limits(sessions=2))`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    started: list[Inside] = []

    def make(*puppets: Puppet, **options: Any) -> Inside:
        directory = tmp_path / f"inside{len(started)}"
        directory.mkdir()
        started.append(Inside(directory, puppets, **options))
        return started[-1]

    yield make
    for one in started:
        one.close()
