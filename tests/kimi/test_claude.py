"""Claude Code, the real npm package, with Kimi's tools and the gateway's: its model is a script on 127.0.0.1."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client import command
from tests.kimi import anthropic
from tests.kimi.conftest import Environ
from tests.kimi.moonshot import Moonshot, Say

pytestmark = pytest.mark.timeout(600)
Claude = Callable[..., str]


@pytest.fixture(scope="session")
def claude_bin(npm: Path) -> Path:
    """The program itself: the package's own installer would only have linked to it."""
    found = [path for path in npm.glob("@anthropic-ai/claude-code-*/claude") if "musl" not in str(path)]
    assert found, "npm installed no Claude Code for this platform"
    return found[0]


@pytest.fixture
def claude(claude_bin: Path, project: Path, environ: Environ) -> Claude:
    """Runs `claude` in the project with a throw-away home and returns what it prints."""

    def run(*arguments: str, **variables: str) -> str:
        environment = {
            **environ,
            "PATH": f"{Path(command()).parent}:/usr/bin:/bin",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # A search for tools before each call is Claude Code's own affair.
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TIMEOUT": "120000",
            **variables,
        }
        done = subprocess.run(
            [claude_bin, *arguments],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_what_a_user_types_connects_and_both_texts_reach_the_model(
    claude: Claude, project: Path, home: Path, api: Moonshot
) -> None:
    demo = {"command": sys.executable, "args": ["-P", "-m", "servers.demo"]}
    (home / ".kode.json").write_text(json.dumps({"mcpServers": {"demo": demo}}))
    (project / "sum.py").write_text("def add(a, b): return a - b\n")
    api.says(Say("The function subtracts."))

    claude("mcp", "add", "kimi", "--", "kimi-gateway", "kimi")
    claude("mcp", "add", "kimi-gateway", "--", "kimi-gateway", "serve")
    listed = claude("mcp", "list")
    assert re.search(r"^kimi: kimi-gateway kimi - .*Connected", listed, re.MULTILINE), listed
    assert re.search(r"^kimi-gateway: kimi-gateway serve - .*Connected", listed, re.MULTILINE), listed

    with anthropic.running() as model:
        model.script = [
            ("mcp__kimi__kimi_analyze", {"prompt": "What does it do?", "files": ["sum.py"], "timeout": 120}),
            ("mcp__kimi-gateway__demo__add", {"a": 40, "b": 2}),
            ("mcp__kimi-gateway__kimi__kimi_verify", {"prompt": "Does it add?", "timeout": 120}),
        ]
        allowed = ",".join(name for name, _ in model.script)
        said = claude(
            "-p",
            "Follow your script.",
            "--allowedTools",
            allowed,
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY="no-credential",
        )
    assert "The script is over." in said
    assert "The function subtracts." in model.results["mcp__kimi__kimi_analyze"], model
    assert "42" in model.results["mcp__kimi-gateway__demo__add"], model
    assert "The function subtracts." in model.results["mcp__kimi-gateway__kimi__kimi_verify"], model
    assert "def add(a, b): return a - b" in api.prompt(0)
