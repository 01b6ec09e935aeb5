"""A small MCP server to try the gateway with: a few tools, a resource and a prompt, standard library only."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

INSTRUCTIONS = "A demonstration: time, arithmetic and text tools that need nothing but this machine."
RESOURCE = "demo://about"
ABOUT = "This resource comes from the demo server that ships with kimi-gateway."


def now(_: Json) -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def add(arguments: Json) -> str:
    return f"{float(arguments['a']) + float(arguments['b']):g}"


def count_words(arguments: Json) -> str:
    return str(len(str(arguments["text"]).split()))


def echo(arguments: Json) -> str:
    return str(arguments["text"])


def _tool(name: str, description: str, **properties: str) -> Json:
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": list(properties),
        },
        "annotations": {"readOnlyHint": True},
    }


TOOLS = [
    _tool("now", "The date and time now, in UTC."),
    _tool("add", "The sum of two numbers.", a="number", b="number"),
    _tool("count_words", "How many words a text has.", text="string"),
    _tool("echo", "The text that was given.", text="string"),
]
CODE: dict[str, Callable[[Json], str]] = {"now": now, "add": add, "count_words": count_words, "echo": echo}
PROMPTS = [{"name": "greet", "description": "A greeting.", "arguments": [{"name": "name", "required": True}]}]
RESOURCES = [{"uri": RESOURCE, "name": "about", "mimeType": "text/plain"}]


class Refusal(Exception):
    """An error with its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def answer(method: str, params: Json) -> Json:
    """The result of one request.

    Raises:
        Refusal: it has none.
    """
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "demo", "version": "1"},
                "instructions": INSTRUCTIONS,
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(str(params.get("name")), params.get("arguments") or {})
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            arguments: Json = params.get("arguments") or {}
            name = arguments.get("name", "you")
            return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Greet {name} warmly."}}]}
        case "resources/list":
            return {"resources": RESOURCES}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read" if params.get("uri") == RESOURCE:
            return {"contents": [{"uri": RESOURCE, "mimeType": "text/plain", "text": ABOUT}]}
        case "resources/read":
            raise Refusal(-32002, "Resource not found")
        case _:
            raise Refusal(-32601, f"Method not found: {method}")


def call(name: str, arguments: Json) -> Json:
    if name not in CODE:
        raise Refusal(-32602, f"Unknown tool: {name}")
    try:
        text, wrong = CODE[name](arguments), False
    except (KeyError, ValueError, TypeError) as error:
        text, wrong = f"Bad arguments: {error!r}", True
    return {"content": [{"type": "text", "text": text}], "isError": wrong}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        reply: Json = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request["method"], request.get("params") or {})
        except Refusal as refusal:
            reply["error"] = {"code": refusal.code, "message": str(refusal)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
