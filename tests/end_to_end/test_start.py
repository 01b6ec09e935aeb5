"""What happens before the first answer, and what does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
COSTLY = {"mcp", "pydantic", "pydantic_settings", "aiohttp", "httpx", "uvicorn", "rich", "statistics"}


def test_nothing_costly_is_imported_before_the_first_answer(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": ["-P", "-m", "servers.demo"]}
    (tmp_path / ".kode.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    gateway = subprocess.Popen(
        [sys.executable, "-P", "-X", "importtime", "-m", "gateway.cli", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        cwd=tmp_path,
    )
    assert gateway.stdin is not None
    assert gateway.stdout is not None
    gateway.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    gateway.stdin.flush()
    answer = json.loads(gateway.stdout.readline())
    _, said = gateway.communicate(timeout=60)
    assert answer["result"]["serverInfo"]["name"] == "kimi-gateway"
    imported = {line.rpartition("|")[2].strip() for line in said.decode().splitlines() if "import time:" in line}
    assert "gateway.conversation" in imported
    assert imported & COSTLY == set()
