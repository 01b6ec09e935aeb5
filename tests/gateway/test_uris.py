"""URI templates: what one may expand to, found out in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.uris import Template


@pytest.mark.parametrize(
    ("template", "uri", "matches"),
    [
        ("x:{a}", "x:1", True),
        ("x:{a}", "x:1/2", False),
        ("x:{+a}", "x:1/2", True),
        ("x:{a}/y/{b}", "x:1/y/2", True),
        ("x:{a}/y/{b}", "x:1/z/2", False),
        ("x:{/path*}", "x:/a/b", True),
        ("x:y{?q,r}", "x:y?q=1&r=2", True),
        ("x:y", "x:y", True),
        ("x:(y", "x:(y", True),
        ("x:{a", "x:{a", True),
    ],
)
def test_a_template_matches_what_it_may_expand_to(template: str, uri: str, matches: bool) -> None:
    assert Template(template).matches(uri) is matches


@given(st.lists(st.sampled_from(["{+a}", "{b}", "/", "x", "a"]), max_size=6), st.text("x/a", max_size=8))
def test_a_template_means_what_a_regular_expression_would(parts: list[str], uri: str) -> None:
    pattern = "".join({"{+a}": ".*", "{b}": "[^/]*"}.get(part, part) for part in parts)
    assert Template("".join(parts)).matches(uri) is bool(re.fullmatch(pattern, uri))


def test_no_template_makes_matching_endless() -> None:
    """As a regular expression this one would not end before the test run does."""
    assert not Template("{+a}x" * 40 + "!").matches("x" * 2000)
