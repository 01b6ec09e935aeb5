"""Remember which parts of a project's file the user has seen and allowed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from configs.files import alone, data_directory
from configs.files import replace as replace_file
from configs.models import Claim

EVERYTHING = "KIMI_GATEWAY_TRUST_PROJECT"
"""Set to 1, every project is trusted: for machines that run nothing but what they were given, like CI."""
FORMAT = 1
_VALUES = ("env", "headers")
"""Keys whose values may be secrets: the record keeps their digests."""

Record: TypeAlias = dict[str, object]


def record_file(home: Path, environ: Mapping[str, str]) -> Path:
    return data_directory(home, environ) / "trust.json"


class Trust:
    """The record as it stands: projects by their real path, in each what was allowed by kind and name."""

    def __init__(
        self, projects: Mapping[str, Mapping[str, Record]], *, everything: bool = False, fault: str = ""
    ) -> None:
        self.projects = projects
        self.fault = fault
        """Why the record could not be read: then nothing is trusted."""
        self._everything = everything

    def judge(self, claim: Claim) -> Claim:
        """The claim with the user's answer to it."""
        if self._everything:
            return replace(claim, trusted=True)
        record = self.projects.get(claim.project, {}).get(key(claim))
        if record is None:
            return claim
        if record.get("hash") in _acceptable(claim):
            return replace(claim, trusted=True)
        return replace(claim, changes=tuple(_differences(record, describe(claim))))


def read(file: Path, environ: Mapping[str, str]) -> Trust:
    """The record in a file; none there is none given."""
    everything = environ.get(EVERYTHING, "").lower() in ("1", "true", "yes")
    try:
        about = file.stat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            return Trust({}, everything=everything, fault="others may write to it. Run `chmod 600` on it.")
        return Trust(_checked(json.loads(file.read_bytes())), everything=everything)
    except (FileNotFoundError, NotADirectoryError):
        return Trust({}, everything=everything)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        return Trust({}, everything=everything, fault=f"{reason}. Remove it and trust again.")


def grant(file: Path, claims: Iterable[Claim]) -> None:
    """Record that the user allows these."""
    with _editing(file) as projects:
        for claim in claims:
            projects.setdefault(claim.project, {})[key(claim)] = {"hash": digest(claim), **describe(claim)}
        _write(file, projects)


def revoke(file: Path, project: str, keys: Iterable[str] | None = None) -> int:
    """Forget what was allowed in a project, or some of it; says how much that was."""
    if not file.exists():
        return 0
    with _editing(file) as projects:
        known = projects.get(project, {})
        gone = [one for one in (known if keys is None else keys) if one in known]
        projects[project] = {name: record for name, record in known.items() if name not in gone}
        if gone:
            _write(file, {path: records for path, records in projects.items() if records})
    return len(gone)


def key(claim: Claim) -> str:
    """Under what a claim is recorded."""
    return f"{claim.kind}:{claim.name}"


def digest(claim: Claim, executable: str | None = None) -> str:
    """What must not change for an answer to hold."""
    meant = {
        "kind": claim.kind,
        "project": claim.project,
        "transport": claim.transport,
        "executable": claim.executable if executable is None else executable,
        "written": claim.written,
    }
    canonical = json.dumps(meant, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def describe(claim: Claim) -> Record:
    """What is kept to say later what has changed; values that may be secrets only as digests."""
    kept: Record = {"transport": claim.transport, "executable": claim.executable}
    for name, value in claim.written.items():
        if name in _VALUES and isinstance(value, dict):
            members = cast("dict[str, object]", value)
            kept[name] = {one: hashlib.sha256(json.dumps(text).encode()).hexdigest() for one, text in members.items()}
        else:
            kept[name] = value
    return kept


def _acceptable(claim: Claim) -> tuple[str, ...]:
    """What may stand in the record: the claim as it is, or from before its program was installed."""
    inside = claim.executable.startswith(os.path.join(claim.project, ""))  # noqa: PTH118 - a prefix, no path
    return (digest(claim),) if inside else (digest(claim), digest(claim, executable=""))


def _differences(before: Record, now: Record) -> Iterator[str]:
    for name in sorted({*before, *now} - {"hash", *_VALUES}):
        if before.get(name) != now.get(name):
            yield f"{name} was {_shown(before.get(name))}, is {_shown(now.get(name))}"
    for name in _VALUES:
        old, new = _members(before.get(name)), _members(now.get(name))
        for one in sorted({*old, *new}):
            if old.get(one) != new.get(one):
                yield f"{name}.{one} is {'new' if one not in old else 'gone' if one not in new else 'changed'}"


def _members(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    if value in (None, ""):
        return "not there"
    readable = json.dumps(value, ensure_ascii=False)
    # What a terminal would act on, or show in another order, is spelled out.
    return readable if readable.isprintable() else json.dumps(value)


def _checked(found: Any) -> dict[str, dict[str, Record]]:
    if found["format"] != FORMAT:
        return {}
    return {
        str(project): {str(name): dict(record) for name, record in records.items()}
        for project, records in found["projects"].items()
    }


@contextlib.contextmanager
def _editing(file: Path) -> Generator[dict[str, dict[str, Record]]]:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with alone(file):
        yield {path: dict(records) for path, records in read(file, {}).projects.items()}


def _write(file: Path, projects: Mapping[str, Mapping[str, Record]]) -> None:
    text = json.dumps({"format": FORMAT, "projects": projects}, indent=2, sort_keys=True)
    replace_file(file, f"{text}\n".encode(), mode=0o600)
