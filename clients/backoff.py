"""When to try again: at once, then after growing pauses of random length, for ever. Pure."""

from __future__ import annotations

import tenacity
from tenacity.wait import wait_base


def pauses(base: float, cap: float) -> wait_base:
    """The first retry comes at once; then full jitter: two clients of one server must not come back in step."""
    # The chain counts its first, empty pause too: so the first of the growing ones is drawn from `base`.
    return tenacity.wait_chain(
        tenacity.wait_none(), tenacity.wait_random_exponential(multiplier=base / 2, exp_base=2, max=cap)
    )


def was_healthy(since: float | None, now: float, healthy: float) -> bool:
    """Whether a connection, ready since then, lived long enough for its loss to count as the first."""
    return since is not None and now - since >= healthy
