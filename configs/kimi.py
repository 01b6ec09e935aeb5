"""What Kimi's tools are set to: the environment over `~/.config/kimi-mcp/config.json` over defaults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

PREFIX = "KIMI_MCP_"
LONGEST = 3600.0
"""Seconds a call may take at most."""
DEFAULT_TIMEOUT = 30.0
ALIASES: Mapping[str, str] = {"k2": "kimi-k2.6", "k2.5": "kimi-k2.5"}
"""Short names in use for models whose own ids change: `models` in the file adds to them."""
TOOLS = ("analyze", "implement", "refactor", "verify")

Backend = Literal["auto", "cli", "api"]


@dataclass(frozen=True)
class KimiSettings:
    """Settings in force, each value valid on its own."""

    model: str = "k2"
    timeout: float | Mapping[str, float] = DEFAULT_TIMEOUT
    max_file_size: int = 1024 * 1024
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    backend: Backend = "auto"
    concurrency: int = 4
    chosen: frozenset[str] = frozenset()
    """Which of these somebody set: a model nobody chose is left to the CLI's own login."""

    def timeout_of(self, tool: str) -> float:
        """The limit of a call that sets none; `tool` is the name without `kimi_`."""
        if not isinstance(self.timeout, Mapping):
            return self.timeout
        return self.timeout.get(tool, self.timeout.get("default", DEFAULT_TIMEOUT))

    def resolve(self, model: str) -> str:
        """The id behind an alias; anything else is an id already."""
        return {**ALIASES, **self.models}.get(model, model)


def config_file(home: Path) -> Path:
    return home / ".config" / "kimi-mcp" / "config.json"


def load(home: Path, environ: Mapping[str, str]) -> tuple[KimiSettings, tuple[str, ...]]:
    """The settings in force, and a warning for each value that could not be taken."""
    warnings: list[str] = []
    path = config_file(home)
    written = _read(path, warnings.append)
    variables = {name: value for name, value in environ.items() if value and name.startswith(PREFIX)}
    if not written and not variables:
        return KimiSettings(), tuple(warnings)
    # Costs more than the rest of a gateway's start, so only those pay who have settings at all.
    from configs import kimi_values

    values: dict[str, Any] = {}
    kimi_values.take(values, written, str(path), warnings.append)
    kimi_values.take(values, kimi_values.Environment(variables).values(), kimi_values.ENVIRONMENT, warnings.append)
    return KimiSettings(**values, chosen=frozenset(values)), tuple(warnings)


def _read(path: Path, warn: Callable[[str], None]) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        warn(f"{path} cannot be read ({error}); the defaults are used. Write a JSON object into it.")
        return {}
    if not isinstance(value, dict):
        warn(f"{path} holds no JSON object; the defaults are used.")
        return {}
    return cast("dict[str, Any]", value)
