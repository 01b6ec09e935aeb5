"""Addresses of resources: ours for one that two servers share, and which a template can expand to. Pure."""

from __future__ import annotations

import re

GATEWAY_URI = "kimi-gateway://"


def gateway_uri(server: str, uri: str) -> str:
    return f"{GATEWAY_URI}{server}/{uri}"


def split_gateway_uri(uri: str) -> tuple[str, str]:
    """Server and its own URI; no server if it is not one of ours."""
    if not uri.startswith(GATEWAY_URI):
        return "", uri
    server, _, original = uri[len(GATEWAY_URI) :].partition("/")
    return server, original


class Template:
    """A URI template (RFC 6570), and whether a URI may be its expansion.

    Not a regular expression: several that cross slashes would make one upstream's template cost all of our time.
    """

    def __init__(self, template: str) -> None:
        self._parts: list[str | bool] = []
        """Literals; of expressions only whether they cross slashes: `{+x}`, `{#x}` and the like do, `{x}` does not."""
        for literal, expression in re.findall(r"((?:[^{]|\{(?![^{}]*\}))*)(\{[^{}]*\})?", template):
            self._parts.append(literal)
            if expression:
                self._parts.append(expression[1:2] in ("+", "#", "/", "?", "&", ";"))

    def matches(self, uri: str) -> bool:
        ends = {0}
        """Where what was looked at so far may end."""
        for part in self._parts:
            if isinstance(part, str):
                ends = {end + len(part) for end in ends if uri.startswith(part, end)}
            elif ends:
                ends = self._stretched(ends, uri, crossing=part)
        return len(uri) in ends

    @staticmethod
    def _stretched(ends: set[int], uri: str, *, crossing: bool) -> set[int]:
        reached: set[int] = set()
        for place in range(min(ends), len(uri) + 1):
            if place in ends or (place - 1 in reached and (crossing or uri[place - 1] != "/")):
                reached.add(place)
        return reached
