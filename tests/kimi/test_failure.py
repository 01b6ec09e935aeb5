"""Failures: a stable kind first, then Kimi's words, then what to do."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from servers.kimi.api import Access
from servers.kimi.cli.output import clean, failed
from servers.kimi.cli.request import Request
from servers.kimi.failure import ADVICE, Failure, Kind, classify


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("No model configured. Run kimi and use /login", "auth"),
        ("LLM not set", "auth"),
        ("provider.auth_error: 401 Invalid Authentication", "auth"),
        ("Error code: 401 - {'error': {'type': 'invalid_authentication_error'}}", "auth"),
        ('Model "x" is not configured in config.toml.', "model_not_found"),
        ("provider.api_error: 404 Not found the model kimi-k2-0711 or Permission denied", "model_not_found"),
        ("provider.rate_limit: 429 Your account reached max RPM: 3", "rate_limit"),
        ("provider.api_error: 429 Your account is suspended, please check your plan and billing", "quota"),
        ("Error code: 429 - {'error': {'type': 'exceeded_current_quota_error'}}", "quota"),
        ("provider.overloaded: 429 The engine is currently overloaded", "overloaded"),
        ("provider.api_error: 500 Internal server error", "overloaded"),
        ("Error code: 503 - Service unavailable", "overloaded"),
        ("context.overflow: 400 Your request exceeded model token limit: 262144", "context_too_long"),
        ("Provider safety policy blocked the response.", "content_filter"),
        ("provider.connection_error: connect ECONNREFUSED 127.0.0.1:9", "connection"),
        ("Connection error.", "connection"),
        ("provider.api_error: The API returned an empty response", "failed"),
        ("provider.api_error: 400 Invalid request: temperature must be 1", "failed"),
        ("loop.max_steps_exceeded: Turn exceeded maxSteps=500", "failed"),
        ("Max number of steps reached: 1", "failed"),
        ("", "failed"),
    ],
)
def test_the_words_of_both_clis_and_the_api_have_their_kind(words: str, kind: Kind) -> None:
    assert classify(words) == kind


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_says_what_to_do(kind: Kind) -> None:
    first, blank, *rest = Failure(kind, "the words").text().splitlines()
    assert (first, blank, "\n".join(rest)) == (f"{kind}: the words", "", ADVICE[kind])


def test_more_can_be_said_after_the_advice() -> None:
    assert Failure("timeout", "late").but("No file was changed.").text().endswith("\n\nNo file was changed.")


NOISY = """kimi version 2.1.0
\x1b[31merror: failed to run prompt: \x1b[0mprovider.rate_limit: 429 slow down
See log: /somewhere/kimi.log

• To be kept
To resume this session: kimi -r session_1
"""


def request(model: str = "", access: Access | None = None) -> Request:
    return Request("kimi", "hello", Path("/"), {}, access, model, writes=False)


def test_noise_is_taken_off_and_only_the_last_lines_are_kept() -> None:
    assert clean(NOISY) == "provider.rate_limit: 429 slow down\nTo be kept"
    assert clean("\n".join(f"line {number}" for number in range(100))).splitlines()[0] == "line 80"


def test_the_exit_of_a_cli_becomes_a_failure() -> None:
    assert failed(request(), 1, NOISY).kind == "rate_limit"
    assert failed(request(), 143, " \n").text().startswith("failed: kimi was ended by a signal, with exit code 143")
    assert failed(request(), 1, " \n").text().startswith("failed: kimi ended with exit code 1 and said nothing")


def test_a_connection_error_names_the_address() -> None:
    access = Access("http://127.0.0.1:9/v1", "sk-1")
    assert "http://127.0.0.1:9/v1" in failed(request(access=access), 75, "Connection error.").words
    assert "own configuration" in failed(request(), 75, "Connection error.").words


def test_the_key_never_comes_back() -> None:
    access = Access("http://127.0.0.1:9/v1", "sk-secret")
    assert "sk-secret" not in failed(request(access=access), 1, "401 for key sk-secret").text()
    assert "sk-secret" not in repr(access)


def test_the_old_clis_one_message_is_told_apart() -> None:
    assert failed(request(), 1, "LLM not set").kind == "auth"
    assert failed(request(model="nope"), 1, "LLM not set").kind == "model_not_found"
