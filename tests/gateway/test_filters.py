"""Filters: cell by cell, and that no rule ever shows more."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.models import Config, Globs, Rules, Server, Source
from gateway.filters import ToolFilter

HOME = Source(Path("/home/me/.kode.json"), "global")
PROJECT = Source(Path("/src/app/.kode.json"), "project")


def rules(
    allow: tuple[str, ...] = ("*",),
    deny: tuple[str, ...] = (),
    *,
    read_only: bool = False,
    servers: Globs | None = None,
    label: str = "gateway.tools",
    source: Source = HOME,
) -> Rules:
    return Rules(label, source, Globs(allow, deny), read_only, servers)


def shows(filter: ToolFilter, key: str, *, hint: bool = False) -> bool:
    server, _, tool = key.partition(":")
    return filter.hidden_by(server, tool, hint) is None


@pytest.mark.parametrize(
    ("allow", "deny", "tool", "shown"),
    [
        (("*",), (), "get_x", True),
        (("*",), ("delete_*",), "delete_x", False),
        (("*",), ("delete_*",), "get_x", True),
        (("get_*",), (), "get_x", True),
        (("get_*",), (), "Get_x", False),
        (("get_*",), ("get_x",), "get_x", False),
        (("get_*", "put_?"), (), "put_x", True),
        (("get_*", "put_?"), (), "put_xy", False),
        (("[gp]ut",), (), "put", True),
        (("[!gp]ut",), (), "put", False),
        ((), (), "get_x", False),
        (("get",), (), "get\n", False),
        (("get*",), (), "get\nx", True),
        # A server's own rules name its tools, with or without its name before them.
        (("s:get_*",), (), "get_x", True),
        (("*",), ("s:get_*",), "get_x", False),
        (("*",), ("s*",), "get_x", True),
        (("s*",), (), "get_x", False),
        (("*",), ("a:b",), "a:b", False),
    ],
)
def test_a_server_s_own_rules(allow: tuple[str, ...], deny: tuple[str, ...], tool: str, shown: bool) -> None:
    filter = ToolFilter({"s": (rules(allow, deny),)})
    assert shows(filter, f"s:{tool}") is shown
    assert shows(filter, f"other:{tool}")


@pytest.mark.parametrize(
    ("allow", "deny", "key", "shown"),
    [
        (("*",), ("*:delete_*",), "github:delete_x", False),
        (("*",), ("*:delete_*",), "github:get_x", True),
        (("github:get_*", "kimi:*"), (), "github:get_x", True),
        (("github:get_*", "kimi:*"), (), "kimi:kimi_analyze", True),
        (("github:get_*", "kimi:*"), (), "fs:get_x", False),
        (("github:get_*",), ("github:get_secret",), "github:get_secret", False),
        (("*:*",), (), "a:b", True),
        # Without a colon: the tool's name on any server.
        (("get_*",), (), "github:get_x", True),
        (("get_*",), (), "github:put_x", False),
        (("*",), ("delete_*",), "github:delete_x", False),
        # In doubt a rule narrows: an allow for tools does not admit a server, a deny may mean one.
        (("search*",), (), "search:rm", False),
        (("*",), ("search*",), "search:rm", False),
        # A tool cannot borrow the name of another server.
        (("github:get_*",), (), "evil:github:get_x", False),
        # Odd patterns are text.
        (("*",), ("[",), "a:[", False),
        (("*",), ("[z-a]",), "a:b", True),
        (("*",), ("",), "a:b", True),
    ],
)
def test_rules_of_the_gateway_and_of_a_profile(
    allow: tuple[str, ...], deny: tuple[str, ...], key: str, shown: bool
) -> None:
    level = (rules(allow, deny),)
    assert shows(ToolFilter({}, level), key) is shown
    assert shows(ToolFilter({}, (), level), key) is shown


@pytest.mark.parametrize("level", ["own", "gateway", "profile"])
def test_read_only_keeps_only_tools_that_say_so(level: str) -> None:
    only = (rules(read_only=True),)
    filter = ToolFilter({"s": only if level == "own" else ()}, only if level == "gateway" else (), only)
    assert shows(filter, "s:t", hint=True)
    assert not shows(filter, "s:t", hint=False)


def test_all_levels_must_agree() -> None:
    filter = ToolFilter(
        {"s": (rules(deny=("a",)),)},
        (rules(deny=("*:b",)), rules(deny=("*:c",), source=PROJECT)),
        (rules(deny=("*:d",)),),
    )
    assert [tool for tool in "abcde" if shows(filter, f"s:{tool}")] == ["e"]


def test_a_hidden_tool_says_which_rule_in_which_file() -> None:
    filter = ToolFilter(
        {"github": (rules(deny=("x", "delete_*"), label="mcpServers.github.tools"),)},
        (rules(("get_*", "github:*"), source=PROJECT),),
        (rules(read_only=True, label="gateway.profiles.reviewer.tools"),),
    )
    assert str(filter.hidden_by("github", "delete_x", True)) == (
        'hidden by deny "delete_*" (mcpServers.github.tools in /home/me/.kode.json)'
    )
    assert str(filter.hidden_by("fs", "put_x", True)) == (
        'hidden by allow ["get_*", "github:*"], which does not match it (gateway.tools in /src/app/.kode.json)'
    )
    assert str(filter.hidden_by("fs", "get_x", False)) == (
        "hidden by readOnly, as it does not say readOnlyHint: true "
        "(gateway.profiles.reviewer.tools in /home/me/.kode.json)"
    )
    assert filter.explain("fs:get_x", True) == "fs:get_x is visible"
    everything = filter.explain("github:delete_x", False)
    assert everything.startswith('github:delete_x is hidden by deny "delete_*"')
    assert "readOnly" in everything


def test_servers_beside_tools_hide_a_server_s_tools_too() -> None:
    filter = ToolFilter({}, (), (rules(servers=Globs(("git*",), ("*lab",)), label="gateway.profiles.r.tools"),))
    assert shows(filter, "github:t")
    place = "(gateway.profiles.r.servers in /home/me/.kode.json)"
    assert str(filter.hidden_by("gitlab", "t", True)) == f'hidden by deny "*lab" {place}'
    assert str(filter.hidden_by("fs", "t", True)) == f'hidden by allow ["git*"], which does not match it {place}'
    assert place in filter.explain("fs:t", True)


def test_a_filter_is_made_of_a_configuration_and_a_profile() -> None:
    config = Config(
        project=Path("/src/app"),
        files=(),
        servers={"s": Server("s", "stdio", HOME, rules=(rules(deny=("a",)),))},
        rules=(rules(deny=("*:b",)),),
        profiles={"p": (rules(deny=("*:c",)),)},
    )
    assert [tool for tool in "abcd" if shows(ToolFilter.of(config), f"s:{tool}")] == ["c", "d"]
    assert [tool for tool in "abcd" if shows(ToolFilter.of(config, "p"), f"s:{tool}")] == ["d"]
    with pytest.raises(KeyError):
        ToolFilter.of(config, "q")


A_AND_B = [("a", True), ("b", False)]
NONE: list[tuple[str, bool]] = []


@pytest.mark.parametrize(
    ("own", "shared", "tools", "visible"),
    [
        ([], [], A_AND_B, True),
        ([], [], NONE, True),
        ([], [rules()], NONE, True),
        # A shared filter that leaves no tool hides the server; the server's own does not.
        ([], [rules(("other:*",))], A_AND_B, False),
        ([], [rules(deny=("s:*",))], A_AND_B, False),
        ([], [rules(("s:a",))], A_AND_B, True),
        ([], [rules(read_only=True)], A_AND_B, True),
        ([], [rules(read_only=True)], [("b", False)], False),
        ([rules(())], [], A_AND_B, True),
        ([rules(())], [rules(deny=("x:*",))], A_AND_B, True),
        # Together: what one leaves the other takes.
        ([], [rules(("s:a",)), rules(("s:b",))], A_AND_B, False),
        ([rules(deny=("a",))], [rules(("s:a",))], A_AND_B, False),
        ([rules(deny=("a",))], [rules(deny=("s:b",))], A_AND_B, False),
        # `servers` decides instead, for its own level only.
        ([], [rules(("other:*",), servers=Globs())], A_AND_B, True),
        ([], [rules(servers=Globs(deny=("s",)))], A_AND_B, False),
        ([], [rules(servers=Globs(("other",)))], A_AND_B, False),
        ([], [rules(("other:*",)), rules(servers=Globs())], A_AND_B, False),
        ([], [rules(("other:*",), servers=Globs(("s",)))], NONE, True),
        # No tools to begin with.
        ([], [rules(("other:*",))], NONE, False),
        ([], [rules(("s:get_*",))], NONE, True),
        ([], [rules(("get_*",))], NONE, True),
        ([], [rules(())], NONE, False),
        ([], [rules(deny=("s:*",))], NONE, False),
        ([], [rules(deny=("*",))], NONE, False),
        ([], [rules(deny=("s:get_*", "*_x", "other:*"))], NONE, True),
        ([], [rules(read_only=True)], NONE, True),
    ],
)
def test_a_server_left_without_tools_is_hidden_whole(
    own: list[Rules], shared: list[Rules], tools: list[tuple[str, bool]], visible: bool
) -> None:
    for split in range(len(shared) + 1):
        filter = ToolFilter({"s": own}, shared[:split], shared[split:])
        assert filter.visible("s", tools) is visible


def test_a_hidden_server_says_which_rule_in_which_file() -> None:
    filter = ToolFilter({}, (rules(deny=("*:b",)),), (rules(deny=("s:*",), source=PROJECT),))
    assert str(filter.server_hidden("s", A_AND_B)) == (
        "hidden by a filter that leaves it no tool (gateway.tools in /src/app/.kode.json)"
    )


_names = st.text(alphabet="ab:*", max_size=4)
_patterns = st.lists(st.text(alphabet="ab:*?[]!-", max_size=5), max_size=3).map(tuple)
_globs = st.builds(Globs, _patterns | st.just(("*",)), _patterns)
_rules = st.builds(Rules, st.just("gateway.tools"), st.just(HOME), _globs, st.booleans(), st.none() | _globs)
_levels = st.lists(_rules, max_size=2)
_offers = st.lists(st.tuples(_names, st.booleans()), max_size=4)


@settings(deadline=None)
@given(_levels, _levels, _levels, _rules, _offers)
def test_one_rule_more_never_shows_more(
    own: list[Rules], gateway: list[Rules], profile: list[Rules], more: Rules, tools: list[tuple[str, bool]]
) -> None:
    before = ToolFilter({"a": own}, gateway, profile)
    for after in (
        ToolFilter({"a": [*own, more]}, gateway, profile),
        ToolFilter({"a": own}, [*gateway, more], profile),
        ToolFilter({"a": own}, gateway, [more, *profile]),
    ):
        for tool, hint in tools:
            assert before.hidden_by("a", tool, hint) is None or after.hidden_by("a", tool, hint) is not None
        assert before.visible("a", tools) or not after.visible("a", tools)


@settings(deadline=None)
@given(_levels, _levels, _levels, _offers)
def test_a_hidden_server_shows_no_tool_and_reasons_agree(
    own: list[Rules], gateway: list[Rules], profile: list[Rules], tools: list[tuple[str, bool]]
) -> None:
    filter = ToolFilter({"a": own}, gateway, profile)
    for tool, hint in tools:
        hidden = filter.hidden_by("a", tool, hint)
        assert filter.explain(f"a:{tool}", hint).startswith(f"a:{tool} is {hidden or 'visible'}")
        assert hidden is not None or filter.visible("a", tools)


@settings(deadline=None)
@given(_rules, st.sampled_from(["own", "gateway"]), _names, st.booleans())
def test_deny_wins_whatever_is_allowed(level: Rules, where: str, tool: str, hint: bool) -> None:
    filter = ToolFilter({"a": [level]}) if where == "own" else ToolFilter({}, [level])
    text = tool if where == "own" else f"a:{tool}"
    if any(fnmatchcase(text, pattern) for pattern in level.tools.deny):
        assert filter.hidden_by("a", tool, hint) is not None


@settings(deadline=None)
@given(st.lists(st.text(max_size=12), max_size=5).map(tuple), st.text(max_size=12))
def test_no_pattern_is_an_error_and_each_means_what_it_means_alone(patterns: tuple[str, ...], tool: str) -> None:
    hidden = ToolFilter({"a": [rules(deny=patterns)]}).hidden_by("a", tool, False)
    matching = [p for p in patterns if fnmatchcase(tool, p) or (":" in p and fnmatchcase(f"a:{tool}", p))]
    assert (hidden is not None) == bool(matching)
    assert hidden is None or hidden.reason in {f'deny "{pattern}"' for pattern in matching}


def test_five_thousand_tools_pass_three_levels_in_a_moment() -> None:
    deny = tuple(f"*:{'*a' * 10}{number}" for number in range(20))
    filter = ToolFilter({"s": [rules(deny=("delete_*",))]}, [rules(deny=deny)], [rules(("s:get_*",), read_only=True)])
    start = time.perf_counter()
    for number in range(5000):
        filter.hidden_by("s", f"get_{number}_" + "a" * (number % 50), number % 2 == 0)
    assert time.perf_counter() - start < 2
