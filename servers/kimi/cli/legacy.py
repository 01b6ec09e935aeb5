"""Run the old generation, kimi-cli up to 1.51: print mode, the prompt on stdin beyond the limit of an argument."""

from __future__ import annotations

import tomllib
from pathlib import Path

from servers.kimi.cli.output import Said, failed, whole
from servers.kimi.cli.process import finish, started
from servers.kimi.cli.relay import Relay, watching
from servers.kimi.cli.request import Request, all_tools_told, context_size, own_home, throw_away_home

_AGENT = """version: 1
agent:
  name: reader
  system_prompt_path: ./reader.md
  tools: ["kimi_cli.tools.file:ReadFile", "kimi_cli.tools.file:Glob", "kimi_cli.tools.file:Grep"]
"""
_SYSTEM = (
    "You are a senior engineer who reads code and answers. You can read files of the working directory; you cannot "
    "change anything or run commands.\n"
)


async def ask(request: Request) -> str:
    """The whole answer.

    Raises:
        Failure: Anything less.
    """
    real = own_home(request.environ, "KIMI_SHARE_DIR", ".kimi")
    with (
        throw_away_home(real, reads_only=not request.writes) as home,
        all_tools_told(request, lambda: _tool_calls(home)) as told,
    ):
        async with watching(_address(request, real)) as relay:
            return await _print(told, home, relay)


async def _print(request: Request, home: Path, relay: Relay | None) -> str:
    argv = [request.program, "--print", "--output-format", "stream-json", "--max-retries-per-step", "1"]
    if request.alias:
        argv += ["-m", request.alias]
    if not request.writes:
        (home / "reader.md").write_text(_SYSTEM, encoding="utf-8")
        (home / "reader.yaml").write_text(_AGENT, encoding="utf-8")
        argv += ["--agent-file", str(home / "reader.yaml")]
    stdin = b""
    if request.fits_argument:
        argv += ["-p", request.prompt]
    else:
        stdin = request.prompt.encode()
    said = Said(request)
    async with started(argv, request.project, _environment(request, home, relay)) as kimi:
        code = await finish(kimi, said.line, stdin)
        if code != 0:
            raise failed(request, code, said.words(), kimi.stderr())
    # This CLI ends with 0 for half an answer too, and says so nowhere: only the API's own words tell.
    if relay:
        problem = relay.problem()
        if problem:
            raise problem
    return whole(request, said.answer(), kimi.stderr())


def _tool_calls(home: Path) -> int | None:
    """How many tools were started in the only session of a throw-away home; `None` where no journal was kept."""
    paths = list(home.glob("sessions/*/*/wire.jsonl"))
    return sum(path.read_bytes().count(b'"type": "ToolCall"') for path in paths) if paths else None


def _environment(request: Request, home: Path, relay: Relay | None) -> dict[str, str]:
    environ = {**request.environ, "KIMI_SHARE_DIR": str(home), "KIMI_CLI_NO_AUTO_UPDATE": "1"}
    # It wraps its messages to the width of a terminal, in the middle of words.
    environ["COLUMNS"] = "4000"
    if request.access:
        environ |= {"KIMI_API_KEY": request.access.key, "KIMI_MODEL_NAME": request.model}
    if relay:
        environ |= {"KIMI_BASE_URL": relay.url, **context_size(request.prompt)}
        environ["NO_PROXY"] = f"127.0.0.1,{environ.get('NO_PROXY', '')}".rstrip(",")
    return environ


def _address(request: Request, home: Path) -> str:
    """Where this run will find the model; empty where its provider is not one whose address can be set."""
    if request.access:
        return request.access.url
    try:
        config = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
        model = config["models"][request.alias or config["default_model"]]
        provider = config["providers"][model["provider"]]
        if provider["type"] != "kimi":
            return ""
        return (request.environ.get("KIMI_BASE_URL") or str(provider["base_url"])).rstrip("/")
    except (OSError, ValueError, LookupError, TypeError):
        return ""
