"""Describe `.kode.json` to editors: the JSON Schema published beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from configs.checks import LONGEST_TIMEOUT
from configs.entries import TYPES
from configs.settings import Section

FILE = Path(__file__).with_name("kode.schema.json")

_NOTE = " ${VAR} and ${VAR:-default} are replaced."


def build() -> dict[str, Any]:
    """The schema of a whole `.kode.json`; keys that are not ours are Kode's and allowed."""
    gateway = Section.model_json_schema(ref_template="#/$defs/{model}")
    definitions = {
        **gateway.pop("$defs"),
        "Gateway": {**gateway, "title": "Gateway", "description": "The gateway's own settings."},
        "Server": _server(),
        "Servers": {
            "type": "object",
            "description": "MCP servers by name; a name may not be empty nor hold a colon.",
            "propertyNames": {"pattern": "^[^:]*[^:\\s][^:]*$"},
            "additionalProperties": {"$ref": "#/$defs/Server"},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": ".kode.json",
        "description": "MCP servers and the settings of kimi-gateway, in ~/.kode.json or a project's .kode.json.",
        "type": "object",
        "properties": {
            "mcpServers": {"$ref": "#/$defs/Servers"},
            "gateway": {"$ref": "#/$defs/Gateway"},
            "projects": {
                "type": "object",
                "description": "In ~/.kode.json: what holds for one directory, by its absolute path.",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"mcpServers": {"$ref": "#/$defs/Servers"}},
                },
            },
        },
        "$defs": {name: _untitled(definitions[name]) for name in sorted(definitions)},
    }


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without the titles that pydantic makes of each key: they say nothing the key does not."""
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    for key in kept.keys() & {"properties", "additionalProperties", "items"}:
        if isinstance(kept[key], dict):
            kept[key] = _untitled(kept[key])
    for key, value in kept.get("properties", {}).items():
        kept["properties"][key] = _untitled(value)
    return kept


def _server() -> dict[str, Any]:
    limit = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_TIMEOUT}
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    return {
        "type": "object",
        "description": "One MCP server. In a project, an entry without command and url only changes the one below.",
        "properties": {
            "type": {
                "enum": list(TYPES),
                "description": "Without it, command means stdio, and url means http with a fallback to SSE.",
            },
            "command": {"type": "string", "minLength": 1, "description": "The program to start." + _NOTE},
            "args": {"type": "array", "items": {"type": "string"}, "description": "Its arguments." + _NOTE},
            "env": {**texts, "description": "Its environment variables." + _NOTE},
            "cwd": {
                "type": "string",
                "minLength": 1,
                "description": "Its working directory, from the project's directory if relative." + _NOTE,
            },
            "url": {"type": "string", "minLength": 1, "description": "The address of a remote server." + _NOTE},
            "headers": {**texts, "description": "HTTP headers sent to it." + _NOTE},
            "enabled": {"type": "boolean", "default": True, "description": "false keeps the server from starting."},
            "timeout": {**limit, "default": 60, "description": "Seconds a call may take without progress."},
            "timeouts": {
                "type": "object",
                "additionalProperties": limit,
                "description": "Seconds a call may take, by the name of the tool.",
            },
            "health": {"$ref": "#/$defs/HealthPart", "description": "How it is probed, over gateway.health."},
            "tools": {"$ref": "#/$defs/FilterPart", "description": "Which of its tools anybody sees."},
        },
    }


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(build(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
