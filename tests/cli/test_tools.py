"""`kimi-gateway tools`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.place import DEMO, Place
from tests.puppets import Puppet, tool

LONG = "Moves a file. " * 40
MOVE = tool(
    "move",
    description=f"{LONG}\nSecond line.",
    inputSchema={
        "type": "object",
        "properties": {"source": {"type": "string", "description": "What to move."}, "force": {"type": "boolean"}},
        "required": ["source"],
    },
    annotations={"title": "Move", "destructiveHint": True},
)


@pytest.fixture
def files(puppet: Callable[..., Puppet]) -> Puppet:
    return puppet("files", tools=[MOVE, tool("delete_all"), tool("read", annotations={"readOnlyHint": True})])


def test_json_is_a_list_with_both_names(place: Place) -> None:
    place.configure({"demo": DEMO})
    found = place.json("tools")
    assert (found[0]["name"], found[0]["wire_name"]) == ("demo:add", "demo__add")
    assert "hidden" not in found[0]


def test_all_shows_the_rule_that_hides(place: Place, files: Puppet) -> None:
    written = place.configure({"files": {**files.entry, "tools": {"deny": ["delete_*"]}}})
    assert [one["name"] for one in place.json("tools")] == ["files:move", "files:read"]
    hidden = {one["name"]: one["hidden"] for one in place.json("tools", "--all")}
    assert hidden["files:move"] is None
    assert hidden["files:delete_all"] == f'hidden by deny "delete_*" (mcpServers.files.tools in {written})'
    rows = [line.split("\t") for line in place.run("tools", "--all").stdout.splitlines()]
    assert rows[0][-1] == "HIDDEN" and 'deny "delete_*"' in rows[1][-1]


def test_a_profile_sees_less(place: Place, files: Puppet) -> None:
    place.configure({"files": files.entry}, {"profiles": {"reviewer": {"tools": {"readOnly": True}}}})
    assert [one["name"] for one in place.json("tools", "--profile", "reviewer")] == ["files:read"]


def test_an_unknown_profile_is_answered_with_those_there_are(place: Place) -> None:
    place.configure({}, {"profiles": {"reviewer": {}, "writer": {}}})
    done = place.run("tools", "--profile", "reviewr")
    assert (done.returncode, done.stdout) == (2, "")
    assert "profiles: reviewer, writer. Did you mean reviewer?" in done.stderr


def test_a_pattern_shows_signature_description_and_annotations(place: Place, files: Puppet) -> None:
    place.configure({"files": files.entry})
    shown = place.run("tools", "files:mo*").stdout
    assert shown.startswith("files:move(source: string, force?: boolean)\n")
    assert "on the wire: files__move" in shown
    assert f"  {LONG.strip()}\n  Second line.\n" in shown  # whole, as it is piped
    assert 'annotations: title="Move", destructiveHint=true' in shown
    assert "source (string): What to move." in shown
    assert "delete_all" not in shown


@pytest.mark.parametrize("pattern", ["files", "files:*", "files__*", "fil[ae]s:[mdr]*"])
def test_a_pattern_is_a_server_or_a_glob_over_any_of_the_names(place: Place, files: Puppet, pattern: str) -> None:
    place.configure({"files": files.entry, "demo": DEMO})
    names = {one["name"] for one in place.json("tools", pattern)}
    assert {"files:move", "files:delete_all"} <= names and not any(name.startswith("demo:") for name in names)


def test_a_pattern_that_matches_nothing_is_answered_with_the_nearest(place: Place) -> None:
    place.configure({"demo": DEMO})
    done = place.run("tools", "demo:count_wrods")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Did you mean demo:count_words?" in done.stderr


def test_a_pattern_that_matches_only_hidden_tools_says_so(place: Place) -> None:
    place.configure({"demo": {**DEMO, "tools": {"deny": ["add"]}}})
    assert "--all" in place.run("tools", "demo:add").stderr


def test_tokens_are_estimated_per_server(place: Place, files: Puppet) -> None:
    place.configure({"files": files.entry, "demo": DEMO})
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in place.run("tools", "--tokens").stdout.splitlines()}
    assert set(rows) == {"SERVER", "demo", "files", "total"}
    assert int(rows["files"][0]) == 3 and int(rows["total"][0]) == 7
    assert int(rows["files"][2]) > len(LONG) // 4
    assert int(rows["total"][2]) == int(rows["files"][2]) + int(rows["demo"][2])
    each = place.json("tools", "--tokens")
    assert sum(one["tokens"] for one in each) == int(rows["total"][2])


def test_piped_descriptions_are_not_cut(place: Place, files: Puppet) -> None:
    place.configure({"files": files.entry})
    assert f"{LONG.strip()} Second line.\n" in place.run("tools").stdout


def test_on_a_terminal_words_of_wide_characters_are_broken_where_they_fit(
    place: Place, puppet: Callable[..., Puppet]
) -> None:
    wide = puppet("wide", tools=[tool("t", description="\u65e5\u672c\u8a9e " * 40)])
    place.configure({"wide": wide.entry})
    screen = place.terminal("tools", "wide", columns=80)
    assert screen.wait() == 0
    rows = [line for line in screen.lines if "\u65e5" in line]
    assert sum(row.count("\u65e5") for row in rows) == 40
    assert all(2 * len(row.replace(" ", "")) + row.count(" ") <= 80 for row in rows)


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_a_tool_is_a_line(place: Place, files: Puppet, columns: int) -> None:
    place.configure({"files": files.entry})
    screen = place.terminal("tools", columns=columns)
    assert screen.wait() == 0
    row = next(line for line in screen.lines if line.startswith("files:move"))
    assert row.rstrip().endswith("…") and columns - 10 < len(row) <= columns
    assert max(map(len, screen.lines)) <= columns


def test_a_listing_that_lacks_a_server_says_so(place: Place) -> None:
    place.configure({"demo": DEMO, "gone": {"command": "no-such-program"}})
    done = place.run("tools")
    assert done.returncode == 0 and "demo:add" in done.stdout
    assert "gone failed: command not found: no-such-program." in done.stderr
