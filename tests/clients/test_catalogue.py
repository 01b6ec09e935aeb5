"""What is remembered of a server, and what a disk may do to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clients.catalogue import FORMAT, Catalogue, Memory
from gateway.registry import Listing

TOOLS = (b'{"name":"a","x":1.00,"big":%b}' % (b"7" * 70), b'{"n" : [ 1 ] ,"name":"\\u00e9"}')
LISTING = Listing(
    tools=TOOLS,
    prompts=(b'{"name":"p"}',),
    resources=(b'{"uri":"x:y"}',),
    templates=(b'{"uriTemplate":"x:{y}"}',),
    capabilities=frozenset({"tools", "logging"}),
    instructions="Be kind.",
)


def test_a_listing_is_recalled_byte_for_byte(tmp_path: Path) -> None:
    Catalogue(tmp_path / "c").remember("f", Memory(era="stateless", asks=True).with_listing(LISTING))
    found = Catalogue(tmp_path / "c").recall("f")
    assert found is not None
    assert found.listing == LISTING
    assert (found.era, found.asks, found.listed, found.format) == ("stateless", True, True, FORMAT)


def test_one_that_gave_nothing_is_remembered_as_that(tmp_path: Path) -> None:
    Catalogue(tmp_path).remember("f", Memory())
    found = Catalogue(tmp_path).recall("f")
    assert found is not None
    assert not found.listed


def test_each_entry_has_a_memory_of_its_own_and_only_for_the_user(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "c")
    catalogue.remember("f", Memory(era="session"))
    catalogue.remember("g", Memory(era="stateless"))
    assert sorted(file.name for file in (tmp_path / "c").iterdir()) == ["f.json", "g.json"]
    assert (tmp_path / "c").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "c").iterdir())
    assert catalogue.recall("h") is None


@given(st.binary(max_size=200))
def test_no_bytes_on_the_disk_do_more_than_be_forgotten(damage: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "f.json").write_bytes(damage)
        found = Catalogue(Path(name)).recall("f")
        assert found is None or found.format == FORMAT


def test_another_format_is_no_memory(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(b'{"format":%d}' % (FORMAT + 1))
    assert Catalogue(tmp_path).recall("f") is None


def test_a_disk_that_refuses_is_no_failure(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    Catalogue(blocked / "c").remember("f", Memory())
    assert Catalogue(blocked / "c").recall("f") is None
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "f.json").mkdir()  # cannot be replaced by a file
    Catalogue(tmp_path / "c").remember("f", Memory())
    assert [file.name for file in (tmp_path / "c").iterdir()] == ["f.json"], "nothing half written stays"


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    memory = Memory().with_listing(LISTING)
    catalogue.remember("f", memory)
    before = (tmp_path / "f.json").stat().st_ino
    catalogue.remember("f", memory)
    assert (tmp_path / "f.json").stat().st_ino == before
    fresh = Catalogue(tmp_path)
    assert fresh.recall("f") is not None
    fresh.remember("f", memory)
    assert (tmp_path / "f.json").stat().st_ino == before


def test_without_a_directory_or_a_name_nothing_is_kept(tmp_path: Path) -> None:
    Catalogue(None).remember("f", Memory())
    assert Catalogue(None).recall("f") is None
    Catalogue(tmp_path).remember("", Memory())
    assert list(tmp_path.iterdir()) == []
