from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.variables import Unset, expand, secrets

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
ENVIRON = {"A": "alpha", "EMPTY": "", "NESTED": "${A}", "B_2": "beta"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "alpha"),
        ("x${A}y${B_2}z", "xalphaybetaz"),
        ("${A:-default}", "alpha"),
        ("${NONE:-default}", "default"),
        ("${NONE:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", "default"),
        ("${NONE:-a:-b $x}", "a:-b $x"),
        ("${NESTED}", "${A}"),
        ("$${A}", "$alpha"),
        ("${NONE:-${A}}", "${A}"),  # a default ends at the first brace
    ],
)
def test_variables_are_replaced(text: str, expanded: str) -> None:
    assert expand(text, ENVIRON).text == expanded


@pytest.mark.parametrize("text", ["$A", "$$", "${", "${A", "${}", "${1A}", "${A-x}", "${A:x}", "${a b}", "$(A)", "%A%"])
def test_nothing_else_is_touched(text: str) -> None:
    assert expand(text, ENVIRON).text == text


def test_an_unset_variable_without_default_is_named() -> None:
    with pytest.raises(Unset) as caught:
        expand("${A} ${NONE} ${OTHER}", ENVIRON)
    assert caught.value.variable == "NONE"


def test_values_from_the_environment_are_told_and_defaults_are_not() -> None:
    assert expand("${A}-${NONE:-default}", ENVIRON).values == {"alpha"}


@given(st.text().filter(lambda text: "${" not in text))
def test_text_without_variables_is_itself(text: str) -> None:
    assert expand(text, {}).text == text


@given(names, st.text(min_size=1), st.text().filter(lambda text: "$" not in text))
def test_a_value_is_put_in_once_and_never_read_again(name: str, value: str, around: str) -> None:
    assert expand(f"{around}${{{name}}}{around}", {name: value}).text == around + value + around


@given(names, st.text().filter(lambda text: "}" not in text), st.sampled_from([{}, {"X": "set"}]))
def test_a_default_is_taken_as_written(name: str, default: str, others: dict[str, str]) -> None:
    environ = {key: value for key, value in others.items() if key != name}
    assert expand(f"${{{name}:-{default}}}", environ).text == default


def test_short_and_common_values_and_those_of_everyday_variables_are_no_secrets() -> None:
    environ = {"HOME": "/home/me", "TOKEN": "s3cret"}
    assert secrets({"1", "abc", "true", "False", "/home/me", "s3cret"}, environ) == {"s3cret"}
