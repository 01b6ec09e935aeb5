"""Find a Kimi CLI that works and tell which generation it is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from servers.kimi.cli.process import finish, started
from servers.kimi.failure import Failure, Kind

Generation = Literal["code", "legacy"]
"""`code`: npm @moonshot-ai/kimi-code. `legacy`: PyPI kimi-cli up to 1.51."""
PROBE_SECONDS = 20
_VERSION = re.compile(
    r"^(?P<named>kimi[\w-]*,? (?:version )?)?v?(?P<version>(?P<major>\d+)\.\d+\.\d+\S*)\s*$", re.MULTILINE
)
"""The old generation, which ended with 1.52, puts its name before the number, the new one does not."""


@dataclass(frozen=True, slots=True)
class Cli:
    path: str
    version: str
    generation: Generation


@dataclass(frozen=True, slots=True)
class Unusable:
    """A `kimi` that cannot be used, and why."""

    path: str
    kind: Kind
    why: str


def judge(path: str, code: int, output: str) -> Cli | Unusable:
    """What the output of `kimi --version` says about that program. Pure."""
    text = output.strip()
    if "no longer maintained" in text:
        return Unusable(
            path, "cli_unsupported", f"{path} is the last, empty release of kimi-cli (no longer maintained)"
        )
    said = _VERSION.search(text)
    if said and code == 0:
        return Cli(path, said["version"], "legacy" if said["named"] and int(said["major"]) < 2 else "code")
    shown = text.splitlines()[-1][:200] if text else "nothing"
    return Unusable(path, "cli_unsupported", f"{path} --version ended with {code} and said: {shown}")


def candidates(environ: Mapping[str, str]) -> list[str]:
    """Every `kimi` on PATH in order; a relative entry would let a project bring its own."""
    found: list[str] = []
    for directory in environ.get("PATH", "").split(os.pathsep):
        path = Path(directory, "kimi")
        if Path(directory).is_absolute() and path.is_file() and os.access(path, os.X_OK):
            found.append(str(path))
    return list(dict.fromkeys(found))


class Finder:
    """Remembers what it probed until the program changes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[tuple[str, int, int], Cli | Unusable] = {}

    async def find(self) -> Cli:
        """The first `kimi` on PATH that works.

        Raises:
            Failure: `cli_missing` or `cli_unsupported`.
        """
        first: Unusable | None = None
        for path in candidates(self._environ):
            verdict = await self._probe(path)
            if isinstance(verdict, Cli):
                return verdict
            first = first or verdict
        if first is not None:
            raise Failure(first.kind, first.why)
        raise Failure("cli_missing", "there is no `kimi` on PATH")

    async def _probe(self, path: str) -> Cli | Unusable:
        status = os.stat(path)  # noqa: PTH116
        key = (path, status.st_mtime_ns, status.st_size)
        if key not in self._known:
            verdict = await self._ask(path)
            if isinstance(verdict, Unusable):
                return verdict
            self._known[key] = verdict
        return self._known[key]

    async def _ask(self, path: str) -> Cli | Unusable:
        # Never without an argument: the last release of kimi-cli would run an installer.
        environ = {**self._environ, "KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_CLI_NO_AUTO_UPDATE": "1"}
        said: list[bytes] = []
        try:
            with anyio.fail_after(PROBE_SECONDS):
                async with started([path, "--version"], Path.cwd(), environ) as kimi:
                    code = await finish(kimi, said.append)
        except TimeoutError:
            return Unusable(path, "cli_unsupported", f"{path} --version did not answer within {PROBE_SECONDS} s")
        except Failure as failure:
            return Unusable(path, failure.kind, failure.words)
        return judge(path, code, b"\n".join((*said, kimi.errors)).decode("utf-8", "replace"))
