from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from configs.models import Config, Globs, Health, Problem, Server

Configured = Callable[..., Config]


def one(config: Config) -> Server:
    (server,) = config.servers.values()
    return server


def problem(config: Config) -> Problem:
    (problem,) = config.problems
    return problem


def entry(**keys: Any) -> dict[str, Any]:
    return {"mcpServers": {"fs": keys}}


def test_an_entry_with_every_key_is_read(configured: Configured) -> None:
    config = configured(
        entry(
            type="stdio", command="npx", args=["-y", "fs"], env={"A": "b"}, cwd="/srv", enabled=False, timeout=5,
            timeouts={"slow": 600}, health={"misses": 3}, tools={"allow": ["a*"], "deny": ["ab"], "readOnly": True},
        )
    )  # fmt: skip
    server = one(config)
    assert (server.command, server.args, server.env) == ("npx", ("-y", "fs"), {"A": "b"})
    assert (str(server.cwd), server.enabled, server.timeout, server.timeouts) == ("/srv", False, 5.0, {"slow": 600.0})
    assert server.health == Health(30.0, 10.0, 3)
    (rules,) = server.rules
    assert (rules.label, rules.tools, rules.read_only) == ("mcpServers.fs.tools", Globs(("a*",), ("ab",)), True)
    assert (server.problem, config.problems) == ("", ())


@pytest.mark.parametrize(
    ("keys", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"url": "https://x/mcp"}, "auto"),
        ({"type": "sse", "url": "https://x/sse"}, "sse"),
        ({"type": "http", "url": "http://[::1]:80/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://x"}, "http"),
        ({"type": "streamableHttp", "url": "https://x"}, "http"),
        ({"type": "stdio", "command": "x", "url": "https://x"}, "stdio"),
        ({"type": "http", "command": "x", "url": "https://x"}, "http"),
    ],
)
def test_the_transport_follows_from_the_type_or_what_there_is(
    configured: Configured, keys: dict[str, Any], transport: str
) -> None:
    config = configured(entry(**keys))
    assert (one(config).transport, one(config).problem, config.problems) == (transport, "", ())


@pytest.mark.parametrize(
    ("keys", "key", "words"),
    [
        ({"type": "ws", "url": "ws://x"}, "type", '"ws"'),
        ({"type": 5, "command": "x"}, "type", "must be text"),
        ({"args": ["x"]}, "", "neither a command nor a url"),
        ({"command": "x", "url": "https://x"}, "", "both a command and a url"),
        ({"type": "stdio", "url": "https://x"}, "type", "no command"),
        ({"type": "sse", "command": "x"}, "type", "no url"),
        ({"command": ""}, "command", "is empty"),
        ({"command": ["npx", "-y"]}, "command", "not a list"),
        ({"command": None}, "command", "not null"),
        ({"command": "x\0"}, "command", "character"),
        ({"command": "x", "args": "-y"}, "args", "must be a list of texts, not text"),
        ({"command": "x", "args": ["a", 5]}, "args[1]", "must be text, not a number"),
        ({"command": "x", "env": {"PORT": 3000}}, "env.PORT", "must be text"),
        ({"command": "x", "env": {"A=B": "x"}}, 'env["A=B"]', "no name for a variable"),
        ({"command": "x", "env": []}, "env", "must be an object, not a list"),
        ({"command": "x", "cwd": False}, "cwd", "must be text, not false"),
        ({"command": "x", "enabled": "no"}, "enabled", "must be true or false"),
        ({"command": "x", "timeout": "60"}, "timeout", "number of seconds"),
        ({"command": "x", "timeout": 0}, "timeout", "more than 0"),
        ({"command": "x", "timeout": True}, "timeout", "not true"),
        ({"command": "x", "timeouts": {"t": -1}}, "timeouts.t", "more than 0"),
        ({"command": "x", "health": {"misses": 1.5}}, "health.misses", "whole number"),
        ({"command": "x", "health": {"interval": 0}}, "health.interval", "more than 0"),
        ({"command": "x", "tools": ["a"]}, "tools", "must be an object"),
        ({"command": "x", "tools": {"deny": "a"}}, "tools.deny", "must be a list"),
        ({"command": "x", "tools": {"readOnly": 1}}, "tools.readOnly", "true or false"),
        ({"url": "example.com/mcp"}, "url", "not a web address"),
        ({"url": "https://a b/"}, "url", "not a web address"),
        ({"url": "https://x", "headers": {"A:": "b"}}, 'headers["A:"]', "no name for a header"),
        ({"url": "https://x", "headers": {"A": "b\r\nC: d"}}, "headers.A", "line break"),
    ],
)
def test_what_is_wrong_takes_the_server_out_with_place_reason_and_remedy(
    configured: Configured, keys: dict[str, Any], key: str, words: str
) -> None:
    config = configured({"mcpServers": {"fs": keys, "good": {"command": "x"}}})
    found = problem(config)
    assert found.key == "mcpServers.fs" + (f".{key}" if key else "")
    assert (found.server, found.line > 1, found.column > 1, bool(found.fix)) == ("fs", True, True, True)
    assert words in found.message
    assert words in config.servers["fs"].problem
    assert found.key in config.servers["fs"].problem
    assert config.servers["good"].problem == ""


def test_the_remedy_for_a_number_in_env_is_what_to_write(configured: Configured) -> None:
    assert '"3000"' in problem(configured(entry(command="x", env={"PORT": 3000}))).fix


def test_a_problem_points_at_the_value(configured: Configured) -> None:
    found = problem(configured('{\n  "mcpServers": {\n    "fs": { "command": "x", "timeout": "60" }\n  }\n}'))
    assert (found.line, found.column) == (3, 40)
    assert str(found).startswith(f"{found.file}:3:40: mcpServers.fs.timeout: must be a number of seconds")


def test_a_timeout_beyond_an_hour_is_an_hour_and_said_so(configured: Configured) -> None:
    config = configured(entry(command="x", timeout=30000, timeouts={"t": 5000}))
    assert (one(config).timeout, one(config).timeouts, one(config).problem) == (3600.0, {"t": 3600.0}, "")
    assert [found.key for found in config.problems] == ["mcpServers.fs.timeout", "mcpServers.fs.timeouts.t"]


@pytest.mark.parametrize("name", ["", "  ", "a:b", "a\nb"])
def test_a_name_that_cannot_be_one_is_left_out(configured: Configured, name: str) -> None:
    config = configured({"mcpServers": {name: {"command": "x"}, "good": {"command": "x"}}})
    assert ([*config.servers], "name" in problem(config).message) == (["good"], True)


@pytest.mark.parametrize("value", ["npx", None, [], 5])
def test_an_entry_that_is_no_object_is_left_out(configured: Configured, value: Any) -> None:
    config = configured({"mcpServers": {"fs": value, "good": {"command": "x"}}})
    assert ([*config.servers], problem(config).key) == (["good"], "mcpServers.fs")


def test_keys_of_others_are_left_alone(configured: Configured) -> None:
    config = configured({**entry(command="x", alwaysAllow=["y"]), "history": [1], "theme": None})
    assert (one(config).problem, config.problems) == ("", ())


def test_a_key_written_twice_is_a_problem_and_the_last_counts(configured: Configured) -> None:
    config = configured('{"mcpServers": {"fs": {"command": "a", "command": "b"}}, "x": 1, "x": 2}')
    assert (one(config).command, problem(config).key) == ("b", "mcpServers.fs.command")
    assert (problem(config).line, problem(config).column) == (1, 40)


def test_a_section_written_twice_is_a_problem(configured: Configured) -> None:
    config = configured('{"mcpServers": {"a": {"command": "a"}},\n"mcpServers": {"b": {"command": "b"}}}')
    assert ([*config.servers], problem(config).key, problem(config).line) == (["b"], "mcpServers", 2)
