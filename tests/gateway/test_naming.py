"""Names on the wire: cell by cell, and for any names a server may come up with."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.models import Naming
from gateway.naming import LIMIT, canonical, clashes, fold, server_prefixes, split, tool_names, wire_names

HASH = "[a-z2-7]{8}"

Tools = Mapping[str, list[str]]

# Few letters, so that names meet often; and now and then anything at all.
_crowded = st.text(alphabet="ab_-.", max_size=5)
_servers = _crowded | st.text(alphabet="ab_-", min_size=20, max_size=50) | st.text(max_size=8)
_tools = _crowded | st.text(alphabet="ab:_-", max_size=60) | st.text(max_size=8)
_tables = st.dictionaries(
    _servers.filter(lambda name: ":" not in name) | st.just("kimi"), st.lists(_tools, max_size=8), max_size=6
)


def name_of(server: str, tool: str, *others: str) -> str:
    return wire_names({server: [tool, *others]})[server][tool]


@pytest.mark.parametrize(
    ("server", "tool", "wire"),
    [
        ("brave-search", "resolve-library-id", "brave-search__resolve-library-id"),
        ("kimi", "kimi_analyze", "kimi__kimi_analyze"),
        ("a", "_b", "a___b"),
        ("a", "b__c", "a__b__c"),
        ("_a", "b", "_a__b"),
        ("s", "x" * 42, "s__" + "x" * 42),
        ("s" * 43, "", "s" * 43 + "__"),
        ("S", "Get", "S__Get"),
    ],
)
def test_a_plain_name_stays_plain(server: str, tool: str, wire: str) -> None:
    assert name_of(server, tool) == wire


@pytest.mark.parametrize(
    ("server", "tool", "pattern"),
    [
        ("github", "get repo", f"github__get_repo_{HASH}"),
        ("github", "a:b", f"github__a_b_{HASH}"),
        ("github", "a.b", f"github__a_b_{HASH}"),
        ("github", "größe", f"github__gr__e_{HASH}"),
        ("github", "工具", f"github__{HASH}"),
        ("s", "x" * 43, f"s__x{{33}}_{HASH}"),
        ("my.server", "t", f"my_server__t_{HASH}"),
        ("a__b", "c", f"a_b_c_{HASH}"),
        ("a--b", "c", f"a_b_c_{HASH}"),
        ("a-_b", "c", f"a_b_c_{HASH}"),
        ("a_", "b", f"a_b_{HASH}"),
        ("a-", "b", f"a_b_{HASH}"),
        ("☃", "☃", HASH),
        ("s" * 30, "look_up_the_thing", f"s{{18}}_look_up_the_thing_{HASH}"),
        ("s" * 60, "t" * 60, f"s{{12}}_t{{23}}_{HASH}"),
    ],
)
def test_a_hash_is_added_where_it_must(server: str, tool: str, pattern: str) -> None:
    assert re.fullmatch(pattern, name_of(server, tool))


def test_of_two_tools_that_fold_alike_the_one_that_is_its_own_folded_form_keeps_it() -> None:
    names = wire_names({"s": ["get-x", "get_x", "get-y"]})["s"]
    assert names["get_x"] == "s__get_x"
    assert names["get-y"] == "s__get-y"
    assert re.fullmatch(f"s__get-x_{HASH}", names["get-x"])


def test_of_two_tools_of_which_neither_is_its_folded_form_both_get_a_hash() -> None:
    names = wire_names({"s": ["a-b_c", "a_b-c"]})["s"]
    assert re.fullmatch(f"s__a-b_c_{HASH}", names["a-b_c"])
    assert re.fullmatch(f"s__a_b-c_{HASH}", names["a_b-c"])


def test_a_server_gives_way_to_the_one_that_is_its_folded_form() -> None:
    names = wire_names({"my-server": ["t"], "my_server": ["t"]})
    assert names["my_server"] == {"t": "my_server__t"}
    assert re.fullmatch(f"my-server_t_{HASH}", names["my-server"]["t"])


def test_of_two_servers_of_which_neither_is_its_folded_form_both_give_way() -> None:
    names = wire_names({"a-b_c": ["t"], "a_b-c": ["t"]})
    assert all(re.search(f"_t_{HASH}$", names[server]["t"]) for server in names)


def test_names_that_differ_in_case_are_different() -> None:
    assert wire_names({"s": ["get", "Get"], "S": ["get"]}) == {
        "S": {"get": "S__get"},
        "s": {"get": "s__get", "Get": "s__Get"},
    }


def test_a_hash_steps_aside_for_a_plain_name_that_looks_like_it() -> None:
    hashed = name_of("s", "a b")
    mimic = hashed.removeprefix("s__")
    second = name_of("s", "a b", mimic)
    names = wire_names({"s": ["a b", mimic, second.removeprefix("s__")]})["s"]
    assert names[mimic] == hashed
    assert len({hashed, second, names["a b"]}) == 3


def test_no_server_can_take_the_hashed_name_of_another() -> None:
    hashed = name_of("a__b", "c")
    names = wire_names({"a__b": ["c"], hashed: ["c", ""], "a": [hashed, hashed[2:], f"b__c_{hashed[-8:]}"]})
    assert names["a__b"]["c"] == hashed
    assert_good(names)


def test_a_lone_surrogate_in_a_name_does_no_harm() -> None:
    assert re.fullmatch(f"s__a_{HASH}", name_of("s", "a\ud800"))


def test_canonical_puts_the_key_on_the_wire() -> None:
    tools = {"a__b": ["c d", "x" * 99], "kimi": ["k"]}
    names = wire_names(tools, "canonical")
    assert names == {server: {tool: f"{server}:{tool}" for tool in tools[server]} for server in tools}


@pytest.mark.parametrize("kimi", [{}, {"kimi": ["kimi_analyze"]}])
def test_bare_drops_the_prefix_of_the_only_upstream_besides_kimi(kimi: dict[str, list[str]]) -> None:
    names = wire_names({"fs": ["read-file", "kimi_analyze"], **kimi}, "bare")
    assert names["fs"] == {"read-file": "read-file", "kimi_analyze": "kimi_analyze"}
    assert names.get("kimi", {}) == {tool: f"kimi__{tool}" for tool in kimi.get("kimi", [])}


@pytest.mark.parametrize("tools", [{"a": ["t"], "b": ["u"]}, {"kimi": ["t"]}, {"a": ["t"], "b": ["u"], "kimi": ["t"]}])
def test_bare_is_safe_where_there_is_not_exactly_one_upstream(tools: Tools) -> None:
    assert wire_names(tools, "bare") == wire_names(tools, "safe")


@pytest.mark.parametrize(
    ("tool", "pattern"),
    [
        ("kimi__kimi_analyze", "fs__kimi__kimi_analyze"),
        ("kimi--x", "fs__kimi--x"),
        ("fs__read", "fs__fs__read"),
        ("", "fs__"),
        ("a.b", f"fs__a_b_{HASH}"),
        ("x" * 45, "x{45}"),
        ("x" * 46, f"fs__x{{32}}_{HASH}"),
    ],
)
def test_a_bare_name_that_could_be_taken_for_another_keeps_its_prefix(tool: str, pattern: str) -> None:
    names = wire_names({"fs": [tool], "kimi": ["kimi_analyze"]}, "bare")
    assert re.fullmatch(pattern, names["fs"][tool])


def test_keys_are_split_at_the_first_colon() -> None:
    assert split(canonical("s", "a:b")) == ("s", "a:b")
    assert split("plain") == ("", "plain")


def test_clashes_name_those_that_gave_way_and_to_whom() -> None:
    found = clashes({"my-s": ["t"], "my_s": ["get-x", "get_x", "t"]})
    wire = name_of("my_s", "get-x", "get_x")
    assert [str(clash) for clash in found] == [
        "my-s: its tools carry a hash, as clients could not tell its name from my_s; rename it",
        f"my_s:get-x is {wire} on the wire: clients could not tell it from my_s:get_x",
    ]
    assert clashes({"a": ["x y", "z" * 60], "b__": ["t"]}) == ()


def test_clashes_of_canonical_names_warn_of_clients_that_fold() -> None:
    found = clashes({"a": ["b-c", "b_c"], "d": ["e"]}, "canonical")
    assert [clash.key for clash in found] == ["a:b-c", "a:b_c"]
    assert "naming safe" in str(found[0])


def assert_good(names: dict[str, dict[str, str]]) -> None:
    wires = [wire for tools in names.values() for wire in tools.values()]
    assert all(re.fullmatch("[A-Za-z0-9_-]+", wire) and len(wire) <= LIMIT for wire in wires)
    folded = [fold(wire) for wire in wires]
    assert len(set(folded)) == len(folded)


@settings(deadline=None)
@given(_tables, st.sampled_from(["safe", "bare"]))
def test_any_names_are_unique_after_folding_short_and_clean(tools: Tools, naming: Naming) -> None:
    names = wire_names(tools, naming)
    assert {server: set(names[server]) for server in names} == {server: set(tools[server]) for server in tools}
    assert_good(names)


@settings(deadline=None)
@given(_servers.filter(lambda name: ":" not in name), st.lists(_tools, max_size=8), st.lists(_tools, max_size=3))
def test_bare_names_are_unique_beside_those_of_kimi(server: str, tools: list[str], kimi: list[str]) -> None:
    assert_good(wire_names({"kimi": kimi, server: tools}, "bare"))


@settings(deadline=None)
@given(_tables, st.sampled_from(["safe", "bare", "canonical"]), st.randoms())
def test_names_do_not_depend_on_the_order_of_arrival(tools: Tools, naming: Naming, chance: random.Random) -> None:
    servers = list(tools)
    chance.shuffle(servers)
    shuffled = {server: chance.sample(tools[server], len(tools[server])) for server in servers}
    assert wire_names(shuffled, naming) == wire_names(tools, naming)
    assert clashes(shuffled, naming) == clashes(tools, naming)


@settings(deadline=None)
@given(_tables)
def test_names_of_a_server_depend_only_on_its_own_tools_and_on_servers_that_fold_alike(tools: Tools) -> None:
    names = wire_names(tools)
    prefixes = server_prefixes(tools)
    for server in tools:
        assert names[server] == tool_names(prefixes[server], tools[server])
        alike: Tools = {other: [] for other in tools if fold(other) == fold(server)}
        assert names[server] == wire_names({**alike, server: tools[server]})[server]


@settings(deadline=None)
@given(_tables)
def test_a_name_that_needs_no_hash_has_none(tools: Tools) -> None:
    for server, names in wire_names(tools).items():
        folded = fold(server)
        odd = "__" in folded or folded.endswith("_")
        odd |= server != folded and any(fold(other) == folded for other in tools if other != server)
        for tool, wire in names.items():
            plain = f"{server}__{tool}"
            bad = not re.fullmatch("[A-Za-z0-9_-]*", plain) or len(plain) > LIMIT
            meets = tool != fold(tool) and any(fold(other) == fold(tool) for other in names if other != tool)
            assert (wire == plain) == (not (odd or bad or meets))


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param([f"get_thing-{number}" for number in range(5000)], id="plain"),
        pytest.param(["☃" + "_-" * 6 + chr(0x4E00 + number) for number in range(5000)], id="hostile"),
    ],
)
def test_the_work_of_naming_grows_with_the_number_of_tools_and_not_with_its_square(tools: list[str]) -> None:
    def work(count: int) -> float:
        start = time.process_time()
        wire_names({"s": tools[:count]})
        clashes({"s": tools[:count]})
        return time.process_time() - start

    few, many = (min(work(count) for _ in range(3)) for count in (500, 5000))
    assert many < 40 * few  # ten times as many: a square would be a hundred
