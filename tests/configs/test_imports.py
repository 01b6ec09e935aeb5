from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from configs.imports.plan import Target, is_gateway, meaning, plan
from configs.imports.reading import Found, Where
from configs.imports.sources import Reading, by_name, of_file, on_this_machine, read_source
from configs.imports.tools import TOOLS
from configs.store import Standing

DEMO: dict[str, Any] = {"command": "python", "args": ["-P", "-m", "servers.demo"]}
STDIO = {"type": "stdio", **DEMO}

EXPECTED: dict[str, dict[str, Any]] = {
    "project/.mcprc": {
        "kode-demo": STDIO,
        "kode-socket": 'type: the type "ws" is not one this gateway speaks. Write "stdio", "sse" or "http".',
        "kode-events": {"type": "sse", "url": "https://example.com/sse"},
    },
    "home/.claude.json": {
        "claude-demo": STDIO,
        "github": {
            "type": "http",
            "url": "https://api.githubcopilot.com/mcp/",
            "headers": {"Authorization": "Bearer ghp_0123456789abcdefghij"},
        },
        "kimi-gateway": {"type": "stdio", "command": "kimi-gateway", "args": ["serve"]},
        "local": {"command": "python", "args": [*DEMO["args"], "${MODE:-x}"]},
    },
    "project/.mcp.json": {"shared-demo": {**DEMO, "env": {"LEVEL": "${LEVEL:-info}"}}},
    "home/.config/Claude/claude_desktop_config.json": {
        "desktop-demo": DEMO,
        "brave": {
            "command": "npx",
            "args": ["-y", "brave-mcp", "--api-key", "BSA0123456789"],
            "env": {"PORT": "8080"},
        },
    },
    "home/.cursor/mcp.json": {
        "cursor-demo": DEMO,
        "linear": {"url": "https://mcp.linear.app/mcp", "headers": {"Authorization": "Bearer ${LINEAR_TOKEN}"}},
    },
    "project/.cursor/mcp.json": {"here": {"command": "./bin/serve", "args": ["--home", "${HOME}"], "enabled": False}},
    "home/.config/Code/User/mcp.json": {"vscode-demo": STDIO},
    "project/.vscode/mcp.json": {
        "perplexity": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "server-perplexity", "--region=${REGION:-eu}"],
            "env": {"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}"},
            "cwd": ".",
        },
        "remote": {"type": "http", "url": "https://example.com/${REGION:-eu}/mcp"},
    },
    "home/.codeium/windsurf/mcp_config.json": {
        "windsurf-demo": {**DEMO, "tools": {"deny": ["now"]}},
        "figma": {"url": "https://mcp.figma.com/mcp", "headers": {"X-Key": "${FIGMA_KEY}"}, "enabled": False},
    },
    "home/.codex/config.toml": {
        "codex-demo": {
            **DEMO,
            "env": {"LEVEL": "debug", "LANG": "${LANG:-}"},
            "timeout": 45.5,
            "tools": {"allow": ["add", "echo"]},
        },
        "figma": {
            "url": "https://mcp.figma.com/mcp",
            "headers": {
                "X-Figma-Region": "us-east-1",
                "X-Team": "${FIGMA_TEAM}",
                "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}",
            },
            "enabled": False,
            "tools": {"deny": ["delete"]},
        },
    },
    "project/.codex/config.toml": {"codex-here": {"command": "npx", "args": ["-y", "x"], "cwd": "sub"}},
    "home/.gemini/settings.json": {
        "gemini-demo": {
            **DEMO,
            "env": {"TOKEN": "${MY_TOKEN}", "PLAIN": "a$"},
            "timeout": 30,
            "tools": {"allow": ["add", "now"], "deny": ["now"]},
        },
        "old": {"type": "sse", "url": "https://example.com/sse"},
        "new": {
            "type": "http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${MY_TOKEN}"},
        },
        "typed": {"type": "http", "url": "https://example.com/mcp"},
        "off": {"command": "npx", "enabled": False},
    },
    "home/.kimi-code/mcp.json": {
        "kimi-code-demo": {**DEMO, "timeout": 90, "tools": {"deny": ["echo"]}},
        "linear": {
            "type": "http",
            "url": "https://mcp.linear.app/mcp",
            "headers": {"Authorization": "Bearer ${LINEAR_TOKEN}"},
            "enabled": False,
            "tools": {"allow": ["get_*"]},
        },
    },
    "home/.kimi/mcp.json": {"kimi-cli-demo": STDIO},
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A home and a project with a file of every tool."""
    shutil.copytree(Path(__file__).parent / "machine", tmp_path / "m")
    for file in (tmp_path / "m").rglob("*"):
        if file.is_file():
            text = file.read_text().replace("@PYTHON@", "python").replace("@PROJECT@", str(tmp_path / "m/project"))
            file.write_text(text)
    return tmp_path / "m"


def found_in(machine: Path, name: str) -> dict[str, Found]:
    source = of_file(machine / name, machine / "home", [machine / "project"])
    reading = read_source(source, Where(machine / "project"))
    assert not reading.fault
    return {found.name: found for found in reading.found}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_file_gives_entries_that_mean_the_same(machine: Path, name: str) -> None:
    found = found_in(machine, name)
    assert {key: one.refusal or one.entry for key, one in found.items()} == EXPECTED[name]


def test_every_tool_has_a_file_here_and_is_recognised_by_it(machine: Path) -> None:
    sources = on_this_machine(machine / "home", [machine / "project"])
    found = {str(source.file.relative_to(machine)): source for source in sources}
    assert set(found) == set(EXPECTED)
    assert {source.tool.name for source in sources} == {tool.name for tool in TOOLS}
    for name, source in found.items():
        assert source.scope == ("project" if name.startswith("project/") else "user")
        assert of_file(machine / name, machine / "home", [machine / "project"]) == source


def test_what_cannot_be_said_here_is_noted(machine: Path) -> None:
    cursor = found_in(machine, "home/.cursor/mcp.json")["cursor-demo"].notes
    assert "its variables are in the file ${workspaceFolder}/.env" in cursor[0]
    perplexity = found_in(machine, "project/.vscode/mcp.json")["perplexity"].notes
    assert any("set the variable PERPLEXITY_KEY (Perplexity API key)" in note for note in perplexity)
    assert found_in(machine, "home/.codex/config.toml")["codex-demo"].notes == ("not taken: startup_timeout_sec",)
    assert "only for" in found_in(machine, "home/.claude.json")["local"].notes[0]


def test_a_file_of_unknown_name_is_recognised_by_what_it_holds(machine: Path, tmp_path: Path) -> None:
    for name, tool in (("project/.vscode/mcp.json", "vscode"), ("home/.claude.json", "claude")):
        copy = tmp_path / "servers.json"
        copy.write_text((machine / name).read_text())
        source = of_file(copy, machine / "home", [machine / "project"])
        assert (source.tool.name, source.scope) == (tool, "user")


def test_only_a_tools_own_file_in_the_project_is_the_projects(machine: Path) -> None:
    below = machine / "project" / "sub"
    below.mkdir()
    for name, scope in ((".mcp.json", "project"), ("servers.json", "user")):
        shutil.copy(machine / "project" / ".mcp.json", below / name)
        assert of_file(below / name, machine / "home", [machine / "project"]).scope == scope
    assert of_file(below / ".mcp.json", machine / "home", [machine / "home"]).scope == "user"


def test_an_editors_folder_is_written_out_where_the_server_starts_elsewhere(tmp_path: Path) -> None:
    entry: Any = {"command": "x", "cwd": "/opt", "args": ["${workspaceFolder}/a", "${command:pick}"]}
    cursor = by_name("Cursor")
    assert cursor is not None
    (found,) = cursor.read({"mcpServers": {"a": entry}}, Where(tmp_path))
    assert found.entry["args"] == [f"{tmp_path}/a", "${command:pick}"]
    assert "means nothing outside the editor" in found.notes[0]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"url": "https://x/sse", "httpUrl": "https://x/mcp"}, {"type": "http", "url": "https://x/mcp"}),
        ({"url": "https://x/mcp", "type": "http"}, {"type": "http", "url": "https://x/mcp"}),
        ({"url": "https://x/sse"}, {"type": "sse", "url": "https://x/sse"}),
    ],
)
def test_of_two_addresses_the_one_gemini_uses_is_taken(tmp_path: Path, entry: Any, expected: Any) -> None:
    gemini = by_name("gemini")
    assert gemini is not None
    (found,) = gemini.read({"mcpServers": {"a": entry}}, Where(tmp_path))
    assert found.entry == expected


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (5, "its entry is a number"),
        ({"command": ["x"]}, "command must be text"),
        ({"args": ["x"]}, "neither a command nor a url"),
        ({"command": "x", "args": "y"}, "args must be a list"),
        ({"command": "x", "env": ["A=1"]}, "env must be an object"),
        ({"command": "x", "url": "https://x"}, "both a command and a url"),
        ({"command": "a\0b"}, "cannot be passed on"),
    ],
)
def test_what_is_no_server_is_refused_with_the_reason(tmp_path: Path, entry: Any, why: str) -> None:
    (found,) = TOOLS[1].read({"mcpServers": {"a": entry}}, Where(tmp_path))
    assert why in found.refusal


def test_a_name_we_cannot_use_is_refused(tmp_path: Path) -> None:
    (found,) = TOOLS[1].read({"mcpServers": {"a:b": {"command": "x"}}}, Where(tmp_path))
    assert 'may not be empty nor hold ":"' in found.refusal


@pytest.mark.parametrize("text", ["{", "[mcp_servers", "\xff"])
def test_a_broken_file_says_so_and_nothing_else_suffers(tmp_path: Path, text: str) -> None:
    for name in (".codex/config.toml", ".cursor/mcp.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    readings = [read_source(source, Where(tmp_path)) for source in on_this_machine(tmp_path, [])]
    assert len(readings) == 2
    assert all(reading.fault and not reading.found for reading in readings)


class TestPlan:
    def rows(self, *found: Found, there: dict[str, Any] | None = None, reserved: tuple[str, ...] = ()) -> list[str]:
        source = of_file(Path("/nowhere/.mcp.json"), Path("/home"), [])
        target = Target(Path("/home/.kode.json"), "global")
        standing = {
            name: (Standing(name, "global", target.file, ("mcpServers", name), value),)
            for name, value in (there or {}).items()
        }
        rows = plan([Reading(source, found)], standing, lambda _: target, reserved)
        return [row.state for row in rows]

    def test_what_is_not_there_is_new(self) -> None:
        assert self.rows(Found("a", {"command": "x"})) == ["new"]

    def test_what_only_differs_in_writing_is_the_same(self) -> None:
        there: Any = {"a": {"type": "stdio", "command": "x", "args": [], "env": {}, "enabled": True}}
        assert self.rows(Found("a", {"command": "x"}), there=there) == ["same"]
        assert meaning({"url": "u"}) != meaning({"url": "u", "type": "sse"})

    def test_another_server_of_the_same_name_clashes_and_stays(self) -> None:
        assert self.rows(Found("a", {"command": "x"}), there={"a": {"command": "y"}}) == ["clash"]

    def test_of_two_sources_the_first_counts(self) -> None:
        assert self.rows(*(Found("a", {"command": command}) for command in "xxy")) == ["new", "same", "clash"]

    def test_the_gateway_does_not_import_itself_nor_a_reserved_name(self) -> None:
        assert self.rows(Found("g", {"command": "uvx", "args": ["kimi-gateway", "serve"]})) == ["refused"]
        assert self.rows(Found("kimi", {"command": "x"}), reserved=("kimi",)) == ["refused"]
        assert is_gateway({"url": "http://localhost:8765/mcp"}) and is_gateway({"command": "/opt/bin/kimi-gateway"})
        assert not is_gateway({"command": "npx", "args": ["server-filesystem", "/src/kimi-gateway"]})
        assert not is_gateway({"url": "http://localhost:8766/mcp"}) and not is_gateway({"url": "http://[::1"})
