"""Check what is set for Kimi's tools, value by value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from configs.kimi import LONGEST, PREFIX, Backend, KimiSettings

ENVIRONMENT = "the environment"
Seconds = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False, strict=True)]
Tool = Literal["analyze", "implement", "refactor", "verify", "default"]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
CHECKS: dict[str, TypeAdapter[Any]] = {
    "model": TypeAdapter(Name),
    "timeout": TypeAdapter(Seconds | dict[Tool, Seconds]),
    "max_file_size": TypeAdapter(Annotated[int, Field(ge=1, strict=True)]),
    "roles": TypeAdapter(dict[Name, Name]),
    "models": TypeAdapter(dict[Name, Name]),
    "backend": TypeAdapter(Backend),
    "concurrency": TypeAdapter(Annotated[int, Field(ge=1, le=64, strict=True)]),
}


class _Variables(BaseSettings):
    """The raw `KIMI_MCP_*` texts of the keys that are ours; others belong to other programs."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    model: Annotated[str | None, NoDecode] = None
    timeout: Annotated[str | None, NoDecode] = None
    max_file_size: Annotated[str | None, NoDecode] = None
    roles: Annotated[str | None, NoDecode] = None
    models: Annotated[str | None, NoDecode] = None
    backend: Annotated[str | None, NoDecode] = None
    concurrency: Annotated[str | None, NoDecode] = None


class Environment(EnvSettingsSource):
    """The variables of a given environment."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._given = variables
        super().__init__(_Variables)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._given.items()}

    def values(self) -> dict[str, Any]:
        """What they stand for."""
        return {key: _decoded(key, text) for key, text in self().items() if isinstance(text, str)}


def _decoded(key: str, text: str) -> Any:
    """A variable's text as the JSON value it stands for; names stay text even where they look like numbers."""
    if key in ("model", "backend"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def take(into: dict[str, Any], found: Mapping[str, Any], where: str, warn: Callable[[str], None]) -> None:
    """Add what is valid; one bad value costs only itself, also inside an object."""
    for key, check in CHECKS.items():
        if key not in found:
            continue
        name = f"{PREFIX}{key.upper()}" if where == ENVIRONMENT else key
        value = found[key]
        try:
            into[key] = check.validate_python(value)
        except ValidationError as error:
            valid, bad = _members(value, check)
            if valid:
                into[key] = valid
                for member, why in bad.items():
                    warn(f"{_no_good(f'{name}.{member}', value[member], where, why)}; it is left out.")
                continue
            used = into.get(key, getattr(KimiSettings(), key))
            warn(f"{_no_good(name, value, where, error.errors()[0]['msg'])}; {json.dumps(used)} is used instead.")


def _members(value: object, check: TypeAdapter[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The valid members of an object, and what is wrong with the others."""
    valid: dict[str, Any] = {}
    bad: dict[str, str] = {}
    for member, one in cast("dict[str, Any]", value).items() if isinstance(value, dict) else ():
        try:
            valid |= check.validate_python({member: one})
        except ValidationError as error:
            # The first of a union's complaints may be that this is an object.
            bad[member] = error.errors()[-1]["msg"]
    return valid, bad


def _no_good(name: str, value: object, where: str, why: str) -> str:
    return f"{name} = {json.dumps(value, ensure_ascii=False, default=str)[:80]} in {where} is no good ({why})"
