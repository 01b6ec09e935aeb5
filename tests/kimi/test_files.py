"""Files a caller names: read whole from inside the roots, or refused by name and reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from servers.kimi.failure import Failure
from servers.kimi.files import Source, read_all, roots_from

LIMIT = 1000


def refused(project: Path, *names: str, roots: tuple[Path, ...] = ()) -> str:
    with pytest.raises(Failure) as caught:
        read_all(names, project, roots, LIMIT)
    assert caught.value.kind == "invalid_input"
    return caught.value.words


def test_text_files_come_whole_in_their_order_and_once(project: Path) -> None:
    (project / "a.txt").write_text("Grüße\r\n")
    (project / "-b").write_text("x" * LIMIT)
    found = read_all(["-b", "a.txt", "-b"], project, (), LIMIT)
    assert found == (Source("-b", "x" * LIMIT), Source("a.txt", "Grüße\r\n"))
    assert read_all([str(project / "a.txt")], project, (), LIMIT)[0].text == "Grüße\r\n"


def test_each_refusal_names_the_file_and_why(project: Path) -> None:
    (project / "big").write_text("x" * (LIMIT + 1))
    (project / "zeros").write_bytes(b"a\0b")
    (project / "latin").write_bytes("Grüße".encode("latin-1"))
    (project / "dir").mkdir()
    os.mkfifo(project / "pipe")
    expected = {
        "big": "too large (1,001 bytes; the limit is 1,000, max_file_size)",
        "zeros": "binary",
        "latin": "binary (not UTF-8 text)",
        "dir": "a directory; name the files in it",
        "pipe": "not a regular file",
        "gone": "missing",
        "big/er": "missing",
    }
    assert refused(project, *expected) == "; ".join(f"{name}: {why}" for name, why in expected.items())


def test_one_bad_file_among_good_ones_refuses_all(project: Path) -> None:
    (project / "good").write_text("fine")
    assert refused(project, "good", "gone") == "gone: missing"


def test_nothing_outside_is_read_whatever_the_way(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (project / "link").symlink_to(secret)
    (project / "up").symlink_to(tmp_path)
    sibling = tmp_path / "project-2"
    sibling.mkdir()
    (sibling / "a.txt").write_text("another project")
    for name in ("../secret.txt", str(secret), "link", "up/secret.txt", "../project-2/a.txt"):
        words = refused(project, name)
        assert words.startswith(f"{name}: outside the allowed directories") and str(project) in words


def test_a_link_that_stays_inside_is_followed(project: Path) -> None:
    (project / "a.txt").write_text("a")
    (project / "link").symlink_to("a.txt")
    assert read_all(["link"], project, (), LIMIT) == (Source("link", "a"),)


def test_the_clients_roots_replace_the_project(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other place"
    other.mkdir()
    (other / "a.txt").write_text("a")
    (project / "b.txt").write_text("b")
    roots = roots_from([f"file://{tmp_path}/other%20place"])
    assert roots == (other,)
    assert read_all([str(other / "a.txt")], project, roots, LIMIT)[0].text == "a"
    assert "outside" in refused(project, "b.txt", roots=roots)


def test_only_file_roots_of_this_machine_count() -> None:
    assert roots_from(["https://example.org/x", "file://elsewhere/x", "file://localhost/usr", "untitled:1"]) == (
        Path("/usr"),
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="/proc/self/mem refuses to be read from its start for everybody")
def test_an_unreadable_file_says_so(project: Path) -> None:
    assert refused(project, "/proc/self/mem", roots=(Path("/proc"),)).startswith("/proc/self/mem: unreadable (")
