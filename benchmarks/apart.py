"""A client in a process of its own, as clients are.

One process that drives all contenders in turn is like no client: Linux counts how many others a process wakes, and
decides by that on which processor those it talks to are woken. Who was measured before then decides what a call takes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from benchmarks.frames import Failed, Sample

_FORK = multiprocessing.get_context("fork")


class Client(Protocol):
    """What every load driver does."""

    def introduce(self) -> float:
        """Shake hands; the seconds that took."""
        ...

    def call(self, name: str, size: int) -> bytes: ...

    def listed(self) -> tuple[int, float]:
        """How many tools are listed, and the seconds it took to hear that."""
        ...

    def one_by_one(self, name: str, size: int, calls: int) -> Sample:
        """Each call waits for the answer to the one before."""
        ...

    def at_once(self, name: str, size: int, calls: int, window: int) -> Sample:
        """As many calls as the window holds are in flight all the time."""
        ...

    def close(self) -> None: ...


class Apart:
    """Does what the client does that `make` makes, over there; what goes wrong there is raised here."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._pipe, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=_serve, args=(make, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._answer()

    def introduce(self) -> float:
        return self._ask("introduce")

    def call(self, name: str, size: int) -> bytes:
        return self._ask("call", name, size)

    def listed(self) -> tuple[int, float]:
        return self._ask("listed")

    def one_by_one(self, name: str, size: int, calls: int) -> Sample:
        return self._ask("one_by_one", name, size, calls)

    def at_once(self, name: str, size: int, calls: int, window: int) -> Sample:
        return self._ask("at_once", name, size, calls, window)

    def close(self) -> None:
        self._ask("close")
        self._pipe.close()
        self._process.join()

    def of(self, attribute: str) -> Any:
        """Something that the client knows of itself."""
        return self._ask(attribute)

    def _ask(self, name: str, *arguments: object) -> Any:
        self._pipe.send((name, arguments))
        return self._answer()

    def _answer(self) -> Any:
        try:
            worked, answer = self._pipe.recv()
        except EOFError:
            raise Failed("the client's process ended") from None
        if not worked:
            raise answer
        return answer


def _serve(make: Callable[[], Client], pipe: Connection) -> None:
    try:
        client = make()
    except (Failed, OSError) as error:
        pipe.send((False, error))
        return
    pipe.send((True, None))
    name = ""
    while name != "close":
        try:
            name, arguments = pipe.recv()
        except EOFError:
            client.close()  # the bench was killed
            return
        try:
            found = getattr(client, name)
            answer = True, found(*arguments) if callable(found) else found
        except (Failed, OSError) as error:
            answer = False, error
        pipe.send(answer)
