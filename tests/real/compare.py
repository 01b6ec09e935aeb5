"""What servers list directly against what one gateway lists for them: the same but for the names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.naming import wire_names

Json = dict[str, Any]
Ask = Callable[[str, Json], Json]
Listings = dict[str, list[Json]]
"""What one side lists, by kind."""

METHODS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
ADDRESS = {"resources": "uri", "resourceTemplates": "uriTemplate"}


def listings(ask: Ask) -> Listings:
    """Everything the other side lists; a refused list is an empty one."""
    return {kind: _all_pages(ask, kind) for kind in METHODS}


def _all_pages(ask: Ask, kind: str) -> list[Json]:
    items: list[Json] = []
    params: Json = {}
    while True:
        result = ask(METHODS[kind], params).get("result", {})
        items += result.get(kind, [])
        if not result.get("nextCursor"):
            return items
        params = {"cursor": result["nextCursor"]}


def differences(direct: Mapping[str, Listings], through: Listings) -> dict[str, list[str]]:
    """By server, or "" where it is nobody's: each item that is missing, changed or too many."""
    found: dict[str, list[str]] = {}
    for kind in ("tools", "prompts"):
        _compare_named(kind, {name: lists[kind] for name, lists in direct.items()}, through[kind], found)
    for kind in ADDRESS:
        _compare_addressed(kind, {name: lists[kind] for name, lists in direct.items()}, through[kind], found)
    return found


def _compare_named(
    kind: str, direct: Mapping[str, list[Json]], through: list[Json], found: dict[str, list[str]]
) -> None:
    names = wire_names({server: [item["name"] for item in items] for server, items in direct.items()})
    listed = {item["name"]: item for item in through}
    if len(listed) < len(through):
        found.setdefault("", []).append(f"{kind}: {len(through) - len(listed)} names are listed twice")
    for server, items in direct.items():
        for item in items:
            expected = {**item, "name": names[server][item["name"]]}
            got = listed.pop(expected["name"], None)
            if got is None:
                found.setdefault(server, []).append(f"{kind}: {item['name']} is missing")
            elif _text(got) != _text(expected):
                found.setdefault(server, []).append(f"{kind}: {item['name']} differs: {_first_change(expected, got)}")
    for name in listed:
        found.setdefault("", []).append(f"{kind}: {name} is nobody's")


def _compare_addressed(
    kind: str, direct: Mapping[str, list[Json]], through: list[Json], found: dict[str, list[str]]
) -> None:
    """An address that an earlier server has is the gateway's own; all others pass unchanged."""
    address = ADDRESS[kind]
    taken: set[str] = set()
    rest = Counter(map(_text, through))
    clashing: list[tuple[str, Json]] = []
    for server in sorted(direct):
        for item in direct[server]:
            if item[address] in taken:
                clashing.append((server, item))
            elif rest[_text(item)]:
                rest[_text(item)] -= 1
            else:
                found.setdefault(server, []).append(f"{kind}: {item[address]} is missing or differs")
        taken.update(item[address] for item in direct[server])
    left = Counter(_text({**json.loads(text), address: ""}) for text in rest.elements())
    own = Counter(_text({**item, address: ""}) for _, item in clashing)
    for text in (own - left).elements():
        found.setdefault("", []).append(f"{kind}: under an address of the gateway's there should be {text[:300]}")
    for text in (left - own).elements():
        found.setdefault("", []).append(f"{kind}: nobody lists {text[:300]}")


def _first_change(expected: Json, got: Json) -> str:
    for key in [*expected, *got]:
        if _text(expected.get(key)) != _text(got.get(key)):
            return f"{key}: {_text(expected.get(key))[:150]} became {_text(got.get(key))[:150]}"
    return f"the order of members: {list(expected)} became {list(got)}"


def _text(value: Any) -> str:
    """Its JSON with the members in the order they came in."""
    return json.dumps(value)


def count(lists: Iterable[Listings], kind: str) -> int:
    return sum(len(one[kind]) for one in lists)
