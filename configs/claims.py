"""Tell what a project's file asks for that needs the user's word, and what of it is taken without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from configs import executables
from configs.document import Json
from configs.entries import LAUNCH_KEYS, Entry, HealthPart
from configs.models import Claim
from configs.notes import Notes
from configs.section import SECTION, Part
from configs.variables import names

COMMAND = "kimi-gateway trust"
ADVICE = f"Run `{COMMAND}` to see what it asks for and allow it."
_WIDENING = ("enabled", "timeout", "timeouts", "health")


def server(entry: Entry, overrides: str, environ: Mapping[str, str]) -> Claim:
    """The claim of an entry that starts or dials a server of its own."""
    base = entry.layer.base
    cwd = os.path.normpath(base / entry.cwd) if entry.cwd and not names(entry.cwd) else entry.cwd or str(base)
    path = entry.env.get("PATH", environ.get("PATH"))
    return Claim(
        "server",
        entry.name,
        os.path.realpath(base),
        entry.layer.source,
        transport=str(entry.transport),
        written=_written(entry, LAUNCH_KEYS),
        executable=executables.find(entry.command, path=path, directory=Path(cwd)),
        cwd=cwd,
        enabled=entry.enabled is not False,
        overrides=overrides,
    )


def overlay(entry: Entry) -> Claim:
    """The claim of an entry that changes a server of the user's."""
    return Claim(
        "overlay",
        entry.name,
        os.path.realpath(entry.layer.base),
        entry.layer.source,
        written=_written(entry, _WIDENING),
    )


def narrowed(entry: Entry, enabled: bool, timeout: float) -> Entry:
    """Of an overlay only what takes away from a server that is so enabled and has so much time."""
    shorter = entry.timeout if entry.timeout is not None and entry.timeout <= timeout else None
    bound = shorter or timeout
    timeouts = {tool: limit for tool, limit in (entry.timeouts or {}).items() if limit <= bound}
    return entry._replace(
        enabled=entry.enabled if enabled or not entry.enabled else None,
        timeout=shorter,
        timeouts=timeouts if entry.timeouts is not None else None,
        health=HealthPart(),
    )


def refusal(claim: Claim) -> str:
    """Why a server of an untrusted entry is not started, in the words of its state."""
    if claim.changes:
        changed = "; ".join(claim.changes)
        return f"untrusted: its entry in {claim.source} changed since you trusted it ({changed}). Run `{COMMAND}`."
    return f"untrusted: {claim.source} comes with the project. Run `{COMMAND}` to see what it would start."


def allowed_settings(
    part: Part | None, project: Path, judge: Callable[[Claim], Claim], asked: list[Claim]
) -> Part | None:
    """A project's `gateway` section; untrusted, only its filters and that it wants no Kimi."""
    if part is None or (part.settings.keys() <= {"kimi"} and _no_kimi(part.values.get("kimi", False))):
        return part
    claim = judge(Claim("settings", "gateway", os.path.realpath(project), part.source, written=part.settings))
    asked.append(claim)
    if claim.trusted:
        return part
    kept = {key: value for key, value in part.values.items() if key not in part.settings}
    if _no_kimi(part.values.get("kimi")):
        kept["kimi"] = False
    return part._replace(values=kept)


def report(asked: Iterable[Claim], notes: Notes, fault: str) -> None:
    """One problem for all that is not trusted: what it is and what to do."""
    waiting = [claim for claim in asked if claim.enabled and not claim.trusted]
    if not waiting:
        return
    if fault:
        why, _, fix = fault.rpartition(". ")
        notes.add((), f"the record of what you trust is not used: {why}", fix)
    first = next((claim for claim in waiting if claim.kind != "settings"), None)
    path = ("mcpServers", first.name) if first else SECTION
    words: list[str] = []
    started = [claim.name for claim in waiting if claim.kind == "server"]
    changed = [claim.name for claim in waiting if claim.kind == "overlay"]
    if started:
        words.append(f"not started: {', '.join(started)}")
    if changed:
        words.append(f"only narrowed: {', '.join(changed)}")
    if any(claim.kind == "settings" for claim in waiting):
        words.append("its gateway settings are not taken")
    message = f"this project is not trusted ({'; '.join(words)})"
    notes.add(path, message, ADVICE, at_key=True)


def variables(claim: Claim) -> tuple[str, ...]:
    """The variables of the user's environment that it would read, by name."""
    return tuple(sorted(set(_names(claim.written))))


def _names(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from names(value)
    elif isinstance(value, Mapping):
        for member in cast("Mapping[str, object]", value).values():
            yield from _names(member)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _names(item)


def _written(entry: Entry, keys: Iterable[str]) -> dict[str, object]:
    value: Json = entry.layer.entries[entry.name]
    return {key: value[key] for key in keys if key in value} if isinstance(value, dict) else {}


def _no_kimi(value: Json) -> bool:
    return value is False or (isinstance(value, dict) and value == {"enabled": False})
