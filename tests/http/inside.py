"""The endpoint in a thread of the test's own process, where its limits can be small and its tables looked at."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from configs.load import load
from gateway.cli.serve_http import CAPABILITIES
from gateway.cli.wiring import Gateway, running
from servers.http.app import Endpoint
from servers.http.door import Door
from servers.http.server import Server, bind, serving
from servers.http.sessions import Limits
from tests.client import DEADLINE
from tests.http.wire import TOKEN, Site
from tests.puppets import Puppet


class Inside:
    """Serves until it is closed."""

    endpoint: Endpoint
    gateway: Gateway
    server: Server

    def __init__(
        self,
        directory: Path,
        puppets: Iterable[Puppet],
        *,
        limits: Limits | None = None,
        section: dict[str, Any] | None = None,
    ) -> None:
        servers = {puppet.name: puppet.entry for puppet in puppets}
        written: dict[str, Any] = {"mcpServers": servers, "gateway": {"kimi": False, **(section or {})}}
        (directory / ".kode.json").write_text(json.dumps(written))
        self._config = replace(load(directory, cwd=directory, home=directory, environ={}), project=directory)
        self._limits = limits or Limits()
        self._listener = bind("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self.site = Site(self.port)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(DEADLINE)

    @property
    def responses(self) -> list[str]:
        """The responses that go on: requests without a whole answer, and tasks that send one."""
        assert self._loop is not None
        waiting = [repr(one) for one in list(self.server.connections) if one.busy]
        tasks = [str(task) for task in asyncio.all_tasks(self._loop) if task.get_name() == "stream"]
        return waiting + tasks

    def close(self) -> None:
        self.site.close()
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with running(self._config, shared=True) as gateway:
            gateway.manager.declare(CAPABILITIES)
            self.gateway = gateway
            door = Door(self._config.http, self.port, TOKEN)
            self.endpoint = Endpoint(
                gateway.house, lambda: door, profiles=lambda: gateway.config.profiles, limits=self._limits
            )
            async with serving(self.endpoint, self._listener) as self.server:
                self._ready.set()
                await self._stop.wait()
