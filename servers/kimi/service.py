"""Answer one call of one of Kimi's tools, from its arguments to its text."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from configs.kimi import KimiSettings
from servers.kimi.activity import Activity
from servers.kimi.api import Api, from_environment
from servers.kimi.arguments import Job, read
from servers.kimi.changes import Changes
from servers.kimi.cli import code, legacy
from servers.kimi.cli.installed import Cli, Finder
from servers.kimi.cli.request import Request
from servers.kimi.failure import GET_CLI, KEYS, Failure
from servers.kimi.files import Source, read_all
from servers.kimi.prompts import frame
from servers.kimi.turns import Turns

Roots = Callable[[], Awaitable[tuple[Path, ...]]]
"""The directories the client allows; none means the project directory."""

NOTHING_CHANGED = (
    f"No file was changed: this is a proposal. To have Kimi make changes itself, install its CLI: {GET_CLI}."
)


class Service:
    """Kimi for one project and one client."""

    def __init__(self, settings: KimiSettings, environ: Mapping[str, str], project: Path) -> None:
        self.settings = settings
        self._environ = environ
        self._project = project
        self._access = from_environment(environ)
        self._finder = Finder(environ)
        self._turns = Turns(settings.concurrency)
        self._api: Api | None = None

    async def close(self) -> None:
        if self._api:
            await self._api.close()

    async def call(self, name: str, arguments: Mapping[str, Any] | None, roots: Roots, activity: Activity) -> str:
        """The text of the answer.

        Raises:
            Failure: There is none.
        """
        job = read(name, arguments, self.settings)
        notes: list[str] = []
        # Its place is taken before anything is waited for: calls are served in the order they came.
        async with self._turns.turn(writes=job.writes) as turn:
            allowed = await roots() if job.files else ()
            # Now, so that a bad file or too long a prompt does not have to wait its turn to be refused.
            frame(job, await self._sources(job, allowed), "writes", self.settings.roles)
            await turn()
            activity.running = True
            try:
                with anyio.fail_after(job.timeout):
                    return await self._answer(job, allowed, activity, notes)
            except TimeoutError:
                failure = Failure("timeout", f"Kimi did not finish within {job.timeout:g} s and was stopped")
            except Failure as error:
                failure = error
        raise failure.but("\n".join(notes))

    async def _answer(self, job: Job, allowed: tuple[Path, ...], activity: Activity, notes: list[str]) -> str:
        backend = await self._backend()
        # Read again: a call before this one may have changed them.
        sources = await self._sources(job, allowed)
        if isinstance(backend, Api):
            return await self._propose(backend, job, sources, activity)
        if job.writes:
            return await self._change(backend, job, sources, activity, notes)
        prompt = frame(job, sources, "reads", self.settings.roles)
        return await self._run(backend, self._request(backend, job, prompt, activity))

    async def _sources(self, job: Job, allowed: tuple[Path, ...]) -> tuple[Source, ...]:
        limit = self.settings.max_file_size
        return await to_thread.run_sync(read_all, job.files, self._project, allowed, limit)

    async def _backend(self) -> Cli | Api:
        """The CLI or the API, as the settings and what is there decide."""
        wanted = self.settings.backend
        if wanted == "api":
            return self._open_api()
        try:
            return await self._finder.find()
        except Failure as failure:
            if wanted == "auto" and self._access:
                return self._open_api()
            raise failure from None

    def _open_api(self) -> Api:
        if self._access is None:
            raise Failure("auth", f"backend is api, and there is no key: {KEYS} is unset or empty")
        if self._api is None:
            self._api = Api(self._access)
        return self._api

    async def _propose(self, api: Api, job: Job, sources: tuple[Source, ...], activity: Activity) -> str:
        prompt = frame(job, sources, "text", self.settings.roles)
        text = await api.ask(prompt, self.settings.resolve(job.model), activity)
        return f"{text}\n\n{NOTHING_CHANGED}" if job.writes else text

    def _request(self, cli: Cli, job: Job, prompt: str, activity: Activity) -> Request:
        model = self.settings.resolve(job.model) if self._access or job.model_chosen else ""
        return Request(
            program=cli.path,
            prompt=prompt,
            project=self._project,
            environ=self._environ,
            access=self._access,
            model=model,
            writes=job.writes,
            activity=activity,
        )

    async def _run(self, cli: Cli, request: Request) -> str:
        return await (code.ask(request) if cli.generation == "code" else legacy.ask(request))

    async def _change(
        self, cli: Cli, job: Job, sources: tuple[Source, ...], activity: Activity, notes: list[str]
    ) -> str:
        """A run that edits files: it ends with their list, or as if it had not been where that was asked."""
        prompt = frame(job, sources, "writes", self.settings.roles)
        with ExitStack() as stack:
            safe = job.tool == "refactor" and job.safety_checks
            backup = stack.enter_context(tempfile.TemporaryDirectory(prefix="kimi-gateway-")) if safe else None
            changes = await to_thread.run_sync(Changes, self._project, Path(backup) if backup else None)
            try:
                request = self._request(cli, job, prompt, activity)
                followed = replace(request, tool_ended=changes.tool_ended)
                text = await self._run(cli, followed)
            except (Failure, anyio.get_cancelled_exc_class()):
                with anyio.CancelScope(shield=True):
                    notes.append(await to_thread.run_sync(_aftermath, changes, safe))
                raise
            changed = await to_thread.run_sync(changes.finish)
        return f"{text}\n\n{_listed(changed)}"


def _aftermath(changes: Changes, safe: bool) -> str:
    if safe:
        return str(changes.put_back())
    changed = changes.finish()
    return f"Files it had changed by then: {', '.join(changed)}." if changed else "No file was changed."


def _listed(changed: list[str]) -> str:
    if not changed:
        return "Files changed: none."
    return "\n".join(["Files changed:", *(f"- {name}" for name in changed)])
