"""URIs inside results: who issued a link, and the name it has where two servers share one. Pure."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from gateway.exchange import Exchange
from gateway.protocol import methods
from gateway.protocol.frames import Malformed, Object, open_array, open_object, quote, seal, text
from gateway.registry import View

CARRIERS = frozenset((methods.TOOLS_CALL, methods.PROMPTS_GET, methods.RESOURCES_READ))
REMEMBERED = 1000
"""Links of one client whose issuer is kept."""


def outward(view: View, exchange: Exchange, result: bytes | Raw, issued: Callable[[str, str], None]) -> bytes | Raw:
    """The result as the client may read it; opened only if it can hold a URI of interest.

    `issued` is told of each link, and which server it came from.
    """
    server = exchange.server
    renamed = server in view.renamed
    if not renamed and bytes(result).find(b"resource_link") < 0:
        return result

    changed, name = False, view.expanded if exchange.by_our_uri else view.outward

    def rename(uri: str, *, link: bool) -> str:
        nonlocal changed
        shown = name(server, uri) if renamed else uri
        changed = changed or shown != uri
        if link:
            issued(shown, server)
        return shown

    try:
        rewritten = _rewritten(exchange.method, result, rename)
    except Malformed:
        return result
    return rewritten if changed else result


Rename = Callable[..., str]


def _rewritten(method: str, result: bytes | Raw, rename: Rename) -> bytes:
    opened = open_object(result)
    if method == methods.RESOURCES_READ:
        _each(opened, "contents", lambda item: _uri(item, rename, link=False))
    elif method == methods.TOOLS_CALL:
        _each(opened, "content", lambda item: _content(item, rename))
    else:
        _each(opened, "messages", lambda message: _message(message, rename))
    return seal(opened)


def _each(opened: Object, key: str, change: Callable[[Object], None]) -> None:
    if key not in opened:
        return
    items: list[bytes] = []
    for raw in open_array(opened[key]):
        item = open_object(raw)
        change(item)
        items.append(seal(item))
    opened[key] = Raw(b"[" + b",".join(items) + b"]")


def _message(message: Object, rename: Rename) -> None:
    if "content" in message:
        content = open_object(message["content"])
        _content(content, rename)
        message["content"] = Raw(seal(content))


def _content(item: Object, rename: Rename) -> None:
    kind = text(item.get("type"))
    if kind == "resource_link":
        _uri(item, rename, link=True)
    elif kind == "resource" and "resource" in item:
        resource = open_object(item["resource"])
        _uri(resource, rename, link=False)
        item["resource"] = Raw(seal(resource))


def _uri(item: Object, rename: Rename, *, link: bool) -> None:
    uri = text(item.get("uri"))
    if uri is not None:
        shown = rename(uri, link=link)
        if shown != uri:
            item["uri"] = quote(shown)
