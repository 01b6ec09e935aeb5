"""What Kimi's server says about itself and its tools, as plain data that needs no running server."""

from __future__ import annotations

from typing import Any

from configs.kimi import LONGEST, KimiSettings
from gateway import __version__
from servers.kimi.prompts import ROLES

Data = dict[str, Any]

SERVER_INFO: Data = {"name": "kimi", "title": "Kimi", "version": __version__}
INSTRUCTIONS = (
    "Kimi is a second coding model with its own context window. Use kimi_analyze for a second opinion or for code too "
    "large to read yourself, kimi_implement and kimi_refactor to have it change files in this project, kimi_verify to "
    "check work against requirements. Name the files it should see. Each call starts afresh: put all it needs into "
    "`prompt`, `files` and `context`. Real work takes minutes: set `timeout`."
)

_TITLES = {
    "analyze": "Ask Kimi to analyse code",
    "implement": "Have Kimi implement something",
    "refactor": "Have Kimi refactor code",
    "verify": "Have Kimi verify work",
}
_PURPOSES = {
    "analyze": "Ask Kimi, another strong coding model, to read code and answer: review, explain, find a bug, judge a "
    "design, give a second opinion. Reads only: it cannot change a file or run a command. Answers with text.",
    "implement": "Have Kimi write code in this project: it edits files and runs commands in the project directory, and "
    "its answer ends with the list of files changed. Without the Kimi CLI it proposes the change as text and changes "
    "nothing. Calls that change files run one after the other.",
    "refactor": "Have Kimi restructure existing code in this project without changing what it does, and list the files "
    "changed. With safety_checks (the default) it is asked to keep behaviour and run the tests, and if it fails or "
    "times out, files it changed are put back. Without the Kimi CLI it proposes the change as text.",
    "verify": "Have Kimi check code against requirements and give a verdict with evidence for each. Reads only: it "
    "cannot change a file or run a command. Use it after an implementation, yours or Kimi's.",
}
_TEXTS = {"type": "array", "items": {"type": "string"}}


def _limits(tool: str, settings: KimiSettings) -> str:
    seconds = settings.timeout_of(tool)
    model, resolved = settings.model, settings.resolve(settings.model)
    name = model if model == resolved else f"{model} ({resolved})"
    large = "" if tool in ("implement", "refactor") else "Large questions take a minute or more. "
    return (
        f" Default model {name}; default time limit {seconds:g} s. {large}Real implementations take minutes, often "
        f"5 to 15: set `timeout`, for example 600, at most {LONGEST:g}."
    )


def _properties(tool: str, settings: KimiSettings) -> Data:
    kilobytes = settings.max_file_size // 1024
    properties: Data = {
        "prompt": {"type": "string", "minLength": 1, "description": "What Kimi should do, complete in itself."},
        "files": {
            **_TEXTS,
            "description": "Files Kimi gets in full, relative to the project directory (text, at most "
            f"{kilobytes} KB each).",
        },
        "context": {"type": "string", "description": "Background Kimi cannot find in the files."},
    }
    properties |= _own(tool, settings)
    properties["model"] = {
        "type": "string",
        "description": f"Model alias or id; default {settings.model}.",
    }
    properties["timeout"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": LONGEST,
        "description": f"Seconds until the call is given up; default {settings.timeout_of(tool):g}. Waiting for other "
        "calls does not count.",
    }
    return properties


def _own(tool: str, settings: KimiSettings) -> Data:
    if tool == "analyze":
        names = ", ".join({**ROLES, **settings.roles})
        return {"role": {"type": "string", "description": f"The view to take: {names}; or any other, in words."}}
    if tool == "refactor":
        return {
            "safety_checks": {
                "type": "boolean",
                "default": True,
                "description": "Keep behaviour, run the tests, and undo everything if the run fails.",
            }
        }
    if tool == "implement":
        return {"constraints": _points("Rules the implementation must keep.")}
    return {"requirements": _points("What must hold; each gets its own verdict.")}


def _points(description: str) -> Data:
    return {"anyOf": [_TEXTS, {"type": "string"}], "description": description}


def tools(settings: KimiSettings) -> list[Data]:
    """The `tools` array of `tools/list`, with the defaults in force in its descriptions."""
    return [_tool(tool, settings) for tool in ("analyze", "implement", "refactor", "verify")]


def _tool(tool: str, settings: KimiSettings) -> Data:
    writes = tool in ("implement", "refactor")
    # In the order in which the SDK writes them in the stateless era, which the gateway speaks: what it shows before
    # Kimi runs is then what it shows after, to the byte.
    return {
        "annotations": {
            "destructiveHint": writes,
            "idempotentHint": False,
            "openWorldHint": True,
            "readOnlyHint": not writes,
            "title": _TITLES[tool],
        },
        "description": _PURPOSES[tool] + _limits(tool, settings),
        "inputSchema": {
            "type": "object",
            "properties": _properties(tool, settings),
            "required": ["prompt"],
            "additionalProperties": False,
        },
        "name": f"kimi_{tool}",
        "title": _TITLES[tool],
    }
