"""The guard's pure parts: its messages, and whose process is whose."""

from clients import guard
from clients.guard import Process, Upstream

ME = 10


def process(pid: int, parent: int, group: int) -> Process:
    fields = [b"S", parent, group, group, *[0] * 15, pid * 100]
    words = [field if isinstance(field, bytes) else b"%d" % field for field in fields]
    return Process(pid, b"%d (a) name)) " % pid + b" ".join(words))


def belongs(*processes: Process, marks: dict[int, bytes] | None = None) -> dict[int, bytes | None]:
    upstreams = [Upstream(b"a", 20, 0, b"", b""), Upstream(b"b", 30, 0, b"", b"")]
    upstreams[0].noted.add((25, 2500))
    upstreams[0].noted.add((26, 1))
    return guard.owners(ME, {one.pid: one for one in processes}, upstreams, (marks or {}).get)


def test_messages_survive_being_cut_anywhere() -> None:
    messages = [[b"spawn", b"1", b"", b"x" * 300], [b"note", b"2"], [b"finish", b"3", b""]]
    stream = b"".join(guard.pack(*message) for message in messages)
    for size in (1, 3, 7, len(stream)):
        buffer, heard = bytearray(), list[list[bytes]]()
        for at in range(0, len(stream), size):
            buffer += stream[at : at + size]
            heard += guard.unpack(buffer)
        assert heard == messages
        assert not buffer


def test_a_name_with_blanks_and_parentheses_is_read_past() -> None:
    one = process(5, 4, 3)
    assert (one.pid, one.parent, one.group, one.start, one.zombie) == (5, 4, 3, 500, False)


def test_descendants_belong_to_their_ancestor_whatever_their_group() -> None:
    found = belongs(process(20, ME, 20), process(21, 20, 20), process(22, 21, 22), process(30, ME, 30))
    assert found == {20: b"a", 21: b"a", 22: b"a", 30: b"b"}


def test_orphans_are_told_by_group_by_note_and_by_mark() -> None:
    orphans = [process(pid, ME, group) for pid, group in ((24, 20), (25, 25), (40, 40))]
    found = belongs(process(20, ME, 20), *orphans, process(41, 40, 41), marks={40: b"b"})
    assert found == {20: b"a", 24: b"a", 25: b"a", 40: b"b", 41: b"b"}


def test_an_orphan_that_nothing_tells_of_is_nobodys() -> None:
    assert belongs(process(26, ME, 26), process(50, ME, 50)) == {26: None, 50: None}


def test_processes_of_others_are_left_out() -> None:
    assert belongs(process(20, 1, 20), process(60, 1, 60), marks={60: b"a"}) == {}
