"""A replay of kimi-cli 1.51.0, not the program: asks the model once, then says and exits as was recorded."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path


def main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        sys.stdout.write("kimi, version 1.51.0\n")
        return 0
    prompt = arguments[arguments.index("-p") + 1]
    case = re.search(r"RECORDED: (.+)", prompt)
    assert case is not None
    recorded = json.loads((Path(__file__).parent / "legacy.json").read_text(encoding="utf-8"))[case[1]]
    if os.environ.get("KIMI_BASE_URL"):
        ask(os.environ["KIMI_BASE_URL"], prompt)
    sys.stdout.write(recorded["stdout"])
    return recorded["exit"]


def ask(address: str, prompt: str) -> None:
    body = {"model": os.environ["KIMI_MODEL_NAME"], "messages": [{"role": "user", "content": prompt}], "stream": True}
    headers = {"authorization": f"Bearer {os.environ['KIMI_API_KEY']}", "content-type": "application/json"}
    request = urllib.request.Request(f"{address}/chat/completions", json.dumps(body).encode(), headers)
    with suppress(urllib.error.URLError, HTTPException, OSError), urllib.request.urlopen(request) as answer:
        answer.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
