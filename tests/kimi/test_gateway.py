"""Kimi behind the gateway: listed before it runs, called like any other, and never below itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from servers.kimi.recursion import MARK
from tests.client import Gateway, Json, command
from tests.conftest import Start
from tests.kimi.conftest import Environ, Serve
from tests.kimi.moonshot import Hang, Moonshot, Say, Use

DEMO: Json = {"command": sys.executable, "args": ["-P", "-m", "servers.demo"]}


def kimis(gateway: Gateway) -> list[str]:
    return [name for name in gateway.tool_names() if "kimi" in name]


def variables(environ: Environ) -> Environ:
    return {name: environ[name] for name in ("PATH", "MOONSHOT_API_KEY", "KIMI_BASE_URL", "TMPDIR")}


def test_it_is_listed_before_it_runs_and_called_like_any_other(start: Start, environ: Environ, api: Moonshot) -> None:
    gateway = start(gateway={"kimi": True}, environment=variables(environ), servers={"demo": DEMO})
    before = gateway.request("tools/list").payload
    assert kimis(gateway) == [f"kimi__kimi_{tool}" for tool in ("analyze", "implement", "refactor", "verify")]
    (gateway.project / "a.txt").write_text("of the project")
    arguments: Json = {"prompt": "Read", "files": ["a.txt"], "timeout": 120}
    answer = gateway.request("tools/call", {"name": "kimi__kimi_analyze", "arguments": arguments})
    assert answer.text == "All is well." and "of the project" in api.prompt()
    bad = gateway.request("tools/call", {"name": "kimi:kimi_verify", "arguments": {"prompt": "x", "files": ["gone"]}})
    assert bad.result["isError"] and bad.text.startswith("invalid_input: gone: missing")
    assert gateway.request("tools/list").payload == before
    assert gateway.got("notifications/tools/list_changed") == []


def test_progress_and_cancellation_go_through(start: Start, environ: Environ, api: Moonshot) -> None:
    gateway = start(gateway={"kimi": True}, environment=variables(environ))
    api.says(Hang(), Say("Next."))
    call: Json = {"name": "kimi__kimi_analyze", "arguments": {"prompt": "Think", "timeout": 600}}
    params: Json = {**call, "_meta": {"progressToken": 7}}
    gateway.say(json.dumps({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params}).encode() + b"\n")
    assert " s" in gateway.expect("notifications/progress", progressToken=7).params["message"]
    api.wait_for_request()
    gateway.notify("notifications/cancelled", {"requestId": "long"})
    api.wait_until_left()
    assert gateway.request("tools/call", call).text == "Next."


def test_a_gateway_below_a_kimi_run_starts_nothing_and_says_so(start: Start, environ: Environ) -> None:
    inside = {**variables(environ), MARK: "a run"}
    gateway = start(gateway={"kimi": True}, environment=inside, servers={"demo": DEMO})
    assert gateway.tool_names() == []
    assert b"starts no server, so that Kimi does not call itself" in gateway.errors
    gateway = start(gateway={"kimi": {"tools": True}}, environment=inside, servers={"demo": DEMO})
    assert "demo__add" in gateway.tool_names() and kimis(gateway) == []


@pytest.mark.timeout(600)
def test_a_real_kimi_that_starts_the_gateway_gets_the_other_servers_only_where_allowed(
    serve: Serve, environ: Environ, code_bin: Path, home: Path, api: Moonshot
) -> None:
    (home / ".kimi-code").mkdir()
    entry: Json = {"command": command(), "args": ["serve"], "startupTimeoutMs": 120_000}
    (home / ".kimi-code" / "mcp.json").write_text(json.dumps({"mcpServers": {"gw": entry}}))
    peer = serve(PATH=f"{code_bin}:/usr/bin:/bin")
    for allowed in (True, False):
        config: Json = {"mcpServers": {"demo": DEMO}, "gateway": {"kimi": {"tools": allowed}}}
        (home / ".kode.json").write_text(json.dumps(config))
        api.requests.clear()
        # Kimi Code connects while it works: a step more gives it the time.
        api.says(Use("Bash", {"command": "sleep 5", "timeout": 60}), Say("Done."))
        failed, text = peer.call("kimi_implement", prompt="Do it", timeout=140)
        assert (failed, text) == (False, "Done.\n\nFiles changed: none.")
        offered = [tool["function"]["name"] for tool in api.requests[-1]["tools"]]
        assert [name for name in offered if "kimi_analyze" in name] == []
        assert any("demo" in name for name in offered) == allowed, offered
