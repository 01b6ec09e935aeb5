"""A client for the suite's client scenarios: a gateway with the suite's server upstream, driven over stdio.

The suite starts `python -m tests.conformance.driver ERA URL` and watches what reaches its server.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.client import Gateway, Json, Message, until

UPSTREAM = "suite"
CAPABILITIES: Json = {"elicitation": {}, "sampling": {}, "roots": {}}
VERSIONS = {"session": "2025-11-25", "stateless": "2026-07-28"}
META = "io.modelcontextprotocol/"


class Client:
    """A complete client of one era, in front of the gateway."""

    def __init__(self, gateway: Gateway, era: str) -> None:
        self._gateway = gateway
        self._era = era
        self.asked: list[str] = []
        """The methods of the questions that came, in order."""
        if era == "session":
            for method in ("elicitation/create", "sampling/createMessage", "roots/list"):
                gateway.on(method, lambda message: self._answer(str(message.method), message.params or {}))
            gateway.initialize(VERSIONS[era], CAPABILITIES)

    def request(self, method: str, params: Json | None = None) -> Message:
        """A request, and the answer that is not a question."""
        if self._era == "session":
            return self._gateway.request(method, params or {})
        meta = {
            f"{META}protocolVersion": VERSIONS[self._era],
            f"{META}clientInfo": {"name": "driver", "version": "1"},
            f"{META}clientCapabilities": CAPABILITIES,
        }
        told: Json = {}
        while True:
            more: Json = {**meta, **(params or {}).get("_meta", {})}
            message = self._gateway.request(method, {**(params or {}), **told, "_meta": more})
            result: Json = message.json.get("result", {})
            if result.get("resultType") != "input_required":
                return message
            questions: dict[str, Json] = result.get("inputRequests", {})
            told = {
                "inputResponses": {
                    key: self._answer(one["method"], one.get("params", {})) for key, one in questions.items()
                }
            }
            if "requestState" in result:
                told["requestState"] = result["requestState"]

    def _answer(self, method: str, params: Json) -> Json:
        self.asked.append(method)
        return answer(method, params)

    def list(self, method: str, key: str) -> list[Json]:
        return self.request(method).result[key]

    def call(self, name: str, arguments: Json | None = None, **more: Any) -> Message:
        return self.request("tools/call", {"name": name, "arguments": arguments or {}, **more})


def answer(method: str, params: Json) -> Json:
    """What the user of this client says to a question."""
    match method:
        case "elicitation/create":
            fields: dict[str, Json] = params["requestedSchema"]["properties"]
            return {"action": "accept", "content": {name: _value(field) for name, field in fields.items()}}
        case "sampling/createMessage":
            return {"role": "assistant", "model": "none", "content": {"type": "text", "text": "Paris"}}
        case _:
            return {"roots": []}


def _value(schema: Json) -> Any:
    """A value for a field: its default, else the simplest of its type."""
    values: Json = {"number": 1, "integer": 1, "boolean": True, "object": {}, "array": [], "null": None}
    return schema.get("default", values.get(schema.get("type", "string"), "text"))


def everything(client: Client) -> None:
    """Use all that is offered, once."""
    for tool in client.list("tools/list", "tools"):
        fields: dict[str, Json] = tool["inputSchema"].get("properties", {})
        client.call(tool["name"], {name: _value(field) for name, field in fields.items()})
    for prompt in client.list("prompts/list", "prompts"):
        client.request("prompts/get", {"name": prompt["name"]})
    for resource in client.list("resources/list", "resources"):
        client.request("resources/read", {"uri": resource["uri"]})


def as_told(client: Client) -> None:
    """The calls the suite itself names."""
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        client.call(call["name"], call["arguments"])


def echo_schema(client: Client) -> None:
    """Send back the schema that arrived."""
    tools = {tool["name"]: tool for tool in client.list("tools/list", "tools")}
    client.call("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]})


SCRIPTS: dict[str, Callable[[Client], None]] = {
    "http-custom-headers": as_told,
    "json-schema-2020-12-preservation": echo_schema,
}


def main() -> None:
    era, url = sys.argv[1:]
    script = SCRIPTS.get(os.environ["MCP_CONFORMANCE_SCENARIO"], everything)
    with tempfile.TemporaryDirectory() as directory:
        servers = {UPSTREAM: {"type": "http", "url": url}}
        with Gateway(Path(directory), servers, gateway={"naming": "bare"}) as gateway:
            try:
                client = Client(gateway, era)
                # A stateless client's first request says what it can, and only then its upstreams are spoken to.
                client.list("tools/list", "tools")
                until(lambda: b"\xe2\x86\x92 ready" in gateway.errors, "a connection to the suite's server")
                script(client)
            finally:
                sys.stderr.write(gateway.errors.decode(errors="replace"))


if __name__ == "__main__":
    main()
