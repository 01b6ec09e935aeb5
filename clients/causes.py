"""Why a connection ended: whether trying again can help, and what a person can do."""

from __future__ import annotations


class Lost(Exception):
    """The connection is gone; another try may succeed."""

    def __init__(
        self, reason: str, *, retry_after: float | None = None, withdraw: bool = False, keep: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.withdraw = withdraw
        """What it listed before is not to be shown any more."""
        self.keep = keep
        """Calls that wait are kept for the next try, which comes at once."""


class DiedOnProbe(Lost):
    """It ended when it was asked for the newer era."""


class GaveUp(Exception):
    """Trying again cannot help until something changes."""

    def __init__(self, reason: str, fix: str, *, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix
        self.may_pass = may_pass
        """The cause lies outside our files and may be gone by the next call."""


class Refused(Exception):
    """The upstream answered a request of ours with an error."""

    def __init__(self, method: str, error: bytes) -> None:
        super().__init__(f"{method} was refused: {error.decode(errors='replace')[:500]}")
        self.method = method
        self.error = error
