"""The states of an upstream, the events that move it, and the one table of what moves where. Pure."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    IDLE = "idle"
    """Nothing runs; the first call starts it."""
    CONNECTING = "connecting"
    HELD = "held"
    """Started, and not spoken to before the client has said what it can."""
    READY = "ready"
    WAITING = "waiting"
    """Between two attempts."""
    FAILED = "failed"
    """Retrying cannot help until something changes."""
    DRAINING = "draining"
    """Takes no new calls, finishes those it has."""
    DISABLED = "disabled"
    CLOSED = "closed"


class Event(StrEnum):
    START = "start"
    HOLD = "hold"
    INTRODUCED = "introduced"
    OPENED = "opened"
    LOST = "lost"
    GAVE_UP = "gave up"
    REST = "rest"
    RETIRE = "retire"
    CLOSE = "close"


TABLE: dict[tuple[State, Event], State] = {
    (State.IDLE, Event.START): State.CONNECTING,
    (State.IDLE, Event.GAVE_UP): State.FAILED,
    (State.WAITING, Event.START): State.CONNECTING,
    (State.FAILED, Event.START): State.CONNECTING,
    (State.CONNECTING, Event.HOLD): State.HELD,
    (State.HELD, Event.INTRODUCED): State.CONNECTING,
    (State.CONNECTING, Event.OPENED): State.READY,
    (State.CONNECTING, Event.LOST): State.WAITING,
    (State.HELD, Event.LOST): State.WAITING,
    (State.READY, Event.LOST): State.WAITING,
    (State.CONNECTING, Event.GAVE_UP): State.FAILED,
    (State.HELD, Event.GAVE_UP): State.FAILED,
    (State.READY, Event.GAVE_UP): State.FAILED,
    (State.READY, Event.REST): State.IDLE,
    (State.READY, Event.RETIRE): State.DRAINING,
    (State.DRAINING, Event.LOST): State.CLOSED,
    (State.DRAINING, Event.GAVE_UP): State.CLOSED,
    **{(state, Event.CLOSE): State.CLOSED for state in State if state not in (State.CLOSED, State.DISABLED)},
}


class Impossible(Exception):
    """A move the table does not have: a bug of ours."""


def advance(state: State, event: Event) -> State:
    """Where the event leads.

    Raises:
        Impossible: nowhere.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        raise Impossible(f"no {event.value!r} in state {state.value!r}") from None


def diagram() -> str:
    """The table as a Mermaid diagram, for the docs."""
    lines = ["stateDiagram-v2", "    [*] --> idle", "    [*] --> disabled"]
    for (state, event), target in TABLE.items():
        if event is not Event.CLOSE:
            lines.append(f"    {state.value} --> {target.value}: {event.value}")
    lines.append("    closed --> [*]")
    return "\n".join(lines)
