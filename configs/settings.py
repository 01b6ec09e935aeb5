"""The `gateway` section as settings: the environment over the project's file over the user's own over defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from configs.document import Json, KeyPath, dotted
from configs.notes import Notes

PREFIX = "KIMI_GATEWAY_"

# In all models below, field names are the keys of the JSON, camel case and all: variables are named after them.
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024, le=1 << 40)]


class GlobsPart(BaseModel):
    allow: list[str] = Field(default=["*"], description="Glob patterns of what is let through.")
    deny: list[str] = Field(default=[], description="Glob patterns of what is hidden; these win over allow.")


class FilterPart(GlobsPart):
    readOnly: bool = Field(default=False, description="Keep only tools that say readOnlyHint: true.")


class ProfilePart(BaseModel):
    tools: FilterPart = Field(default=FilterPart(), description="Which server:tool the profile sees.")
    servers: GlobsPart | None = Field(
        default=None, description="Which servers the profile sees, instead of those that have a tool left."
    )


class HealthPart(BaseModel):
    interval: Seconds = Field(default=30.0, description="Seconds between two probes of an idle connection.")
    timeout: Seconds = Field(default=10.0, description="Seconds a probe may take.")
    misses: int = Field(default=2, ge=1, description="Missed probes in a row after which a server is replaced.")


class KimiPart(BaseModel):
    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.update({"type": ["boolean", "object"]}),
    )

    enabled: bool = Field(default=True, description="Whether Kimi's tools are offered.")
    tools: bool = Field(default=False, description="Whether Kimi may use the other servers' tools.")

    @model_validator(mode="before")
    @classmethod
    def _flag_is_enabled(cls, value: object) -> object:
        return cast("object", value) if isinstance(value, dict) else {"enabled": value}


class TokenPart(BaseModel):
    token: str = Field(min_length=1, description="The bearer token; ${VAR} is replaced.")
    profile: str | None = Field(default=None, description="The profile its holder sees.")


class HttpPart(BaseModel):
    hosts: list[str] = Field(default=[], description="Further values of the Host header that are accepted.")
    tokens: dict[str, TokenPart] = Field(default={}, description="Further bearer tokens, by name.")
    bodyLimit: Bytes = Field(default=4 * 1024 * 1024, description="The largest request body, in bytes.")


class Section(BaseModel):
    """The `gateway` section; filters are declared for their variables and the schema, and layered by `rules`."""

    naming: Literal["safe", "canonical", "bare"] = Field(
        default="safe",
        description="Names on the wire: server__tool (safe), server:tool (canonical), or tool alone (bare).",
    )
    kimi: KimiPart = Field(default=KimiPart(), description="Kimi's own tools: true, false, or an object.")
    health: HealthPart = Field(default=HealthPart(), description="How connections are probed.")
    http: HttpPart = Field(default=HttpPart(), description="The HTTP endpoint.")
    maxFrame: Bytes = Field(default=64 * 1024 * 1024, description="The largest JSON-RPC frame, in bytes.")
    tools: FilterPart = Field(default=FilterPart(), description="Which server:tool anybody sees.")
    servers: GlobsPart | None = Field(
        default=None, description="Which servers anybody sees, instead of those with a tool left."
    )
    profiles: dict[str, ProfilePart] = Field(
        default={}, description="Named filters, for serve --profile and for tokens."
    )


class Settings(BaseSettings, Section):  # pyright: ignore[reportIncompatibleVariableOverride] - of model_config
    """The section of all layers together."""

    model_config = SettingsConfigDict(
        extra="ignore", env_prefix=PREFIX, env_nested_delimiter="__", env_ignore_empty=True
    )

    @classmethod
    def of(cls, *layers: dict[str, Any]) -> Settings:
        """Settings from layers, the strongest first."""
        # The only way in for values is the keyword arguments, which the sources below then take apart.
        given: dict[str, Any] = {"layers": layers}
        return cls(**given)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given = cast("dict[str, Any]", cast("Any", init_settings).init_kwargs)
        return tuple(InitSettingsSource(settings_cls, layer) for layer in given["layers"])


class Variables(EnvSettingsSource):
    """The `KIMI_GATEWAY_*` variables of a given environment, as one layer."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._given = environ
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {normal(name): value for name, value in self._given.items() if value and is_ours(name)}

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        # What is no JSON stays text: the check that follows knows its place and says it better.
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value

    def layer(self) -> dict[str, Any]:
        """What the variables say; the texts `true` and `5` are by then what a file would have without quotes."""
        layer: dict[str, Any] = {}
        for key, value in self().items():
            try:
                layer |= Section.model_validate({key: value}).model_dump(exclude_unset=True)
            except ValidationError:
                layer[key] = value
        return layer

    def variable(self, path: KeyPath) -> str:
        """The variable that a value at a path like `gateway.health.interval` came from."""
        wanted = normal(PREFIX + "__".join(str(key) for key in path[1:])) + "__"
        ours = sorted(filter(is_ours, self._given), key=len, reverse=True)
        return next((name for name in ours if wanted.startswith(f"{normal(name)}__")), dotted(path))


def is_ours(name: str) -> bool:
    return name.upper().startswith(PREFIX)


def normal(name: str) -> str:
    """A variable's name as pydantic-settings looks for it; `MAX_FRAME` is as good as `MAXFRAME`."""
    keys = name.lower().removeprefix(PREFIX.lower()).split("__")
    return PREFIX.lower() + "__".join(_CAMEL.get(key.replace("_", ""), key) for key in keys)


_CAMEL = {key: key for key in ("maxframe", "bodylimit", "readonly")}


def clean(values: Mapping[str, Json], notes: Notes, path: KeyPath, *, strict: bool) -> dict[str, Any]:
    """One layer without what is wrong in it, which is noted: there the next layer's value counts."""
    rest = dict(values)
    while True:
        try:
            return Section.model_validate(rest, strict=strict).model_dump(exclude_unset=True)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
        written = rest
        for fault in faults:
            message = fault["msg"].replace("Input should be", "must be").replace("Field required", "is incomplete")
            notes.add((*path, *_written(written, fault["loc"])), message, _fix(fault["loc"]))
            rest = _without(rest, fault["loc"])


def _written(values: Json, location: KeyPath) -> KeyPath:
    """As much of a location as the file really has."""
    for depth, key in enumerate(location):
        if isinstance(values, dict) and key in values:
            values = values[str(key)]
        elif isinstance(values, list) and isinstance(key, int) and key < len(values):
            values = values[key]
        else:
            return location[:depth]
    return location


def _without(values: dict[str, Json], location: KeyPath) -> dict[str, Json]:
    """The layer less the value at a location."""
    # A token without its profile would see everything: it goes as a whole. So does a list.
    depth = 3 if location[:2] == ("http", "tokens") else len(location)
    keys = tuple(key for key in _written(values, location)[:depth] if isinstance(key, str))
    return _drop(values, keys) if keys else values


def _drop(values: dict[str, Json], keys: tuple[str, ...]) -> dict[str, Json]:
    first, rest = keys[0], keys[1:]
    below = values.get(first)
    if rest and isinstance(below, dict):
        return {**values, first: _drop(below, rest)}
    return {key: value for key, value in values.items() if key != first}


_FIXES = {
    "naming": 'Write "safe", "canonical" or "bare".',
    "kimi": 'Write true, false or {"tools": true}.',
    "hosts": 'Write ["host.example:8765"].',
    "tokens": 'Write {"name": {"token": "${CI_TOKEN}", "profile": "reviewer"}}.',
    "health": 'Write {"interval": 30, "timeout": 10, "misses": 2}.',
    "interval": "Write seconds, like 30.",
    "timeout": "Write seconds, like 10.",
    "misses": "Write a whole number, like 2.",
    "bodyLimit": "Write a number of bytes, like 4194304.",
    "maxFrame": "Write a number of bytes, like 67108864.",
    "http": 'Write {"hosts": […], "tokens": {…}, "bodyLimit": …}.',
}


def _fix(location: KeyPath) -> str:
    return next((_FIXES[key] for key in reversed(location) if isinstance(key, str) and key in _FIXES), "Correct it.")
