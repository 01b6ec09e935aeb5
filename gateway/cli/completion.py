"""`kimi-gateway completion`: scripts that complete commands, options and names, made from the grammar."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gateway.cli.parser import commands_of, parser
from gateway.cli.screen import say
from gateway.cli.usage import Usage

PROGRAM = "kimi-gateway"
_plain = re.compile(r"[A-Za-z0-9_.:@/+-]+").fullmatch
NEW_NAMES = frozenset({"add"})
"""Commands whose NAME is one that nobody has yet."""


class Word(NamedTuple):
    """One thing that can stand on the line."""

    text: str
    """An option; empty for a positional."""
    help: str
    values: tuple[str, ...]
    """What may follow it, or stand there."""
    names: str
    """`servers`, `tools`, `profiles`, `files` or `directories`: what to ask for; empty for nothing."""
    takes_value: bool
    many: bool
    """A positional that takes all that is left."""


def run(options: argparse.Namespace) -> int:
    if options.names:
        # bash expands what it is offered: a server's own `$(…)` must not come that far.
        for name in filter(_plain, _known(options.names, options.project)):
            say(name)
        return 0
    if options.shell is None:
        raise Usage("which shell? Write `kimi-gateway completion bash`, zsh or fish.")
    say({"bash": bash, "zsh": zsh, "fish": fish}[options.shell]())
    return 0


def grammar() -> dict[str, tuple[str, list[Word]]]:
    """Every command with its help and its words."""
    top = parser()
    helps = {action.dest: action.help or "" for action in _choices_help(top)}
    return {name: (helps.get(name, ""), [*_words(name, sub)]) for name, sub in commands_of(top).items()}


def _choices_help(top: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in top._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            yield from vars(action)["_choices_actions"]


def _words(command: str, sub: argparse.ArgumentParser) -> Iterable[Word]:
    for action in sub._actions:  # pyright: ignore[reportPrivateUsage]
        if action.help == argparse.SUPPRESS:
            continue
        values = tuple(map(str, action.choices)) if action.choices else ()
        names = "" if values else _names(command, action)
        help = (action.help or "").replace("%%", "%")
        for option in [one for one in action.option_strings if one.startswith("--")] or [""]:
            if option or not action.option_strings:
                yield Word(
                    option, help, values, names, action.nargs != 0, action.nargs in ("*", "+", argparse.REMAINDER)
                )


def _names(command: str, action: argparse.Action) -> str:
    """What kind of name an argument is, by what the help calls it."""
    called = str(action.metavar or "")
    if "--profile" in action.option_strings:
        return "profiles"
    if called in ("SERVER:TOOL", "PATTERN"):
        return "tools"
    if called == "NAME" and not action.option_strings and command not in NEW_NAMES:
        return "servers"
    return {"DIR": "directories"}.get(called, "files" if "FILE" in called else "")


def _known(kind: str, project: Path | None) -> Iterable[str]:
    """Names there are, from the files and the last-known listings: nothing is started for them."""
    from clients.catalogue import Catalogue
    from gateway.cli.wiring import cache_directory, policy_of, read_config
    from gateway.naming import canonical
    from gateway.registry import ToolRegistry
    from servers.kimi.upstream import shipped

    config = read_config(argparse.Namespace(project=project, demo=False))
    if kind != "tools":
        return config.servers if kind == "servers" else config.profiles
    registry = ToolRegistry(policy_of(config))
    catalogue = Catalogue(cache_directory(os.environ) / "catalogue")
    for name, server in config.servers.items():
        listing = shipped(server)
        if listing is None and server.enabled and (memory := catalogue.recall(server.fingerprint)) is not None:
            listing = memory.listing
        if listing is not None:
            registry.publish(name, listing)
    routes = registry.view().routes["tools"].values()
    return dict.fromkeys(canonical(route.server, route.name) for route in routes)


def bash() -> str:
    cases: list[str] = []
    for name, (_, words) in grammar().items():
        options = " ".join(word.text for word in words if word.text)
        values = [
            f"            {word.text}) {_bash_values(word)} ;;" for word in words if word.text and word.takes_value
        ]
        positional = next((word for word in words if not word.text), None)
        cases.append(
            "\n".join(
                [
                    f"    {name})",
                    *(['        case "$previous" in', *values, "        esac"] if values else []),
                    f'        [[ $found ]] || case "$current" in -*) offered="{options}" ;;'
                    f" *) {_bash_values(positional) if positional else ':'} ;; esac",
                    "        ;;",
                ]
            )
        )
    return BASH % {"program": PROGRAM, "commands": " ".join(grammar()), "cases": "\n".join(cases)}


def _bash_values(word: Word) -> str:
    if word.values:
        return f'offered="{" ".join(word.values)}" found=1'
    if word.names in ("files", "directories"):
        return f'COMPREPLY=($(compgen -{word.names[0]} -- "$current")); return'
    return f'offered="$({PROGRAM} completion --names {word.names} 2>/dev/null)" found=1' if word.names else "found=1"


BASH = """\
_kimi_gateway() {
    local line="${COMP_LINE:0:COMP_POINT}" current="" previous="" offered="" found=""
    local -a words
    read -ra words <<<"$line"
    local last=$((${#words[@]} - 1)) IFS=$'\\n'
    if [[ "$line" != *[[:space:]] ]]; then
        current="${words[last]}"
        unset "words[last]"
        last=$((last - 1))
    fi
    previous="${words[last]}"
    COMPREPLY=()
    case "${words[1]}" in
    "")
        case "$current" in -*) offered="--help --version" ;; *) offered="%(commands)s" ;; esac
        ;;
%(cases)s
    esac
    COMPREPLY=($(IFS=$' \\n'; compgen -W "$offered" -- "$current"))
    # bash takes a colon for the end of a word, so only what comes after it is to be given back.
    if [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%%"${current##*:}"}"}")
    fi
}
complete -F _kimi_gateway %(program)s"""


def zsh() -> str:
    cases: list[str] = []
    for name, (_, words) in grammar().items():
        specs = [_zsh_spec(word) for word in words]
        cases.append(f"        {name})\n            _arguments {' '.join(specs)}\n            ;;")
    commands = " ".join(_quoted(f"{name}:{help}") for name, (help, _) in grammar().items())
    return ZSH % {"program": PROGRAM, "commands": commands, "cases": "\n".join(cases)}


def _zsh_spec(word: Word) -> str:
    help = word.help.replace("[", "(").replace("]", ")").replace(":", " -")
    if word.values:
        action = f"({' '.join(word.values)})"
    else:
        action = {"": " ", "files": "_files", "directories": "_files -/"}.get(
            word.names, f"{{_kimi_gateway_names {word.names}}}"
        )
    if not word.text:
        return _quoted(f"{'*' if word.many else ''}:{help}:{action}")
    return _quoted(f"{word.text}[{help}]:value:{action}" if word.takes_value else f"{word.text}[{help}]")


ZSH = """\
#compdef %(program)s
_kimi_gateway_names() {
    local -a found
    found=("${(@f)$(%(program)s completion --names $1 2>/dev/null)}")
    (( $#found )) && compadd -a found
}
_kimi_gateway() {
    local -a commands
    commands=(%(commands)s)
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
%(cases)s
    esac
}
compdef _kimi_gateway %(program)s"""


def fish() -> str:
    commands = grammar()
    lines = [f"complete -c {PROGRAM} -f"]
    for name, (help, _) in commands.items():
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d {_fish(help)}")
    for name, (_, words) in commands.items():
        here = f"complete -c {PROGRAM} -n '__fish_seen_subcommand_from {name}'"
        for word in words:
            option = f" -l {word.text.removeprefix('--')}" if word.text else ""
            values = _fish_values(word)
            if option or values:
                needs = " -r" if word.text and word.takes_value and word.names in ("files", "directories") else ""
                needs = needs or (" -x" if word.text and word.takes_value else "")
                lines.append(f"{here}{option}{needs}{values} -d {_fish(word.help)}")
    return "\n".join(lines)


def _fish_values(word: Word) -> str:
    if word.values:
        return f" -a '{' '.join(word.values)}'"
    if word.names == "directories":
        return " -a '(__fish_complete_directories)'"
    if word.names == "files":
        return " -F"
    return f" -a '({PROGRAM} completion --names {word.names} 2>/dev/null)'" if word.names else ""


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
