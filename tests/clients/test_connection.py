"""What becomes of calls whose connection ends while they are due."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clients.connection import Connection
from clients.transports.channel import Noise
from gateway.exchange import Exchange
from tests.clients.supervised import run, until
from tests.clients.web import Call, Failed, Heard


class Stuck:
    """A channel to a server that stopped reading in the middle of the first line."""

    noise = Noise()
    pid = None
    tail = ""

    def __init__(self) -> None:
        self.lines: list[Exchange | None] = []

    async def open(self, project: Path) -> None:
        return

    def negotiated(self, version: str) -> None:
        return

    def listed(self, tools: Sequence[bytes]) -> Sequence[bytes]:
        return tools

    def send(self, frame: bytes, exchange: Exchange | None = None) -> None:
        self.lines.append(exchange)

    def withdraw(self, exchange: Exchange) -> bool:
        if exchange not in self.lines[1:]:
            return False
        self.lines.remove(exchange)
        return True

    def is_writing(self, exchange: Exchange) -> bool:
        return self.lines[0] is exchange

    async def close(self) -> None:
        return


def test_a_call_given_back_at_its_own_deadline_is_not_failed_as_well() -> None:
    async def scenario() -> None:
        heard = Heard()
        connection = Connection("a", heard)
        connection.channel = Stuck()
        calls = [Call(), Call()]
        half, unsent = (Exchange(call, b"1", "tools/call", {}) for call in calls)
        connection.send(half, 0.02)
        connection.send(unsent, 0.02)
        unsent.deadline = half.deadline
        await until(connection.gone.done, "the end of the connection")
        failure = calls[0].result.exception()
        assert isinstance(failure, Failed)
        assert failure.failure.may_have_executed
        assert heard.returns == [unsent]
        assert not calls[1].result.done()

    run(scenario)
