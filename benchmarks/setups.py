"""What stands behind a contender: upstreams, and the files that name them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

HERE = Path(__file__).resolve().parent
Era = Literal["session", "stateless"]


@dataclass(frozen=True)
class Setup:
    """So many upstreams with so many tools each; processes, or one endpoint over HTTP."""

    count: int = 1
    tools: int = 10
    era: Era = "session"
    url: str = ""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(HERE / "upstream.py"), str(self.tools), self.era]

    def config(self, **remote: str) -> dict[str, Any]:
        """The usual `mcpServers`; what names the transport of a URL differs from tool to tool."""
        program, *arguments = self.command
        entry: dict[str, Any] = {"url": self.url, **remote} if self.url else {"command": program, "args": arguments}
        return {"mcpServers": {f"s{number}": entry for number in range(self.count)}}


def write(directory: Path, name: str, content: object) -> str:
    """A JSON file in a contender's home; its path."""
    file = directory / name
    file.write_text(json.dumps(content))
    return str(file)


class WebUpstream:
    """The light upstream over HTTP, for the length of a block."""

    def __init__(self, era: Era, tools: int = 10) -> None:
        command = [sys.executable, "-S", "-E", str(HERE / "web_upstream.py"), str(tools), era]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.setup = Setup(era=era, tools=tools, url=f"http://127.0.0.1:{self.port}/mcp")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
