"""The arguments of a call: what is taken, what is refused and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from configs.kimi import KimiSettings
from servers.kimi.arguments import TOOLS, read
from servers.kimi.failure import Failure

SETTINGS = KimiSettings(timeout={"implement": 600.0}, model="k2.5", chosen=frozenset({"model"}))


def refused(name: str, arguments: dict[str, Any] | None) -> str:
    with pytest.raises(Failure) as caught:
        read(name, arguments, KimiSettings())
    assert caught.value.kind == "invalid_input"
    return caught.value.words


def test_a_prompt_alone_gets_the_settings_in_force() -> None:
    job = read("kimi_implement", {"prompt": "Do it"}, SETTINGS)
    assert (job.tool, job.prompt, job.model, job.timeout) == ("implement", "Do it", "k2.5", 600.0)
    assert job.model_chosen and job.writes
    assert read("kimi_analyze", {"prompt": "Look"}, SETTINGS).timeout == 30.0
    assert not read("kimi_analyze", {"prompt": "Look"}, KimiSettings()).model_chosen


def test_a_call_overrides_the_settings() -> None:
    job = read("kimi_verify", {"prompt": "Look", "model": "kimi-k3", "timeout": 3600}, SETTINGS)
    assert (job.model, job.timeout, job.writes) == ("kimi-k3", 3600.0, False)


def test_each_tool_has_its_own_field() -> None:
    assert read("kimi_analyze", {"prompt": "x", "role": "security"}, SETTINGS).role == "security"
    assert read("kimi_implement", {"prompt": "x", "constraints": ["a", "b"]}, SETTINGS).points == ("a", "b")
    assert read("kimi_verify", {"prompt": "x", "requirements": "just one"}, SETTINGS).points == ("just one",)
    assert read("kimi_verify", {"prompt": "x", "requirements": " "}, SETTINGS).points == ()
    assert read("kimi_refactor", {"prompt": "x"}, SETTINGS).safety_checks
    assert not read("kimi_refactor", {"prompt": "x", "safety_checks": False}, SETTINGS).safety_checks


def test_null_counts_as_left_out() -> None:
    nothing = dict.fromkeys(("files", "context", "model", "timeout", "role"))
    assert read("kimi_analyze", {"prompt": "x", **nothing}, SETTINGS) == read("kimi_analyze", {"prompt": "x"}, SETTINGS)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("arguments", [None, {}, {"prompt": ""}, {"prompt": " \n"}, {"prompt": None}])
def test_a_prompt_is_required(name: str, arguments: dict[str, Any] | None) -> None:
    assert '"prompt" is missing or empty' in refused(name, arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prompt": 3}, '"prompt" must be a text'),
        ({"prompt": "a\0b"}, '"prompt" holds a NUL'),
        ({"prompt": "a\ud800"}, "lone surrogate"),
        ({"context": []}, '"context" must be a text'),
        ({"files": "a.py"}, '"files" must be a list of texts'),
        ({"files": ["a.py", 3]}, '"files" must be a list of texts'),
        ({"files": ["a.py", ""]}, '"files" holds an empty text'),
        ({"files": ["a\0.py"]}, '"files" holds a NUL'),
        ({"model": ""}, '"model" must be an alias or a model id'),
        ({"model": "--yolo"}, '"model" must be an alias or a model id'),
        ({"model": "a b"}, '"model" must be an alias or a model id'),
        ({"timeout": 0}, '"timeout" must be a number of seconds'),
        ({"timeout": -1}, '"timeout" must be a number of seconds'),
        ({"timeout": 3600.1}, "at most 3600"),
        ({"timeout": "60"}, '"timeout" must be a number of seconds'),
        ({"timeout": True}, '"timeout" must be a number of seconds'),
        ({"timeout": float("nan")}, '"timeout" must be a number of seconds'),
        ({"file": ["a.py"]}, 'no argument "file"; it takes prompt, files, context, model, timeout, role'),
        ({"safety_checks": True}, 'kimi_analyze has no argument "safety_checks"'),
        ({"role": ["security"]}, '"role" must be a text'),
    ],
)
def test_what_is_wrong_is_named(arguments: dict[str, Any], words: str) -> None:
    assert words in refused("kimi_analyze", {"prompt": "x", **arguments})


def test_a_flag_and_points_have_their_types() -> None:
    assert '"safety_checks" must be true or false' in refused("kimi_refactor", {"prompt": "x", "safety_checks": "no"})
    assert '"constraints" must be a list' in refused("kimi_implement", {"prompt": "x", "constraints": 3})
    assert '"requirements" holds an empty' in refused("kimi_verify", {"prompt": "x", "requirements": ["a", " "]})
