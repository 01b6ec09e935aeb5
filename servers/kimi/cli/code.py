"""Run the new generation, Kimi Code: print mode for prompts that fit an argument, ACP beyond."""

from __future__ import annotations

import uuid
from pathlib import Path

from servers.kimi.cli import acp, journal
from servers.kimi.cli.output import Said, failed, whole
from servers.kimi.cli.process import finish, started
from servers.kimi.cli.request import Request, all_tools_told, context_size, own_home, throw_away_home

_AGENT = """---
name: {name}
description: Reads and answers; changes nothing.
override: true
tools: [Read, Grep, Glob]
---
You are a senior engineer who reads code and answers. You can read files of the working directory; you cannot change
anything or run commands.
"""


async def ask(request: Request) -> str:
    """The whole answer.

    Raises:
        Failure: Anything less.
    """
    real = own_home(request.environ, "KIMI_CODE_HOME", ".kimi-code")
    with (
        throw_away_home(real, reads_only=not request.writes) as home,
        all_tools_told(request, lambda: journal.tool_calls(home)) as told,
    ):
        return await (_print(told, home) if request.fits_argument else _converse(told, home))


async def _print(request: Request, home: Path) -> str:
    argv = [request.program, "-p", request.prompt, "--output-format", "stream-json"]
    if request.alias:
        argv += ["-m", request.alias]
    if not request.writes:
        # A name nobody can guess: an agent file of the project cannot take its place.
        name = f"reader-{uuid.uuid4().hex}"
        agent = home / f"{name}.md"
        agent.write_text(_AGENT.format(name=name), encoding="utf-8")
        argv += ["--agent-file", str(agent)]
    said = Said(request)
    async with started(argv, request.project, _environment(request, home)) as kimi:
        code = await finish(kimi, said.line)
        if code != 0:
            raise failed(request, code, kimi.stderr(), said.words())
    return _whole(request, journal.read(home), said.answer(), kimi.stderr())


async def _converse(request: Request, home: Path) -> str:
    if not request.writes:
        # ACP knows no agent file: the default agent is replaced, and every permission asked for is refused.
        agents = home / "agents"
        agents.mkdir()
        (agents / "agent.md").write_text(_AGENT.format(name="agent"), encoding="utf-8")
    async with started([request.program, "acp"], request.project, _environment(request, home)) as kimi:
        streamed = await acp.converse(kimi, request)
    return _whole(request, journal.read(home), streamed, kimi.stderr())


def _whole(request: Request, ending: journal.Ending, streamed: str, stderr: str) -> str:
    problem = ending.problem()
    if problem:
        raise problem
    return whole(request, ending.text or streamed, stderr)


def _environment(request: Request, home: Path) -> dict[str, str]:
    environ = {
        **request.environ,
        "KIMI_CODE_HOME": str(home),
        "KIMI_DISABLE_TELEMETRY": "1",
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
        # Fail fast: the caller retries, and the time limit is ours to keep.
        "KIMI_LOOP_MAX_ATTEMPTS_PER_STEP": "1",
        "KIMI_CODE_INFINITE_RETRY": "0",
    }
    if request.access:
        environ |= {
            "KIMI_MODEL_BASE_URL": request.access.url,
            "KIMI_MODEL_API_KEY": request.access.key,
            "KIMI_MODEL_NAME": request.model,
        }
    if environ.get("KIMI_MODEL_NAME"):
        environ["KIMI_MODEL_NAME"] = request.model or environ["KIMI_MODEL_NAME"]
        environ |= context_size(request.prompt)
    return environ
