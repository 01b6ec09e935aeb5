"""The table of pauses, as tenacity's own waits give it."""

from __future__ import annotations

import pytest
import tenacity

from clients.backoff import pauses, was_healthy
from clients.upstream import Timing

SAMPLES = 2000
TIMING = Timing()


def drawn(attempt: int, base: float, cap: float) -> list[float]:
    """Many pauses after this many failed attempts."""
    state = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
    state.attempt_number = attempt
    wait = pauses(base, cap)
    return [wait(state) for _ in range(SAMPLES)]


def test_the_policy_is_one_second_up_to_sixty_and_ten_of_health() -> None:
    assert (TIMING.base, TIMING.cap, TIMING.healthy) == (1.0, 60.0, 10.0)


def test_the_first_retry_comes_at_once() -> None:
    assert set(drawn(1, TIMING.base, TIMING.cap)) == {0.0}


@pytest.mark.parametrize(
    ("attempt", "most"),
    [(2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (6, 16.0), (7, 32.0), (8, 60.0), (9, 60.0), (100, 60.0), (5000, 60.0)],
)
def test_then_pauses_are_drawn_from_nothing_to_a_bound_that_doubles_up_to_the_cap(attempt: int, most: float) -> None:
    found = drawn(attempt, TIMING.base, TIMING.cap)
    assert 0.0 <= min(found) < 0.1 * most
    assert 0.9 * most < max(found) <= most
    assert 0.4 * most < sum(found) / SAMPLES < 0.6 * most


def test_nobody_gives_up() -> None:
    assert tenacity.AsyncRetrying(wait=pauses(1, 60)).stop is tenacity.stop_never


@pytest.mark.parametrize(
    ("since", "now", "counts_anew"),
    [(None, 100.0, False), (95.0, 100.0, False), (90.1, 100.0, False), (90.0, 100.0, True), (0.0, 100.0, True)],
)
def test_only_a_connection_that_was_healthy_long_enough_starts_the_count_anew(
    since: float | None, now: float, counts_anew: bool
) -> None:
    assert was_healthy(since, now, TIMING.healthy) is counts_anew
