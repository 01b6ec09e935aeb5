"""Server-sent events out of bytes, however these are cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clients.transports.events import Event, Events, Overlong

LINE = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data:",
        b"event: x",
        b"event:",
        b"id: 7",
        b"id",
        b": note",
        b"retry: 5",
        b"",
        b"",
    ]
)
END = st.sampled_from([b"\n", b"\r\n", b"\r"])


def parsed(*chunks: bytes, limit: int = 1000) -> list[Event | Overlong]:
    events = Events(limit)
    return [event for chunk in chunks for event in events.feed(chunk)]


def test_a_message_is_what_has_data() -> None:
    assert parsed(b'data: {"a":1}\n\n') == [Event("message", b'{"a":1}')]
    assert parsed(b"event: endpoint\r\ndata: /messages\r\n\r\n") == [Event("endpoint", b"/messages")]
    assert parsed(b"\xef\xbb\xbfdata: x\n\n") == [Event("message", b"x")]


def test_comments_and_events_without_data_are_no_messages() -> None:
    assert parsed(b": ping\n\nevent: x\n\nid: 3\ndata:\n\n") == []


def test_data_over_several_lines_is_joined() -> None:
    assert parsed(b"data: a\ndata:  b\ndata:c\n\n") == [Event("message", b"a\n b\nc")]


def test_separators_of_unicode_end_no_line() -> None:
    data = '"\u2028\u2029\x85\x0b\x0c"'.encode()
    assert parsed(b"data: " + data + b"\n\n") == [Event("message", data)]


def test_half_an_event_is_none_and_is_forgotten_on_restart() -> None:
    events = Events(1000)
    assert events.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n") == [Event("message", b"a")]
    assert events.last_id == "1"
    events.restart()
    assert events.feed(b"\n\n") == []
    assert events.feed(b"data: c\n\n") == [Event("message", b"c")]
    assert events.last_id == "1"


def test_ids_and_pauses_are_kept() -> None:
    events = Events(1000)
    assert events.feed(b"id: p\nretry: 1500\ndata:\n\n") == []
    assert (events.last_id, events.retry) == ("p", 1.5)
    events.feed(b"retry: soon\nid: bad\0\n\nid\n\n")
    assert (events.last_id, events.retry) == ("p", 1.5)


def test_an_event_over_the_limit_is_dropped_with_its_ends_and_the_next_one_is_read() -> None:
    big = b'{"id":5,' + b"x" * 5000 + b"}"
    stream = b"event: message\ndata: " + big + b"\n\ndata: next\n\n"
    for step in (1, 7, 100, 10_000):
        found = parsed(*(stream[at : at + step] for at in range(0, len(stream), step)))
        over, after = found
        assert isinstance(over, Overlong)
        assert over.head.startswith(b'{"id":5,')
        assert over.tail.endswith(b"x}")
        assert after == Event("message", b"next")


def test_many_small_lines_of_one_event_are_bounded_too() -> None:
    events = Events(1000)
    for _ in range(1000):
        assert events.feed(b"data: 0123456789\n") == []
    assert isinstance(events.feed(b"\n")[0], Overlong)
    assert events.feed(b"data: x\n\n") == [Event("message", b"x")]


def test_comments_for_ever_are_no_event_over_the_limit() -> None:
    events = Events(100)
    for _ in range(1000):
        assert events.feed(b": still here\n") == []
    assert events.feed(b"data: x\n\n") == [Event("message", b"x")]


@given(st.lists(st.tuples(LINE, END), max_size=30), st.lists(st.integers(0, 200), max_size=12))
def test_where_the_bytes_are_cut_does_not_matter(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    whole, cut = Events(1000), Events(1000)
    assert whole.feed(stream) == [event for piece in pieces for event in cut.feed(piece)]
    assert (whole.last_id, whole.retry) == (cut.last_id, cut.retry)
