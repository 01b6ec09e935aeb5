"""Bytes in, requests out: httptools, and what of HTTP/1.1 it leaves to whoever uses it."""

from __future__ import annotations

import logging
from typing import Protocol
from urllib.parse import unquote

import httptools

from servers.http.request import Request

HEAD = 64 * 1024
"""Bytes that the headers of a request may have, and its trailer."""

logger = logging.getLogger(__name__)


class Taker(Protocol):
    """Hears how far a request has come."""

    def began(self) -> None: ...

    def headed(self, request: Request) -> None:
        """Its headers are there, all of them."""
        ...

    def came(self, request: Request, body: bytes) -> None:
        """A piece of its body is there."""
        ...

    def completed(self, request: Request) -> None: ...


class Reading:
    """What comes on one connection. Bodies are bounded by the taker, all else here."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self._parser: httptools.HttpRequestParser | None = _parser(self)
        self.request = Request()
        """The one that is coming, or came last."""
        self.request.complete = True
        self._head: int | None = 0
        """Bytes so far of a request's headers, or of what may be its trailer; `None` where neither is awaited."""
        self._size = 0
        """Bytes of what came last."""
        self._between = True
        """What came last begins where a request ended."""

    @property
    def over(self) -> bool:
        return self._parser is None

    def stop(self) -> None:
        """Read nothing more."""
        self._parser = None

    def feed(self, data: bytes) -> int | None:
        """Read what came; the status of what cannot be read."""
        self._between, self._size = self.request.complete, len(data)
        fault = self._parse(data)
        if fault is None and self._head is not None:
            self._head += len(data)
            if self._head > HEAD:
                return 431
        return fault

    def _parse(self, data: bytes) -> int | None:
        pieces: list[bytes | memoryview] = [data]
        while pieces and self._parser is not None:
            piece = pieces.pop()
            try:
                self._parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                # For the parser there is no HTTP from here on. We speak nothing else: it was an offer.
                if self._parser.get_method() == b"CONNECT":
                    return 400
                self._parser = _parser(self)  # the one before may be at its end
                pieces += (memoryview(piece)[upgrade.args[0] :], self.request.without_upgrade())
            except httptools.HttpParserCallbackError as error:
                if isinstance(error.__context__, httptools.HttpParserInvalidURLError):
                    return 400
                logger.exception("A request over HTTP could not be read")
                return 500
            except httptools.HttpParserError:
                return 400
        return None

    # What the parser calls

    def on_message_begin(self) -> None:
        self.request = Request()
        self._head = 0 if self._between else -self._size  # of which most was something else
        self._between = False
        self._taker.began()

    def on_url(self, url: bytes) -> None:
        self.request.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self.request
        if request.headed:
            return  # a trailer: nobody in between has looked at it as at a header
        name = name.lower()
        if name in request.headers:
            request.repeated.append(name)
        # White space behind a value is no part of it, but httptools leaves it there.
        request.headers[name] = value.strip(b" \t")

    def on_headers_complete(self) -> None:
        parser, request = self._parser, self.request
        assert parser is not None
        request.method = parser.get_method().decode("ascii")
        request.version = parser.get_http_version()
        request.kept = request.version != "1.0" and parser.should_keep_alive()
        if parser.should_upgrade():
            return
        request.headed, self._head = True, None
        request.expects = _expects(request)
        url = httptools.parse_url(request.url)
        path = (url.path or b"/").decode("ascii")
        request.path = unquote(path) if "%" in path else path
        request.query = url.query or b""
        self._taker.headed(request)

    def on_chunk_header(self) -> None:
        self._head = -self._size

    def on_body(self, body: bytes) -> None:
        self._head = None
        self._taker.came(self.request, body)

    def on_message_complete(self) -> None:
        request = self.request
        if request.headed:  # else it offers an upgrade, and is read once more without that
            self._head, request.complete = None, True
            self._taker.completed(request)


def _parser(reading: Reading) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(reading)
    # What comes behind a request that wants the connection closed is nobody's; it is not the request's fault.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _expects(request: Request) -> bool:
    headers = request.headers
    if headers.get(b"expect", b"").lower() != b"100-continue" or request.version == "1.0":
        return False
    return b"content-length" in headers or b"transfer-encoding" in headers
