"""One HTTP request as it comes in, and how far its answer is."""

from __future__ import annotations

_UPGRADE = frozenset((b"connection", b"upgrade", b"http2-settings"))


class Request:
    """Filled by the connection that reads it."""

    __slots__ = (
        "body",
        "complete",
        "expects",
        "gone",
        "headed",
        "headers",
        "kept",
        "method",
        "path",
        "query",
        "refused",
        "repeated",
        "responded",
        "started",
        "url",
        "version",
    )

    def __init__(self) -> None:
        self.url = b""
        self.method = ""
        self.path = ""
        self.query = b""
        self.version = ""
        self.headers: dict[bytes, bytes] = {}
        """By their names in lower case."""
        self.repeated: list[bytes] = []
        """Names that came more than once."""
        self.expects = False
        """Its client wants to hear that it may send the body, and has not yet."""
        self.kept = True
        """The connection goes on after it."""
        self.body = bytearray()
        self.headed = False
        """Its headers have come, all of them."""
        self.complete = False
        """All of it has come."""
        self.refused: int | None = None
        """The status of what is none."""
        self.started = False
        """Its answer has begun."""
        self.responded = False
        """Its answer is whole."""
        self.gone = False
        """Its client left before that."""

    def without_upgrade(self) -> bytes:
        """Its head again, but for the offer to speak something else."""
        names = (*self.headers, *self.repeated)
        headers = [b"%b: %b\r\n" % (name, self.headers[name]) for name in names if name not in _UPGRADE]
        if not self.kept:
            headers.append(b"connection: close\r\n")
        return b"%b %b HTTP/%b\r\n%b\r\n" % (
            self.method.encode(), self.url, self.version.encode(), b"".join(headers),
        )  # fmt: skip
