"""The comparison must see what is worse, or `make conformance` proves nothing."""

from __future__ import annotations

import pytest

from tests.conformance.exceptions import BRIDGED
from tests.conformance.run import judge_clients, judge_servers
from tests.conformance.suite import Check, Leg
from tests.conformance.table import differences, passes, render, verdict


def check(status: str, id: str = "a", name: str = "A") -> Check:
    return Check(id, name, status, "because")


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        (["SUCCESS", "INFO"], "ok"),
        (["SUCCESS", "WARNING"], "warns"),
        (["WARNING", "FAILURE"], "FAILS"),
        ([], "-"),
    ],
)
def test_a_scenario_is_as_good_as_its_worst_check(statuses: list[str], word: str) -> None:
    assert verdict([check(status) for status in statuses]) == word


@pytest.mark.parametrize(
    ("direct", "through", "same"),
    [
        ("SUCCESS", "SUCCESS", True),
        ("SUCCESS", "INFO", True),
        ("INFO", "SUCCESS", True),
        ("WARNING", "WARNING", True),
        ("WARNING", "SUCCESS", True),
        ("SUCCESS", "WARNING", False),
        ("SUCCESS", "SKIPPED", False),
        ("SUCCESS", "FAILURE", False),
        ("WARNING", "FAILURE", False),
    ],
)
def test_only_what_is_worse_differs(direct: str, through: str, same: bool) -> None:
    found = differences({"s": [check(direct)]}, {"s": [check(through)]})
    assert found == ([] if same else [("s", "a", f"{through} a (A): because")])


def test_a_check_that_fails_twice_where_it_failed_once_differs() -> None:
    assert differences({"s": [check("WARNING")]}, {"s": [check("WARNING")] * 2})


def test_a_scenario_that_did_not_run_differs() -> None:
    assert differences({"s": [check("SUCCESS")]}, {}) == [("s", "", "did not run")]
    assert differences({}, {"s": [check("SUCCESS")]}) == [("s", "", "runs only through the gateway")]


LEG = Leg("1", "2025-11-25", "session", 1, ("c",))


def test_fewer_passes_than_expected_are_wrong_even_without_a_difference() -> None:
    bad = {"s": [check("FAILURE")]}
    assert judge_servers(LEG, {"direct": bad, "stdio, session": bad}) == [
        "1 2025-11-25: 0 of 1 scenarios pass directly, not 1"
    ]


def test_only_a_bridge_is_excused_and_only_while_it_must_be() -> None:
    leg = Leg("1", "2026-07-28", "stateless", 1, ())
    good = [check("SUCCESS", id) for id in BRIDGED["stateless"]]
    bad = [check("FAILURE", id) for id in BRIDGED["stateless"]]
    assert judge_servers(leg, {"direct": {"s": good}, "http, session": {"s": bad}}) == []
    for column, checks in (
        ("http, stateless", bad),
        ("http, session", good),
        ("http, session", [*bad, check("FAILURE")]),
    ):
        assert judge_servers(leg, {"direct": {"s": good}, column: {"s": checks}})


def test_a_client_scenario_must_run_and_pass() -> None:
    assert judge_clients(LEG, {"session client": {"c": [check("SUCCESS")]}}) == []
    for found in ({}, {"c": [check("WARNING")]}):
        assert len(judge_clients(LEG, {"session client": found})) == 1


def test_the_table_has_a_line_for_each_scenario() -> None:
    columns = {"direct": {"one": [check("SUCCESS")], "two": [check("FAILURE")]}, "stdio": {"one": [check("WARNING")]}}
    assert passes(columns["direct"]) == 1
    assert render("title", columns).splitlines() == [
        "title",
        "        direct  stdio",
        "one     ok      warns",
        "two     FAILS   -",
        "passed  1/2     1/2",
    ]
