from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.configuring.person import DEMO, ENTRY, Person

MACHINE = Path(__file__).parents[2] / "configs" / "machine"
TOOLS = ("kode", "claude", "claude-desktop", "cursor", "vscode", "windsurf", "codex", "gemini", "kimi")


@pytest.fixture
def settled(person: Person) -> Person:
    """Who has used all nine tools for a while."""
    shutil.copytree(MACHINE / "home", person.home, dirs_exist_ok=True)
    shutil.copytree(MACHINE / "project", person.project, dirs_exist_ok=True)
    for file in (*person.home.rglob("*"), *person.project.rglob("*")):
        if file.is_file():
            text = file.read_text().replace("@PYTHON@", sys.executable).replace("@PROJECT@", str(person.project))
            file.write_text(text)
    return person


def bytes_of(person: Person) -> dict[Path, bytes]:
    ours = (".kode.json", ".kode.json.bak", "trust.json")
    files = (*person.home.rglob("*"), *person.project.rglob("*"))
    return {file: file.read_bytes() for file in files if file.is_file() and file.name not in ours}


def test_servers_of_all_nine_tools_work_behind_the_gateway(settled: Person) -> None:
    before = bytes_of(settled)
    for tool in TOOLS:
        done = settled.run("import", tool, "--yes")
        assert done.returncode == 0 and "Imported" in done.stdout, done.stderr
    assert bytes_of(settled) == before
    environment = {"MY_TOKEN": "x", "MODE": "y", "LINEAR_TOKEN": "z"}
    mine, theirs = (json.loads(file.read_text())["mcpServers"] for file in (settled.mine, settled.theirs))
    working = {name for name, entry in {**mine, **theirs}.items() if "servers.demo" in entry.get("args", ())}
    assert {name for name in working if name in theirs} == {"kode-demo", "shared-demo"}
    assert len(working) == 12
    _keep_only(settled, working)
    states = _states(settled, environment)
    assert {name for name, state in states.items() if state != "ready"} == {"kode-demo", "shared-demo"}
    assert settled.run("trust", "--yes").returncode == 0
    assert set(_states(settled, environment).values()) == {"ready"}
    listed = json.loads(settled.run("tools", "--json", environment=environment).stdout)
    names = {tool["name"] for tool in listed}
    assert {f"{name}:add" for name in working} <= names
    # What another tool hid stays hidden.
    assert not {"windsurf-demo:now", "codex-demo:now", "gemini-demo:now", "kimi-code-demo:echo"} & names


def _keep_only(person: Person, names: set[str]) -> None:
    """Without the servers that are not on this machine."""
    for file in (person.mine, person.theirs):
        content = json.loads(file.read_text())
        content["mcpServers"] = {name: entry for name, entry in content["mcpServers"].items() if name in names}
        file.write_text(json.dumps({**content, **({"gateway": {"kimi": False}} if file == person.mine else {})}))


def _states(person: Person, environment: dict[str, str]) -> dict[str, str]:
    servers = json.loads(person.run("status", "--json", environment=environment).stdout)["servers"]
    return {name: server["state"] for name, server in servers.items()}


def test_with_no_argument_it_finds_all_and_a_second_time_changes_nothing(settled: Person) -> None:
    settled.mine.write_text('{"primaryApiKey": "k"}')
    done = settled.run("import", "--yes")
    assert done.returncode == 0
    mine, theirs = settled.mine.read_bytes(), settled.theirs.read_bytes()
    assert json.loads(mine)["primaryApiKey"] == "k"
    assert set(json.loads(theirs)["mcpServers"]) == {
        "kode-demo", "kode-events", "shared-demo", "here", "perplexity", "remote", "codex-here"
    }  # fmt: skip
    backup = settled.mine.with_name(".kode.json.bak").read_bytes()
    again = settled.run("import", "--yes")
    assert again.returncode == 0 and "Nothing to import" in again.stdout
    assert (settled.mine.read_bytes(), settled.theirs.read_bytes()) == (mine, theirs)
    assert settled.mine.with_name(".kode.json.bak").read_bytes() == backup


def test_the_table_tells_new_same_and_clashing_apart(settled: Person) -> None:
    settled.mine.write_text(json.dumps({"mcpServers": {"old": {"command": "mine"}, "claude-demo": ENTRY}}))
    before = settled.mine.read_bytes()
    done = settled.run("import", "--dry-run")
    rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    states = {(name, origin): state for name, state, origin, _ in rows[1:]}
    assert states["claude-demo", "Claude Code"] == "same"
    assert states["old", "Gemini CLI"] == "clashes"
    assert states["kimi-gateway", "Claude Code"] == "not taken"
    assert states["kode-socket", "Kode"] == "not taken"
    assert states["figma", "Windsurf"] == "new" and states["figma", "Codex"] == "clashes"
    assert "Would import" in done.stdout and "is left as it is" in done.stderr
    assert settled.mine.read_bytes() == before and not settled.theirs.exists()


def test_secrets_are_pointed_out_with_the_form_to_use_and_never_shown(settled: Person) -> None:
    done = settled.run("import", "--dry-run")
    assert "github: headers.Authorization is a secret written out. Safer: Bearer ${GITHUB_TOKEN}" in done.stderr
    assert "brave: args[3] is a secret written out. Safer: ${BRAVE_API_KEY}" in done.stderr
    assert "npx -y brave-mcp --api-key •••" in done.stdout
    assert "ghp_" not in done.stdout + done.stderr and "BSA01" not in done.stdout + done.stderr
    assert "perplexity: ${input:perplexity-key} became ${PERPLEXITY_KEY}" in done.stderr


def test_without_a_terminal_it_asks_for_yes(settled: Person) -> None:
    done = settled.run("import", "cursor")
    assert done.returncode == 1 and "--yes" in done.stderr
    assert not settled.mine.exists() and not settled.theirs.exists()


def test_at_a_terminal_the_user_chooses_and_agrees(settled: Person) -> None:
    with settled.at_a_terminal("import", columns=120) as screen:
        screen.see("Import from which?")
        number = next(line.split()[0] for line in screen.text.splitlines() if "Windsurf" in line)
        screen.type("99")
        screen.see("is not among")
        screen.type(number)
        screen.see(f"Import 2 into {settled.mine}? [y/N]")
        screen.type("y")
        assert screen.ended() == 0
    assert set(json.loads(settled.mine.read_text())["mcpServers"]) == {"windsurf-demo", "figma"}


def test_at_a_terminal_a_no_imports_nothing(settled: Person) -> None:
    with settled.at_a_terminal("import", "codex") as screen:
        screen.see("[y/N]")
        screen.type("no")
        assert screen.ended() == 1
    assert not settled.mine.exists()


def test_a_scope_puts_it_where_the_user_says(settled: Person) -> None:
    assert settled.run("import", str(settled.project / ".mcp.json"), "--scope", "user", "--yes").returncode == 0
    assert "shared-demo" in json.loads(settled.mine.read_text())["mcpServers"] and not settled.theirs.exists()
    assert settled.run("import", "windsurf", "--scope", "project", "--yes").returncode == 0
    assert "untrusted" in settled.run("status").stdout


def test_a_file_from_elsewhere_is_read_by_what_it_holds(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "team.json"
    file.write_text('{"servers": {"a": {"command": "x", "args": ["${env:HOME}"], }, }, } // jsonc')
    assert person.run("import", str(file), "--yes").returncode == 0
    assert json.loads(person.mine.read_text())["mcpServers"] == {"a": {"command": "x", "args": ["${HOME}"]}}


def test_what_is_neither_file_nor_tool_is_wrong_usage(person: Person) -> None:
    done = person.run("import", "cursr")
    assert (done.returncode, done.stdout) == (2, "") and "Did you mean cursor?" in done.stderr
    done = person.run("import", "cursor")
    assert done.returncode == 0 and "looked for ~/.cursor/mcp.json" in done.stderr
    (person.home / ".cursor").mkdir()
    (person.home / ".cursor" / "mcp.json").write_text("{oops")
    done = person.run("import", "cursor")
    assert done.returncode == 1 and "mcp.json:1:2: a key is expected here" in done.stderr


def test_a_server_that_is_imported_is_called_by_its_own_command(person: Person) -> None:
    (person.home / ".codex").mkdir()
    words = ", ".join(json.dumps(word) for word in DEMO[1:])
    text = f"[mcp_servers.'my demo']\ncommand = {json.dumps(DEMO[0])}\nargs = [{words}]\n"
    (person.home / ".codex" / "config.toml").write_text(text)
    assert person.run("import", "codex", "--yes").returncode == 0
    assert person.run("call", "my demo:add", "a=20", "b=22").stdout == "42\n"


def test_a_file_that_cannot_be_read_is_a_failure_and_no_wrong_usage(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"mcpServers": ')
    done = person.run("import", str(file), "--yes")
    assert (done.returncode, done.stdout) == (1, "") and f"{file}:1:" in done.stderr
