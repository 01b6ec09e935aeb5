"""A connection that is lost in the middle of a stream: its client comes back for the rest, and gets it once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from servers.http.sessions import Limits
from tests.client import Message
from tests.http.inside import Inside
from tests.http.wire import Reply, Talk
from tests.puppets import Puppet

Make = Callable[..., Puppet]
Within = Callable[..., Inside]
TEXT = {"content": [{"type": "text", "text": "done"}]}


def begun(talk: Talk, a: Puppet) -> tuple[Reply, Message, int]:
    """A call whose stream has begun; with it how the upstream knows it, and its token there."""
    connection = talk.call("a__work", _meta={"progressToken": "t"})
    asked = a.expect("tools/call")
    token: int = asked.params["_meta"]["progressToken"]
    tell(a, token, 0)
    reply = Reply(connection)
    assert reply.next().params["progress"] == 0
    return reply, asked, token


def tell(a: Puppet, token: int, *numbers: int) -> None:
    for number in numbers:
        a.tell("notifications/progress", progressToken=token, progress=number)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_lost_stream_goes_on_where_it_was_lost(inside: Within, puppet: Make, version: str) -> None:
    a = puppet("a")
    talk = inside(a).site.initialize(version)
    reply, asked, token = begun(talk, a)
    tell(a, token, 1, 2)
    assert [reply.next().params["progress"] for _ in range(2)] == [1, 2]
    reply.kill()
    tell(a, token, 3, 4)
    again = talk.listen(reply.seen)
    assert [again.next().params["progress"] for _ in range(2)] == [3, 4]
    again.kill()
    tell(a, token, 5)
    a.reply(asked, TEXT)
    last = talk.listen(again.seen)
    rest = last.rest()
    assert rest[0].params["progress"] == 5
    assert rest[1].result == TEXT
    assert len(rest) == 2


def test_events_sent_and_never_received_are_sent_again(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    talk = inside(a).site.initialize()
    reply, asked, token = begun(talk, a)
    place = reply.seen
    tell(a, token, 1, 2)
    assert [reply.next().params["progress"] for _ in range(2)] == [1, 2]
    reply.kill()
    a.reply(asked, TEXT)
    rest = talk.listen(place).rest()  # as if 1 and 2 had been lost on the way
    assert [message.params["progress"] for message in rest[:-1]] == [1, 2]
    assert rest[-1].result == TEXT
    # The whole stream is still there for one who lost that too.
    assert len(talk.listen(place).rest()) == 3


def test_an_answer_larger_than_what_is_kept_can_still_be_had_again(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    talk = inside(a).site.initialize()
    reply, asked, _ = begun(talk, a)
    place = reply.seen
    a.reply(asked, {"content": [{"type": "text", "text": "x" * 3_000_000}]})
    assert len(reply.next().text) == 3_000_000
    reply.kill()
    assert len(talk.listen(place).rest()[-1].text) == 3_000_000


def test_the_stream_that_belongs_to_no_request_is_resumed_too(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    talk = inside(a).site.initialize()
    talk.request("tools/list")
    stream = talk.listen()
    a.tell("notifications/tools/list_changed")
    stream.next()
    place = stream.seen
    a.tell("notifications/tools/list_changed")
    stream.next()
    stream.kill()
    assert talk.listen(place).next().method == "notifications/tools/list_changed"


def test_whoever_comes_back_takes_over_from_a_connection_not_known_to_be_lost(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    one = inside(a, limits=Limits(resume=0.1))
    talk = one.site.initialize()
    reply, asked, token = begun(talk, a)
    again = talk.listen(reply.seen)
    assert reply.rest() == []
    tell(a, token, 1)
    assert again.next().params["progress"] == 1
    a.reply(asked, TEXT)
    assert [message.result for message in again.rest()] == [TEXT]
    assert a.got("notifications/cancelled") == []


def test_a_place_that_is_none_of_ours_is_no_error(inside: Within, puppet: Make) -> None:
    a = puppet("a")
    talk = inside(a).site.initialize()
    talk.request("tools/list")
    for place in ("nonsense", "99-1", "-", "²-¹", "1-1-1"):
        stream = talk.listen(place)
        a.tell("notifications/tools/list_changed")
        assert stream.next().method == "notifications/tools/list_changed"
