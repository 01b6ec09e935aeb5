"""The batches of 2025-03-26: many requests in one array, their answers in another."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from gateway.protocol import errors
from gateway.protocol.frames import Frame, Malformed, error, id_key


@dataclass(slots=True)
class Batch:
    """How many requests are still to be answered, and the answers so far."""

    key: bytes = b""
    """One of its requests, which stands for all."""
    open: int = 0
    answers: list[bytes] = field(default_factory=list[bytes])


class Batches:
    """Collects the answers of each batch and writes them together."""

    def __init__(self, write: Callable[[bytes, bytes | None, bool], None]) -> None:
        self._write = write
        self._of: dict[bytes, Batch] = {}

    def opened(self, parts: list[Frame | Malformed], in_use: Container[bytes]) -> Iterator[Frame]:
        """The frames of a new batch that are to be taken as if they had come alone."""
        batch = Batch()
        good: list[Frame] = []
        for part in parts:
            if isinstance(part, Malformed):
                batch.answers.append(error(part.id, errors.error_object(part.code, part.message)))
                continue
            if part.is_request:
                key = id_key(part.id)
                if key in in_use or key in self._of:
                    message = "Invalid Request: this id is already in use"
                    batch.answers.append(error(part.id, errors.error_object(errors.INVALID_REQUEST, message)))
                    continue
                batch.open += 1
                batch.key = key
                self._of[key] = batch
            good.append(part)
        yield from good
        self._finish(batch)

    def write(self, frame: bytes, about: bytes | None = None, last: bool = False) -> None:
        """Keep the answer to a request that came in a batch; write all else at once."""
        batch = self._of.pop(about, None) if last and about is not None else None
        if batch is None:
            self._write(frame, about, last)
            return
        batch.answers.append(frame)
        batch.open -= 1
        self._finish(batch)

    def left(self, key: bytes) -> None:
        """A request that will get no answer: cancelled."""
        batch = self._of.pop(key, None)
        if batch is not None:
            batch.open -= 1
            self._finish(batch)

    def _finish(self, batch: Batch) -> None:
        if not batch.open and batch.answers:
            answers, batch.answers = batch.answers, []
            self._write(b"[" + b",".join(answers) + b"]", batch.key, True)
