from __future__ import annotations

import json
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.cli import setup
from tests.cli.configuring.person import DEMO, ENTRY, HELD_TO_MODES, Person

FULL = """{
\t"primaryApiKey": "sk-ant-0123456789",  "theme" :"dark",
\t"history": [ "rm -rf \\/tmp\\/x", "caf\\u00e9", 1E3, 12345678901234567890123 ],
\t"projects": { "/somewhere": {"allowedTools": [ ], "history": [{"display":"hi"}], "mcpServers": {}} },
\t"mcpServers": {
\t\t"old" : {"command":"old",  "note": "kept"}
\t},
\t"oauthAccount": null
}"""


def test_add_says_what_it_discovered_and_the_server_works(person: Person) -> None:
    done = person.run("add", "demo", "--env", "LEVEL=a=b", "--", *DEMO)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Added demo to {person.mine}." in done.stdout
    assert "Connected: 4 tools, 1 prompt, 1 resource (MCP 2025-11-25, demo 1)." in done.stdout
    assert "now, add, count_words, echo" in done.stdout
    assert json.loads(person.mine.read_text())["mcpServers"] == {"demo": {**ENTRY, "env": {"LEVEL": "a=b"}}}
    assert stat.S_IMODE(person.mine.stat().st_mode) == 0o600
    assert person.run("call", "demo:add", "a=1", "b=2").stdout == "3\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_file_full_of_other_things_keeps_every_byte(person: Person, newline: str) -> None:
    original = FULL.replace("\n", newline).encode()
    person.mine.write_bytes(original)
    person.mine.chmod(0o640)
    assert person.run("add", "new", "--no-check", "--", "x", "-y").returncode == 0
    changed = person.mine.read_bytes()
    added = '\t\t"new": {\n\t\t\t"command": "x",\n\t\t\t"args": [\n\t\t\t\t"-y"\n\t\t\t]\n\t\t}'
    before = '"note": "kept"}'
    expected = FULL.replace(before, f"{before},\n{added}").replace("\n", newline).encode()
    assert changed == expected
    assert person.mine.with_name(".kode.json.bak").read_bytes() == original
    assert stat.S_IMODE(person.mine.stat().st_mode) == 0o640
    assert person.run("remove", "new").returncode == 0
    assert person.mine.read_bytes() == original
    assert person.mine.with_name(".kode.json.bak").read_bytes() == changed


def test_a_server_that_is_not_there_yet_is_added_all_the_same_with_the_reason(person: Person) -> None:
    done = person.run("add", "later", "--", "not-installed-yet")
    assert done.returncode == 0
    assert "It cannot be reached now: command not found: not-installed-yet." in done.stdout
    assert "later" in json.loads(person.mine.read_text())["mcpServers"]


def test_a_taken_name_is_refused(person: Person) -> None:
    person.mine.write_text(FULL)
    done = person.run("add", "old", "--", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"old is already in {person.mine}" in done.stderr
    assert person.mine.read_text() == FULL and not person.mine.with_name(".kode.json.bak").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a:b", "--", "x"], 'may not be empty nor hold ":"'),
        ([" ", "--", "x"], "may not be empty"),
        (["a"], "either a URL, or -- and a command"),
        (["a", "--"], "either a URL, or -- and a command"),
        (["a", "https://x", "--", "y"], "either a URL, or -- and a command"),
        (["a", "npx"], "a command comes after --"),
        (["a", "--header", "K:V", "--", "x"], "are for a URL"),
        (["a", "https://x", "--env", "K=V"], "--env is for a command"),
        (["a", "--env", "KV", "--", "x"], "write NAME=VALUE"),
        (["a", "https://x", "--header", "KV"], "write NAME:VALUE"),
        (["a", "https://x", "--header", "a b: c"], "is no name for a header"),
        (["a", "https://x", "--type", "ws"], "invalid choice"),
        (["g", "--", "kimi-gateway", "serve"], "that is this gateway"),
        (["a", "npx", "-y", "x"], "unrecognized arguments: -y"),
    ],
)
def test_wrong_usage_writes_nothing(person: Person, words: list[str], why: str) -> None:
    done = person.run("add", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr and not person.mine.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["docs", "https://x/sse", "--type", "sse", "--header", "A: Bearer ${T}"],
        ["--type=sse", "docs", "-H", "A:Bearer ${T}", "https://x/sse"],
        ["-t", "sse", "docs", "https://x/sse", "-HA: Bearer ${T}"],
        ["--transport", "sse", "--header", "A: Bearer ${T}", "docs", "https://x/sse"],
    ],
)
def test_options_may_stand_anywhere(person: Person, words: list[str]) -> None:
    assert person.run("add", "--no-check", *words).returncode == 0
    entry = json.loads(person.mine.read_text())["mcpServers"]["docs"]
    assert entry == {"type": "sse", "url": "https://x/sse", "headers": {"A": "Bearer ${T}"}}


def test_words_behind_the_dashes_are_the_commands(person: Person) -> None:
    assert setup.arrange(["add", "a", "--env", "--", "x"]) == (["add", "--env", "a"], ["x"])
    assert setup.arrange(["call", "a:b", "--", "x"]) == (["call", "a:b", "--", "x"], [])
    assert person.run("add", "a", "--no-check", "--", "x", "--", "--scope", "-h").returncode == 0
    assert json.loads(person.mine.read_text())["mcpServers"]["a"]["args"] == ["--", "--scope", "-h"]


def test_adding_to_a_project_is_trusting_it_and_nothing_else_there(person: Person) -> None:
    person.theirs.write_text(json.dumps({"mcpServers": {"other": {"command": "other"}}}))
    below = person.project / "src"
    below.mkdir()
    done = person.run("add", "demo", "--scope", "project", "--", *DEMO, cwd=below)
    assert f"Added demo to {person.theirs}." in done.stdout and "Connected: 4 tools" in done.stdout
    assert "not started: other" in person.run("status").stderr
    assert person.run("call", "demo:add", "a=1", "b=2", cwd=below).stdout == "3\n"


def test_a_new_project_file_is_made_at_the_root_for_all_to_read(person: Person) -> None:
    below = person.project / "src"
    below.mkdir()
    assert person.run("add", "a", "--no-check", "--scope", "project", "--", "x", cwd=below).returncode == 0
    assert stat.S_IMODE(person.theirs.stat().st_mode) == 0o644
    done = person.run("add", "a", "--scope", "project", "--", "x", cwd=person.home)
    assert done.returncode == 2 and "is no project" in done.stderr


def test_what_another_layer_does_with_the_name_is_said(person: Person) -> None:
    assert person.run("add", "a", "--no-check", "--", "x").returncode == 0
    done = person.run("add", "a", "--no-check", "--scope", "project", "--", "y")
    assert f"takes the place of the a in {person.mine}" in done.stderr
    assert person.run("remove", "a").stdout == f"Removed a from {person.theirs}.\n"
    assert person.run("add", "b", "--no-check", "--scope", "project", "--", "y").returncode == 0
    assert f"the b of {person.theirs} is used instead" in person.run("add", "b", "--", "x").stderr


def test_a_secret_on_the_command_line_is_pointed_out_and_not_repeated(person: Person) -> None:
    done = person.run("add", "gh", "--no-check", "--env", "GITHUB_TOKEN=ghp_0123456789", "--", "x", "--key", "abc")
    assert "env.GITHUB_TOKEN is written out" in done.stderr and "${GITHUB_TOKEN}" in done.stderr
    assert "args[1] is written out" in done.stderr and "${GH_KEY}" in done.stderr
    assert "ghp_" not in done.stdout + done.stderr


def test_a_broken_file_is_left_alone(person: Person) -> None:
    person.mine.write_text('{"mcpServers": {]}')
    for words in (["add", "a", "--", "x"], ["remove", "a"], ["enable", "a"]):
        done = person.run(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{person.mine}:1:17: a key is expected here" in done.stderr and "Traceback" not in done.stderr
    assert person.mine.read_text() == '{"mcpServers": {]}'


def test_what_stands_in_the_way_is_named(person: Person) -> None:
    person.mine.write_text('{\n  "mcpServers": []\n}')
    done = person.run("add", "a", "--", "x")
    assert done.returncode == 1 and f"{person.mine}:2:17: mcpServers must be an object" in done.stderr


def test_a_name_nobody_has_is_answered_with_the_nearest(person: Person) -> None:
    person.mine.write_text(FULL)
    done = person.run("remove", "odl")
    assert done.returncode == 2 and "Did you mean old?" in done.stderr
    assert "There are: old." in person.run("disable", "zzz").stderr
    assert "kimi is built in" in person.run("disable", "kimi").stderr


def test_disable_and_enable_act_where_the_entry_stands(person: Person) -> None:
    person.mine.write_text(FULL)
    assert person.run("disable", "old").stdout == f"Disabled old in {person.mine}.\n"
    assert person.mine.read_text() == FULL.replace('"note": "kept"', '"note": "kept", "enabled": false')
    assert json.loads(person.run("status", "--json").stdout)["servers"]["old"]["state"] == "disabled"
    assert person.run("enable", "old").stdout == f"Enabled old in {person.mine}.\n"
    assert person.mine.read_text() == FULL.replace('"note": "kept"', '"note": "kept", "enabled": true')
    assert not person.theirs.exists()


def test_of_several_entries_the_one_that_decides_is_switched(person: Person) -> None:
    person.mine.write_text(json.dumps({"mcpServers": {"a": ENTRY}, "gateway": {"kimi": False}}))
    person.theirs.write_text('{"mcpServers": {"a": {"enabled": false}}}')
    done = person.run("enable", "a")
    assert done.stdout == f"Enabled a in {person.theirs}.\n" and done.stderr == ""
    # The user's own switch needs no other word of theirs.
    assert json.loads(person.run("status", "--json").stdout)["servers"]["a"]["state"] == "ready"


def test_what_the_users_file_has_for_one_directory_is_found_there(person: Person) -> None:
    content = {"mcpServers": {}, "projects": {str(person.project): {"mcpServers": {"a": ENTRY}, "history": [1]}}}
    person.mine.write_text(json.dumps(content))
    assert person.run("disable", "a").stdout == f"Disabled a in {person.mine}.\n"
    assert "is used instead" in person.run("add", "a", "--", "x").stderr
    done = person.run("remove", "a")
    assert done.stdout == f"Removed a from {person.mine} (projects, {person.project}).\n"
    assert done.stderr == f"Another a is still in {person.mine}.\n"
    after = json.loads(person.mine.read_text())
    assert after["projects"] == {str(person.project): {"mcpServers": {}, "history": [1]}}
    assert after["mcpServers"] == {"a": {"command": "x"}}


def test_a_variable_that_is_not_set_is_the_reason_shown(person: Person) -> None:
    done = person.run("add", "docs", "https://x/mcp", "--header", "A: ${NOT_SET}")
    assert done.returncode == 0 and "It cannot be reached now" in done.stdout and "NOT_SET is not set" in done.stdout


def test_switching_on_what_was_never_trusted_does_not_trust_it(person: Person) -> None:
    person.theirs.write_text(json.dumps({"mcpServers": {"evil": {**ENTRY, "enabled": False}}}))
    done = person.run("enable", "evil")
    assert done.returncode == 0 and "untrusted" in done.stderr


def test_each_of_these_commands_has_help_with_an_example(person: Person) -> None:
    for name in ("add", "remove", "enable", "disable", "import", "trust"):
        assert f"example:\n  kimi-gateway {name}" in person.run(name, "--help").stdout


def test_the_name_of_what_is_built_in_is_taken(person: Person) -> None:
    done = person.run("add", "kimi", "--", *DEMO)
    assert (done.returncode, done.stdout) == (1, "") and "kimi is built in" in done.stderr
    assert not person.mine.exists()
    person.mine.write_text('{"gateway": {"kimi": false}}')
    assert person.run("add", "kimi", "--no-check", "--", *DEMO).returncode == 0


@pytest.mark.parametrize("url", ["ftp://example.com/mcp", "https://", "http://a b/mcp"])
def test_an_address_that_no_server_can_have_is_refused(person: Person, url: str) -> None:
    done = person.run("add", "docs", url)
    assert (done.returncode, done.stdout) == (2, "") and "is not a web address" in done.stderr
    assert not person.mine.exists()


def test_a_file_that_was_made_read_only_is_left_alone(person: Person) -> None:
    person.mine.write_text("{}")
    person.mine.chmod(0o400)
    done = person.run("add", "demo", "--no-check", "--", *DEMO, launcher=HELD_TO_MODES)
    assert done.returncode == 1 and "is read-only" in done.stderr
    assert person.mine.read_text() == "{}"


def test_of_many_added_at_once_none_is_lost(person: Person) -> None:
    person.mine.write_text("{}")

    def add(name: str) -> subprocess.CompletedProcess[str]:
        return person.run("add", name, "--no-check", "--", "x")

    with ThreadPoolExecutor(6) as pool:
        done = [*pool.map(add, (f"s{number}" for number in range(6)))]
        same = [*pool.map(add, ["same"] * 3)]
    assert {one.returncode for one in done} == {0}
    assert sorted(one.returncode for one in same) == [0, 1, 1]
    assert sorted(json.loads(person.mine.read_text())["mcpServers"]) == ["s0", "s1", "s2", "s3", "s4", "s5", "same"]
