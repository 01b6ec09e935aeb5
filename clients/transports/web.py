"""What both transports over HTTP hold to: origins, headers, sizes, and what a status means."""

from __future__ import annotations

import email.utils
import re
import ssl
import time
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit, urlunsplit

from clients.causes import GaveUp, Lost
from configs.models import Server
from gateway import __version__

CONNECT = 10.0
"""Seconds for a connection to be made, TLS included."""
CLOSING = 2.0
"""Seconds for the last words at close."""
REDIRECTS = frozenset((301, 302, 307, 308))
HOPS = 5
EXCERPT = 65_536
"""Bytes read of the body of an error."""
LONGEST_PAUSE = 3600.0
PIECE = 1 << 20

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what decides who may see our credentials."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def place(url: str) -> str:
    """The origin as people write it; never the path or the query, which may hold a secret."""
    scheme, host, port = origin(url)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def check_url(server: Server) -> str:
    """The address to dial.

    Raises:
        GaveUp: it is none.
    """
    try:
        scheme, host, _ = origin(server.url)
    except ValueError:
        scheme = host = ""
    if scheme not in ("http", "https") or not host or _FORBIDDEN.search(server.url):
        raise GaveUp("its url is no http or https address", "Correct `url` in the entry.", may_pass=False)
    return server.url


def check_headers(server: Server) -> dict[str, str]:
    """The headers that its entry wants on every request, and who we are.

    Raises:
        GaveUp: one of them cannot be a header.
    """
    headers = {"user-agent": f"kimi-gateway/{__version__}"}
    for name, value in server.headers.items():
        if not _TOKEN.fullmatch(name):
            raise GaveUp(f"{name!r} is no name of a header", "Correct `headers` in the entry.", may_pass=False)
        if _FORBIDDEN.search(value):
            raise GaveUp(
                f"the header {name} holds a line break or another control character",
                "Correct `headers` in the entry, or the variable its value comes from.",
                may_pass=False,
            )
        headers[name.lower()] = value.strip(" \t")
    return headers


def joined(url: str, reference: str) -> str:
    """Where a reference found at an address leads; within its origin, the name and password in it go along.

    Raises:
        ValueError: nowhere.
    """
    target = urljoin(url, reference)
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    parts = urlsplit(target)
    if at and "@" not in parts.netloc and origin(target) == origin(url):
        return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc}"))
    return target


def redirected(url: str, location: str) -> str:
    """Where a redirect leads, as long as that is the same origin.

    Raises:
        GaveUp: it leads elsewhere, and our credentials stay here.
    """
    try:
        target = joined(url, location)
        same, elsewhere = origin(target) == origin(url), place(target)
    except ValueError:
        target, same, elsewhere = "", False, "an address that is none"
    if not same:
        raise GaveUp(
            f"redirects from {place(url)} to {elsewhere}, which is another origin",
            "If that is where it lives now, write that address as `url` in the entry.",
        )
    return target


def needs_auth(status: int, challenge: str | None) -> GaveUp:
    """A server that wants to know who asks."""
    scheme = (challenge or "Bearer").split(None, 1)[0] if (challenge or "Bearer").strip() else "Bearer"
    what = "it refuses the credentials or has none" if status == 401 else "it refuses access with these credentials"
    return GaveUp(
        f"needs auth: HTTP {status}, {what}",
        f'Put them into its entry: "headers": {{"Authorization": "{scheme} ${{TOKEN}}"}}.',
    )


def untrusted(host: str, problem: object) -> GaveUp:
    return GaveUp(
        f"the certificate of {host} is not trusted: {problem}",
        "Have the server's certificate renewed, or name your own authority in SSL_CERT_FILE.",
    )


def unreachable(error: BaseException | None, host: str, port: int | None) -> Lost:
    """A connection that could not be made, in words."""
    where = f"{host}:{port}"
    if isinstance(error, ConnectionRefusedError):
        return Lost(f"connection refused by {where}")
    if isinstance(error, TimeoutError):
        return Lost(f"could not connect to {where} within {CONNECT:g} s")
    words = getattr(error, "strerror", None) or (str(error) if error is not None else "")
    return Lost(f"could not connect to {where}: {words or 'it closed the connection'}")


def status_words(status: int, body: bytes = b"") -> str:
    """A status as people say it, with the beginning of what the server had to say."""
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    said = " ".join(body[:400].decode(errors="replace").split())
    if said.startswith("<"):
        said = ""  # a page for a browser
    return f"HTTP {status}{phrase}" + (f": {said[:200]}" if said else "")


def retry_after(value: str | None) -> float | None:
    """`Retry-After` in seconds, from either of its spellings."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), LONGEST_PAUSE)
    try:
        at = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(0.0, at - time.time()), LONGEST_PAUSE)


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address, and none for our own machine.

    Raises:
        GaveUp: it is none that we can speak to.
    """
    scheme, host, port = origin(url)
    if is_loopback(host) or urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    proxies = urllib.request.getproxies()
    named = proxies.get(scheme) or proxies.get("all")
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"  # curl takes it so, and people write it so
    kind = proxy.partition("://")[0].lower()
    try:
        usable = kind in ("http", "https") and bool(origin(proxy)[1])
    except ValueError:
        usable = False
    if not usable:
        raise GaveUp(
            f"the environment names a proxy for it that is no HTTP proxy ({kind})",
            f"Set {scheme}_proxy to the address of an HTTP proxy, or name {host} in no_proxy.",
        )
    return proxy


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def trust(url: str) -> ssl.SSLContext | None:
    """Verification by the system's authorities, or by SSL_CERT_FILE."""
    return ssl.create_default_context() if origin(url)[0] == "https" else None


class Undecodable(Exception):
    """A body in an encoding that was not asked for, or not in the one it claims."""


class Decoder:
    """Undo a content encoding piece by piece, so that a small body cannot become a big piece of memory."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("Content-Encoding", "").strip().lower()
        if encoding in ("", "identity"):
            self._inflate = None
        elif encoding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=47 if encoding != "deflate" else 15)
        else:
            raise Undecodable(f"answers in the encoding {encoding[:40]!r}, which was not asked for")

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The decoded pieces, none over a mebibyte.

        Raises:
            Undecodable: it is damaged.
        """
        inflate = self._inflate
        if inflate is None:
            yield chunk
            return
        try:
            while chunk:
                yield inflate.decompress(chunk, PIECE)
                chunk = inflate.unconsumed_tail
        except zlib.error as error:
            raise Undecodable(f"sent a damaged compressed body ({error})") from error
