"""Read everything that configures a gateway into one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from configs import checks, claims, trust
from configs.document import Document, Fault, Json, KeyPath, read
from configs.entries import Layer
from configs.locate import Places, find, kode_project_key
from configs.merge import Surroundings, servers
from configs.models import Claim, Config, Problem, Scope, Source
from configs.notes import Notes
from configs.section import SECTION, Part, read_gateway

SERVERS = "mcpServers"
PROJECTS = "projects"


def load(project: Path | None = None, *, cwd: Path, home: Path, environ: Mapping[str, str]) -> Config:
    """The configuration for a working directory, or for `project`; what is wrong in it is part of the answer."""
    places = find(project, cwd=cwd, home=home)
    personal = _open(places.personal)
    shared = _open(places.project_file)
    record = trust.record_file(home, environ)
    trusted = trust.read(record, environ) if shared.values else trust.Trust({})
    asked: list[Claim] = []
    section = claims.allowed_settings(_section(shared, "project"), places.project, trusted.judge, asked)
    gateway = read_gateway(_section(personal, "global"), section, environ)
    around = Surroundings(home, environ, gateway.health, gateway.kimi.enabled, trusted.judge, asked)
    upstreams = servers(_layers(personal, shared, places), around)
    claims.report(asked, shared.notes, f"{record}: {trusted.fault}" if trusted.fault else "")
    opened = (gateway.notes, personal.notes, shared.notes)
    return Config(
        places.project,
        (*places.files, record),
        upstreams,
        rules=gateway.rules,
        profiles=gateway.profiles,
        naming=gateway.naming,
        kimi=gateway.kimi,
        health=gateway.health,
        http=gateway.http,
        frame_limit=gateway.frame_limit,
        claims=tuple(asked),
        problems=tuple(problem for notes in opened for problem in sorted(notes.problems, key=_by_place)),
        broken=tuple(file.path for file in (personal, shared) if file.broken and file.path),
    )


class _File(NamedTuple):
    """A file that was looked at."""

    path: Path | None
    values: dict[str, Json]
    notes: Notes
    broken: bool = False

    def section(self, path: KeyPath) -> dict[str, Json]:
        """The object at a path; empty where there is none, or something else in its place."""
        found: Json = self.values
        for depth, key in enumerate(path):
            if not isinstance(found, dict) or key not in found:
                return {}
            found = self.notes.check(checks.mapping, found[str(key)], path[: depth + 1])
        return found if isinstance(found, dict) else {}


def _open(path: Path | None) -> _File:
    document: Document | None = None
    try:
        document = read(path) if path else None
    except Fault as fault:
        notes = Notes(path, None)
        notes.problems.append(Problem(path, fault.place.line, fault.place.column, "", fault.message, fault.fix))
        return _File(path, {}, notes, broken=True)
    return _File(path, document.value if document else {}, Notes(path, document))


def _section(file: _File, scope: Scope) -> Part | None:
    values = file.section(SECTION)
    if not values:
        return None
    file.notes.duplicates(SECTION)
    return Part(Source(file.path, scope), file.notes, values)


def _layers(personal: _File, shared: _File, places: Places) -> list[Layer]:
    """The servers of the user's file, of its part for this project, and of the project's file, in that order."""
    layers: list[Layer] = []

    def add(file: _File, scope: Scope, path: KeyPath) -> None:
        if file.path:
            entries = file.section(path)
            if entries:
                file.notes.duplicates(path)
            layers.append(Layer(scope, file.path, file.notes, path, entries, places.project))

    add(personal, "global", (SERVERS,))
    if key := kode_project_key(personal.section((PROJECTS,)), places.project):
        add(personal, "kode-project", (PROJECTS, key, SERVERS))
    add(shared, "project", (SERVERS,))
    return layers


def _by_place(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column
