"""Lay the `gateway` sections of all layers over each other."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from configs.document import Json, KeyPath
from configs.models import Health, Http, HttpToken, Kimi, Naming, Rules, Source
from configs.notes import Notes
from configs.rules import read_profiles, read_rules
from configs.variables import Unset, expand

if TYPE_CHECKING:
    from configs.settings import Settings

SECTION: KeyPath = ("gateway",)
_FILTERS = ("tools", "servers", "profiles")
# The gateway's own variables that are no settings.
OTHER_VARIABLES = {"KIMI_GATEWAY_TOKEN", "KIMI_GATEWAY_DEBUG", "KIMI_GATEWAY_TRUST_PROJECT"}


class Part(NamedTuple):
    """One layer's `gateway` section."""

    source: Source
    notes: Notes
    values: Mapping[str, Json]

    @property
    def settings(self) -> dict[str, Json]:
        return {key: value for key, value in self.values.items() if key not in _FILTERS}


class Gateway(NamedTuple):
    """What the `gateway` section means once all layers are heard."""

    notes: Notes
    """What is wrong in the environment."""
    rules: tuple[Rules, ...]
    profiles: Mapping[str, tuple[Rules, ...]]
    naming: Naming = "safe"
    kimi: Kimi = Kimi()
    health: Health = Health()
    http: Http = Http()
    frame_limit: int = 64 * 1024 * 1024


def read_gateway(personal: Part | None, project: Part | None, environ: Mapping[str, str]) -> Gateway:
    """The section of both files and the environment: settings replace each other, filters add up."""
    variables = _from_environment(environ)
    layers = [part for part in (personal, project, variables) if part]
    rules = tuple(found for part in layers if (found := read_rules(part.notes, part.source, SECTION, {**part.values})))
    profiles: dict[str, tuple[Rules, ...]] = {}
    for part in (part for part in layers if "profiles" in part.values):
        path = (*SECTION, "profiles")
        for name, found in read_profiles(part.notes, part.source, path, part.values["profiles"]).items():
            profiles[name] = (*profiles.get(name, ()), found)
    notes = variables.notes if variables else Notes(None, None)
    if not any(part.settings for part in layers):
        return Gateway(notes, rules, profiles)
    settings = _layered(variables, project, personal)
    return Gateway(
        notes,
        rules,
        profiles,
        settings.naming,
        Kimi(settings.kimi.enabled, settings.kimi.tools),
        Health(settings.health.interval, settings.health.timeout, settings.health.misses),
        Http(tuple(settings.http.hosts), _tokens(settings, layers, environ, profiles), settings.http.bodyLimit),
        settings.maxFrame,
    )


def _from_environment(environ: Mapping[str, str]) -> Part | None:
    ours = {name for name in environ if name.upper().startswith("KIMI_GATEWAY_")} - OTHER_VARIABLES
    if not ours:
        return None
    from configs.settings import Variables

    variables = Variables({name: environ[name] for name in ours})
    notes = Notes(None, None, variables.variable)
    return Part(Source(None, "environment"), notes, variables.layer())


def _layered(variables: Part | None, project: Part | None, personal: Part | None) -> Settings:
    # Costs more than all else here together, so only those pay who have settings at all.
    from configs.settings import Settings, clean

    layers = (part for part in (variables, project, personal) if part)
    return Settings.of(*(clean(part.settings, part.notes, SECTION, strict=part is not variables) for part in layers))


def _tokens(
    settings: Settings, layers: Sequence[Part], environ: Mapping[str, str], profiles: Container[str]
) -> tuple[HttpToken, ...]:
    """The HTTP tokens, variables expanded; one that cannot be told is left out."""
    tokens: list[HttpToken] = []

    def note(path: KeyPath, message: str, fix: str) -> None:
        part = next(part for part in reversed(layers) if _has(part.values, path))
        part.notes.add((*SECTION, *path), message, fix)

    for name, written in sorted(settings.http.tokens.items()):
        path = ("http", "tokens", name)
        if written.profile is not None and written.profile not in profiles:
            message = f'there is no profile "{written.profile}", so this token opens nothing'
            note((*path, "profile"), message, "Add the profile, or name one that is there.")
        try:
            token = expand(written.token, environ).text
        except Unset as unset:
            message, fix = f"the variable {unset.variable} is not set", f"Set {unset.variable}, or remove the token."
        else:
            if token.strip():
                tokens.append(HttpToken(name, token, written.profile))
                continue
            message, fix = "is empty", "An empty token would let everybody in: write one."
        note((*path, "token"), message, fix)
    return tuple(tokens)


def _has(values: Json | Mapping[str, Json], path: KeyPath) -> bool:
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[str(key)]
    return True
