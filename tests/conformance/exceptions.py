"""What a bridge between the eras cannot carry, and what is not run at all, each with its reason."""

from __future__ import annotations

_NO_SUCH_ERROR = "the session era has no -32021: told that the client cannot be asked, its server fails as it will"
BRIDGED: dict[str, dict[str, str]] = {
    "session": {},
    "stateless": {
        "sep-2322-elicitation-incomplete": "wants the server's own key for a question, and a session server's has none",
        "sep-2322-multiple-inputs-incomplete": "wants three questions in one result; a session server asks one by one",
        "sep-2322-ignore-unexpected-params": "answers what nobody has asked yet, and no call waits for it",
        "sep-2575-server-rejects-undeclared-capability": _NO_SUCH_ERROR,
        "sep-2575-missing-capability-http-400": _NO_SUCH_ERROR,
    },
}
"""By the era of the client: checks that cannot succeed where the upstream is of the other one."""

LEFT_OUT = {
    "auth/*": "OAuth towards an upstream comes later",
    "sep-2640-*": "an extension (skills) that the gateway relays and takes no part in",
    "tasks-*": "an extension that the gateway does not declare yet",
}
