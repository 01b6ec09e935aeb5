"""The tools whose servers can be imported: their files, and how each writes an entry."""

from __future__ import annotations

from collections.abc import Mapping

from configs.document import Json
from configs.imports import texts
from configs.imports.reading import Found, Tool, Values, Where, section
from configs.imports.translate import (
    HEADERS,
    STANDARD,
    Dialect,
    Key,
    address,
    allow,
    bearer,
    deny,
    flag,
    header_variables,
    passed_variables,
    seconds,
    translate,
    transport,
    variable_file,
)
from configs.load import PROJECTS, SERVERS
from configs.locate import kode_project_key

_CLAUDE = Dialect()
_EDITOR_KEYS: Mapping[str, Key] = {
    **STANDARD, "envFile": variable_file, "disabled": flag(inverted=True), "enabled": flag()
}  # fmt: skip
_EDITOR = Dialect(_EDITOR_KEYS, texts.editor)
_WINDSURF = Dialect({**_EDITOR_KEYS, "serverUrl": address(None), "disabledTools": deny}, texts.editor)
_GEMINI = Dialect(
    {
        **STANDARD,
        "url": address("sse"),
        # Of both, this is the one Gemini uses.
        "httpUrl": address("http", always=True),
        "timeout": seconds(1000),
        "includeTools": allow,
        "excludeTools": deny,
    },
    texts.dollars,
)
_KIMI = Dialect(
    {
        **STANDARD,
        "transport": transport,
        "bearerTokenEnvVar": bearer,
        "enabled": flag(),
        "toolTimeoutMs": seconds(1000),
        "enabledTools": allow,
        "disabledTools": deny,
    }
)
_CODEX = Dialect(
    {
        **STANDARD,
        "env_vars": passed_variables,
        "http_headers": HEADERS,
        "env_http_headers": header_variables,
        "bearer_token_env_var": bearer,
        "enabled": flag(),
        "tool_timeout_sec": seconds(),
        "enabled_tools": allow,
        "disabled_tools": deny,
    }
)


def _in_projects(values: Values, dialect: Dialect, where: Where) -> list[Found]:
    """Servers kept for this very directory in the user's own file."""
    projects = section(values, PROJECTS)
    key = kode_project_key(projects, where.project)
    found = translate(section(projects, key, SERVERS), dialect, where) if key else []
    note = f"there it is only for {key}"
    return [one._replace(notes=(*one.notes, note)) for one in found]


def _kode(values: Values, where: Where) -> list[Found]:
    # A `.mcprc` has its servers at the top.
    bare = {name: value for name, value in values.items() if _launches(value)}
    return [*translate(section(values, SERVERS) or bare, _CLAUDE, where), *_in_projects(values, _CLAUDE, where)]


def _claude(values: Values, where: Where) -> list[Found]:
    return [*translate(section(values, SERVERS), _CLAUDE, where), *_in_projects(values, _CLAUDE, where)]


def _desktop(values: Values, where: Where) -> list[Found]:
    return translate(section(values, SERVERS), _CLAUDE, where)


def _cursor(values: Values, where: Where) -> list[Found]:
    return translate(section(values, SERVERS), _EDITOR, where)


def _vscode(values: Values, where: Where) -> list[Found]:
    # In the user's settings.json the same stands under `mcp`.
    holder = values if "servers" in values else section(values, "mcp")
    asked = holder.get("inputs")
    inputs = {
        str(item["id"]): texts.Input(_text(item.get("description")), _text(item.get("default")))
        for item in (asked if isinstance(asked, list) else [])
        if isinstance(item, dict) and "id" in item
    }
    return translate(section(holder, "servers"), _EDITOR, where, inputs)


def _windsurf(values: Values, where: Where) -> list[Found]:
    return translate(section(values, SERVERS), _WINDSURF, where)


def _codex(values: Values, where: Where) -> list[Found]:
    return translate(section(values, "mcp_servers"), _CODEX, where)


def _gemini(values: Values, where: Where) -> list[Found]:
    found = translate(section(values, SERVERS), _GEMINI, where)
    rules = section(values, "mcp")
    excluded, allowed = rules.get("excluded"), rules.get("allowed")

    def is_off(name: str) -> bool:
        return (isinstance(excluded, list) and name in excluded) or (isinstance(allowed, list) and name not in allowed)

    return [one._replace(entry={**one.entry, "enabled": False}) if is_off(one.name) else one for one in found]


def _kimi(values: Values, where: Where) -> list[Found]:
    return translate(section(values, SERVERS), _KIMI, where)


def _launches(value: Json) -> bool:
    return isinstance(value, dict) and bool({"command", "url"} & value.keys())


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _application(folder: str, *rest: str) -> tuple[str, ...]:
    """Where an application of this name keeps a file, on each system."""
    bases = (".config", "Library/Application Support", "AppData/Roaming")
    return tuple("/".join((base, folder, *rest)) for base in bases)


TOOLS: tuple[Tool, ...] = (
    Tool("kode", "Kode", (".kode.json",), (".mcprc",), _kode),
    Tool("claude", "Claude Code", (".claude.json",), (".mcp.json",), _claude, ("claude-code",)),
    Tool("claude-desktop", "Claude Desktop", _application("Claude", "claude_desktop_config.json"), (), _desktop),
    Tool("cursor", "Cursor", (".cursor/mcp.json",), (".cursor/mcp.json",), _cursor),
    Tool("vscode", "VS Code", _application("Code", "User", "mcp.json"), (".vscode/mcp.json",), _vscode, ("code",)),
    Tool("windsurf", "Windsurf", (".codeium/windsurf/mcp_config.json",), (), _windsurf),
    Tool("codex", "Codex", (".codex/config.toml",), (".codex/config.toml",), _codex),
    Tool("gemini", "Gemini CLI", (".gemini/settings.json",), (".gemini/settings.json",), _gemini, ("gemini-cli",)),
    Tool(
        "kimi", "Kimi", (".kimi-code/mcp.json", ".kimi/mcp.json"), (".kimi-code/mcp.json",), _kimi,
        ("kimi-code", "kimi-cli"),
    ),
)  # fmt: skip
