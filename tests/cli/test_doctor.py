"""`kimi-gateway doctor`."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.place import DEMO, Place
from tests.client import Json
from tests.puppets import Puppet, tool


def examine(place: Place) -> tuple[int, list[Json]]:
    done = place.run("doctor", "--json")
    found = json.loads(done.stdout)
    assert found["ok"] is (done.returncode == 0)
    for one in found["findings"]:
        assert set(one) == {"level", "check", "message", "fix", "server"}
        assert one["level"] == "ok" or one["fix"], f"no fix: {one}"
    return done.returncode, found["findings"]


def of(findings: list[Json], check: str, level: str | None = None) -> list[Json]:
    return [one for one in findings if one["check"] == check and level in (None, one["level"])]


def problems(place: Place) -> list[Json]:
    code, findings = examine(place)
    found = [one for one in findings if one["level"] == "problem"]
    assert code == (1 if found else 0)
    return found


def test_all_is_well_with_a_server_that_works(place: Place) -> None:
    place.configure({"demo": DEMO})
    code, findings = examine(place)
    assert code == 0
    assert of(findings, "python", "ok") and of(findings, "config", "ok") and len(of(findings, "write", "ok")) == 2
    (server,) = of(findings, "server")
    assert server["level"] == "ok" and "4 tools" in server["message"] and " s, protocol 2025-11-25" in server["message"]


def test_a_fresh_machine_is_well(place: Place) -> None:
    place.variables["PATH"] = "/usr/bin:/bin"
    code, findings = examine(place)
    assert code == 0
    assert "no servers are configured" in of(findings, "config", "note")[0]["message"]
    (kimi,) = of(findings, "kimi")
    assert kimi["level"] == "note" and "kimi-code" in kimi["fix"]


@pytest.mark.parametrize(
    ("program", "fix"), [("npx", "Node.js"), ("uvx", "uv"), ("docker", "Docker"), ("xyzzy", "xyzzy")]
)
def test_a_program_that_is_not_there(place: Place, program: str, fix: str) -> None:
    place.variables["PATH"] = str(place.bin)
    place.configure({"one": {"command": program}})
    (found,) = problems(place)
    assert (found["check"], found["server"]) == ("program", "one")
    assert fix in found["fix"] and program in found["message"]


def test_what_no_enabled_entry_uses_does_not_count(place: Place) -> None:
    place.configure(
        {
            "program": {"command": "no-such-program", "enabled": False},
            "variable": {"url": "https://example.test", "headers": {"A": "${NOT_SET}"}, "enabled": False},
            "type": {"type": "ws", "url": "ws://example.test", "enabled": False},
            "key": {**DEMO, "timeot": 3, "enabled": False},
        }
    )
    code, findings = examine(place)
    assert code == 0
    assert {one["server"] for one in findings if one["level"] == "note"} >= {"program", "type", "key"}


def test_an_unset_variable(place: Place) -> None:
    place.configure({"one": {"url": "https://example.test/mcp", "headers": {"A": "${NOT_SET}"}}})
    (found,) = problems(place)
    assert "NOT_SET is not set" in found["message"] and "Set NOT_SET" in found["fix"]


def test_a_broken_file_with_its_line(place: Place) -> None:
    (place.home / ".kode.json").write_text('{\n  "mcpServers": {oops}\n}')
    (found,) = problems(place)
    assert f"{place.home / '.kode.json'}:2:" in found["message"]


def test_an_unknown_key_of_ours_with_the_one_that_was_meant(place: Place) -> None:
    place.configure({"demo": {**DEMO, "timeot": 3, "alwaysAllow": ["x"]}}, {"profils": {"x": {}}})
    found = {one["message"].rsplit(" ", 1)[1]: one["fix"] for one in problems(place)}
    assert found == {
        "gateway.profils": 'Write "profiles" instead.',
        "mcpServers.demo.timeot": 'Write "timeout" instead.',
    }


def test_a_variable_that_is_nearly_one_of_ours(place: Place) -> None:
    place.configure()
    place.variables |= {"KIMI_GATEWAY_NAMMING": "bare", "KIMI_GATEWAY_TOKEN": "t", "KIMI_GATEWAY_MINE": "x"}
    done = place.run("doctor", "--json")
    assert done.returncode == 1
    (problem,) = (one for one in json.loads(done.stdout)["findings"] if one["level"] == "problem")
    assert problem["message"] == "nobody reads the variable KIMI_GATEWAY_NAMMING"
    assert problem["fix"] == "Set KIMI_GATEWAY_NAMING instead."


def test_an_untrusted_server(place: Place) -> None:
    place.configure()
    place.configure_project({"theirs": {"command": "touch", "args": [str(place.home / "ran")]}})
    (found,) = problems(place)
    assert (found["check"], found["server"]) == ("trust", "theirs")
    assert "kimi-gateway trust" in found["fix"]
    assert not (place.home / "ran").exists()


def test_a_trusted_one(place: Place) -> None:
    place.variables["KIMI_GATEWAY_TRUST_PROJECT"] = "1"
    place.configure()
    place.configure_project({"theirs": DEMO})
    code, findings = examine(place)
    assert code == 0 and of(findings, "trust", "ok")


def test_a_server_that_dies_with_what_it_said(place: Place) -> None:
    place.configure({"dies": {"command": "sh", "args": ["-c", "echo ModuleNotFoundError: foo >&2; exit 3"]}})
    (found,) = problems(place)
    assert "ModuleNotFoundError: foo" in found["message"] and found["check"] == "server"


def test_an_address_nobody_listens_on(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place.configure({"away": {"url": f"http://127.0.0.1:{port}/mcp"}})
    (found,) = problems(place)
    assert "refused" in found["message"] and "url" in found["fix"]


def test_lines_that_are_no_frames_are_worth_a_note(place: Place, puppet: Callable[..., Puppet]) -> None:
    noisy = puppet("noisy")

    def answer(message: Any) -> Json:
        noisy.say(b"Listening!\n")
        return {"result": {"tools": [tool("x")]}}

    noisy.on("tools/list", answer)
    place.configure({"noisy": noisy.entry})
    code, findings = examine(place)
    assert code == 0 and "1 line" in of(findings, "server", "note")[0]["message"]


def test_names_that_clash_are_no_problem(place: Place) -> None:
    place.configure({"a-b": DEMO, "a_b": DEMO})
    code, findings = examine(place)
    assert code == 0 and of(findings, "names", "note")[0]["server"] == "a-b"


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "XDG_DATA_HOME"])
def test_a_directory_that_cannot_be_written(place: Place, variable: str) -> None:
    file = place.home / "a-file"
    file.touch()
    place.variables[variable] = str(file)
    (found,) = problems(place)
    assert found["check"] == "write" and str(file) in found["message"]


def test_the_kimi_that_is_there(place: Place) -> None:
    program = place.bin / "kimi"
    program.write_text("#!/bin/sh\necho 2.1.0\n")
    program.chmod(0o755)
    place.variables["MOONSHOT_API_KEY"] = "sk-very-secret"
    (place.home / ".kode.json").write_text("{}")
    done = place.run("doctor")
    assert done.returncode == 0
    assert f"Kimi Code 2.1.0 at {program}" in done.stdout and "a key for https://api.moonshot.ai" in done.stdout
    assert "sk-very-secret" not in done.stdout


def test_piped_it_is_a_line_each_and_on_a_terminal_it_fits(place: Place) -> None:
    place.configure({"demo": DEMO, "gone": {"command": "no-such-program", "timeot": 1}})
    done = place.run("doctor")
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == {"ok", "problem"}
    screen = place.terminal("doctor")
    assert screen.wait() == 1
    assert max(map(len, screen.lines)) <= 80
    assert "✗ gone" in screen.text and "→ " in screen.text and "2 to mend." in screen.text


def test_without_a_terminal_problems_of_the_files_are_on_stderr_first_as_everywhere(place: Place) -> None:
    file = place.home / ".kode.json"
    file.write_text('{"mcpServers": {1}}')
    done = place.run("doctor")
    assert done.returncode == 1 and done.stderr.startswith(f"{file}:1:17: a key is expected here")
    assert "a key is expected here" in done.stdout


def test_a_record_of_trust_that_is_not_believed_comes_with_its_fix(place: Place) -> None:
    place.configure_project({"theirs": DEMO})
    record = place.home / ".local" / "share" / "kimi-gateway" / "trust.json"
    record.parent.mkdir(parents=True)
    record.write_text("no JSON")
    (found,) = [one for one in problems(place) if str(record) in one["message"]]
    assert "it is damaged" in found["message"] and found["fix"] == "Remove it and trust again."


def test_a_token_for_a_profile_that_is_not_there(place: Place) -> None:
    tokens = {"ci": {"token": "x" * 20, "profile": "reviewr"}}
    place.configure({}, {"profiles": {"reviewer": {}}, "http": {"tokens": tokens}})
    (found,) = problems(place)
    assert 'gateway.http.tokens.ci.profile: there is no profile "reviewr"' in found["message"]
