"""The grammar of the command line; each command's own code is imported only when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import traceback
from pathlib import Path
from typing import NoReturn, cast

from gateway import __version__
from gateway.cli import setup
from gateway.cli.screen import complain
from gateway.cli.usage import Failed, Usage

DEBUG = "KIMI_GATEWAY_DEBUG"
WIDTH = 100
COLUMN = 20
EXIT_CODES = "exit codes: 0 all well, 1 it failed, 2 wrong usage, 130 interrupted"
CALL_CODES = """exit codes:
  0  the tool answered
  1  it said that it failed, or could not be reached
  2  there is no such tool, or the arguments cannot be read
  130  interrupted; the server was told to cancel"""


class Format(argparse.RawDescriptionHelpFormatter):
    """Help whose columns stand where they stand in every version of Python, and in the docs."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH))
        self._action_max_length = COLUMN

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Grammar(argparse.ArgumentParser):
    """A parser whose complaints are two lines."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry `{self.prog} --help`.\n")


def parser() -> argparse.ArgumentParser:
    top = Grammar(
        prog="kimi-gateway",
        description="One MCP endpoint in front of many MCP servers, and Kimi behind the same door.",
        epilog=f"Servers are configured in ~/.kode.json and in the project's ./.kode.json,\nproject over global.\n\n"
        f"examples:\n  kimi-gateway tools --demo\n  kimi-gateway call --demo demo:add a=1 b=2\n\n{EXIT_CODES}\n"
        f"{DEBUG}=1 shows where an error came from.",
        formatter_class=Format,
    )
    top.add_argument("--version", action="version", version=f"kimi-gateway {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, help: str, *examples: str, notes: str = "") -> argparse.ArgumentParser:
        shown = "".join(f"\n  {example}" for example in examples)
        return commands.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"{'examples' if len(examples) > 1 else 'example'}:{shown}" + (f"\n\n{notes}" if notes else ""),
            formatter_class=Format,
        )

    serve = command(
        "serve", "serve all configured servers as one, over stdio or HTTP", "kimi-gateway serve --profile reviewer"
    )
    serve.add_argument(
        "--http",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="serve any number of clients over HTTP; default 127.0.0.1:8765, at /mcp",
    )
    serve.add_argument("--no-auth", action="store_true", help="with --http on this machine only: ask for no token")
    serve.add_argument("--profile", metavar="NAME", help="show only what this profile of the configuration allows")
    _common(serve)

    command("kimi", "serve only Kimi's four tools, over stdio", "claude mcp add kimi -- kimi-gateway kimi")

    status = command("status", "show every server and how it is", "kimi-gateway status", "kimi-gateway status --json")
    status.add_argument("--json", action="store_true", help="print JSON")
    _common(status)

    tools = command(
        "tools",
        "list the registry: every tool of every server",
        "kimi-gateway tools",
        "kimi-gateway tools 'github:get_*'",
        "kimi-gateway tools --profile reviewer --tokens",
    )
    tools.add_argument(
        "pattern", nargs="?", metavar="PATTERN", help="a server, or a glob over names: shows these tools in full"
    )
    tools.add_argument("--json", action="store_true", help="print JSON")
    tools.add_argument("--all", action="store_true", help="show hidden tools too, and the rule that hides each")
    tools.add_argument("--tokens", action="store_true", help="estimate what the listing costs a model's context")
    tools.add_argument("--profile", metavar="NAME", help="as this profile sees it")
    _common(tools)

    call = command(
        "call",
        "call one tool",
        "kimi-gateway call --demo demo:add a=1 b=2",
        """kimi-gateway call --demo demo:echo '{"text": "hello"}'""",
        notes=CALL_CODES,
    )
    call.add_argument("tool", metavar="SERVER:TOOL", help="the tool's name, as `kimi-gateway tools` lists it")
    call.add_argument(
        "arguments",
        nargs="*",
        default=[],  # else argparse would call them required
        metavar="JSON | key=value",
        help="the tool's arguments, read as its schema says; a key given twice is a list",
    )
    call.add_argument("--json", action="store_true", help="print the whole result as JSON")
    call.add_argument(
        "--output", metavar="DIR", type=Path, help="where images, audio and files go; default: a new temporary one"
    )
    _common(call)

    setup.add_commands(command)

    doctor = command("doctor", "find what is wrong and say what to do", "kimi-gateway doctor")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    _common(doctor)

    completion = command(
        "completion",
        "print a completion script for a shell",
        'eval "$(kimi-gateway completion bash)"       # in ~/.bashrc',
        'eval "$(kimi-gateway completion zsh)"        # in ~/.zshrc, after compinit',
        "kimi-gateway completion fish | source        # in ~/.config/fish/config.fish",
    )
    completion.add_argument("shell", nargs="?", choices=("bash", "zsh", "fish"), help="the shell to print it for")
    completion.add_argument("--names", choices=("servers", "tools", "profiles"), help=argparse.SUPPRESS)
    completion.add_argument("--project", type=Path, help=argparse.SUPPRESS)
    return top


def _common(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--project", metavar="DIR", type=Path, help="the project directory; default: found from here upward"
    )
    sub.add_argument("--demo", action="store_true", help="add the bundled demo server")


def parse(arguments: list[str]) -> int:
    """Run what the arguments say; the exit code."""
    try:
        grammar = parser()
        _check_command(grammar, arguments)
        own, words = setup.arrange(arguments)
        options = grammar.parse_args(own, argparse.Namespace(module=None, words=words))
        _check_directory()
        return importlib.import_module(f"gateway.cli.{options.module or options.command}").run(options)
    except BrokenPipeError:
        raise
    except Usage as error:
        complain(f"kimi-gateway: {error}")
        return 2
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
            return 1
        cause = _leaf(error)
        hint = "" if isinstance(cause, Failed) else f" (set {DEBUG}=1 for details)"
        complain(f"kimi-gateway: {_words(cause)}{hint}")
        return 1


def _check_directory() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise Failed("the directory you are in is gone. Change to one that exists.") from None


def _words(cause: Exception) -> str:
    if isinstance(cause, OSError) and cause.filename and cause.strerror:
        return f"{cause.filename}: {cause.strerror.lower()}"
    return str(cause) or type(cause).__name__


def _check_command(grammar: argparse.ArgumentParser, arguments: list[str]) -> None:
    """A command that does not exist is answered with the nearest there is."""
    if not arguments or arguments[0].startswith("-"):
        return
    from gateway.cli.nearest import did_you_mean

    known = commands_of(grammar)
    if arguments[0] not in known:
        hint = did_you_mean(arguments[0], known, "`kimi-gateway --help` lists all there are.")
        raise Usage(f"there is no command {arguments[0]!r}. {hint}")


def commands_of(grammar: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Every command's own parser, by its name."""
    for action in grammar._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            return dict(vars(action)["choices"])
    return {}


def _leaf(error: Exception) -> Exception:
    """What really happened, where a task group has wrapped it."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
