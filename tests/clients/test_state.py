"""The states of an upstream: every cell of the table, and the diagram that is drawn from it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from clients.state import TABLE, Event, Impossible, State, advance, diagram

DOCS = Path(__file__).parents[2] / "docs" / "architecture.md"
LIVING = [state for state in State if state not in (State.CLOSED, State.DISABLED)]
MOVES = {
    (State.IDLE, Event.START): State.CONNECTING,
    (State.IDLE, Event.GAVE_UP): State.FAILED,
    (State.CONNECTING, Event.HOLD): State.HELD,
    (State.CONNECTING, Event.OPENED): State.READY,
    (State.CONNECTING, Event.LOST): State.WAITING,
    (State.CONNECTING, Event.GAVE_UP): State.FAILED,
    (State.HELD, Event.INTRODUCED): State.CONNECTING,
    (State.HELD, Event.LOST): State.WAITING,
    (State.HELD, Event.GAVE_UP): State.FAILED,
    (State.READY, Event.LOST): State.WAITING,
    (State.READY, Event.GAVE_UP): State.FAILED,
    (State.READY, Event.REST): State.IDLE,
    (State.READY, Event.RETIRE): State.DRAINING,
    (State.WAITING, Event.START): State.CONNECTING,
    (State.FAILED, Event.START): State.CONNECTING,
    (State.DRAINING, Event.LOST): State.CLOSED,
    (State.DRAINING, Event.GAVE_UP): State.CLOSED,
    **{(state, Event.CLOSE): State.CLOSED for state in LIVING},
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_cell_leads_where_it_should_or_nowhere(state: State, event: Event) -> None:
    if (state, event) in MOVES:
        assert advance(state, event) is MOVES[state, event]
    else:
        with pytest.raises(Impossible, match=f"no '{event.value}' in state '{state.value}'"):
            advance(state, event)


def test_every_state_can_be_reached_and_left_but_for_the_last_ones() -> None:
    reached = {State.IDLE, State.DISABLED}
    while more := {target for (state, _), target in TABLE.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)
    assert {state for state, _ in TABLE} == set(State) - {State.CLOSED, State.DISABLED}


def test_the_diagram_in_the_docs_is_the_one_drawn_from_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in DOCS.read_text()
