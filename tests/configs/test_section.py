from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from configs.models import Config, Globs, Health, Http, HttpToken, Kimi, Rules, Source
from configs.section import Gateway
from configs.settings import Section

Configured = Callable[..., Config]
ENVIRONMENT = Source(None, "environment")


def gateway(**keys: Any) -> dict[str, Any]:
    return {"gateway": keys}


def test_defaults_without_settings_are_those_of_the_settings() -> None:
    section, plain = Section(), Gateway._field_defaults
    assert plain["naming"] == section.naming
    assert plain["kimi"] == Kimi(**section.kimi.model_dump())
    assert plain["health"] == Health(**section.health.model_dump())
    assert plain["http"] == Http(tuple(section.http.hosts), (), section.http.bodyLimit)
    assert plain["frame_limit"] == section.maxFrame


def test_every_setting_is_read(configured: Configured) -> None:
    config = configured(
        gateway(
            naming="bare", kimi={"tools": True}, maxFrame=2048, health={"interval": 1, "timeout": 2, "misses": 3},
            http={"hosts": ["h:1"], "bodyLimit": 4096, "tokens": {"ci": {"token": "${T}", "profile": "r"}}},
            profiles={"r": {}},
        ),
        environ={"T": "s3cret"},
    )  # fmt: skip
    assert (config.naming, config.kimi, config.frame_limit) == ("bare", Kimi(True, True), 2048)
    assert config.health == Health(1.0, 2.0, 3)
    assert config.http == Http(("h:1",), (HttpToken("ci", "s3cret", "r"),), 4096)
    assert config.problems == ()
    assert "s3cret" not in repr(config)


def test_the_environment_is_over_the_project_is_over_the_users_file_key_by_key(configured: Configured) -> None:
    config = configured(
        gateway(naming="bare", maxFrame=2048, health={"interval": 1, "timeout": 1, "misses": 1}),
        gateway(naming="canonical", health={"interval": 2, "timeout": 2}),
        {"KIMI_GATEWAY_NAMING": "safe", "KIMI_GATEWAY_HEALTH__INTERVAL": "3.5"},
    )
    assert (config.naming, config.frame_limit, config.health) == ("safe", 2048, Health(3.5, 2.0, 1))


def test_a_servers_health_is_over_the_gateways(configured: Configured) -> None:
    config = configured(
        {**gateway(health={"interval": 7, "misses": 9}), "mcpServers": {"a": {"command": "x", "health": {"misses": 1}}}}
    )
    assert config.servers["a"].health == Health(7.0, 10.0, 1)


@pytest.mark.parametrize(
    ("variable", "value", "attribute", "expected"),
    [
        ("NAMING", "canonical", "naming", "canonical"),
        ("NAMING", "", "naming", "safe"),
        ("KIMI", "false", "kimi.enabled", False),
        ("KIMI", "off", "kimi.enabled", False),
        ("KIMI", "0", "kimi.enabled", False),
        ("KIMI", '{"tools": true}', "kimi", Kimi(True, True)),
        ("KIMI__TOOLS", "true", "kimi", Kimi(True, True)),
        ("HEALTH__MISSES", "5", "health.misses", 5),
        ("MAXFRAME", "4096", "frame_limit", 4096),
        ("MAX_FRAME", "4096", "frame_limit", 4096),
        ("HTTP__BODY_LIMIT", "4096", "http.body_limit", 4096),
        ("HTTP", '{"hosts": ["a"]}', "http.hosts", ("a",)),
        ("HTTP__HOSTS", '["a"]', "http.hosts", ("a",)),
        ("HTTP__TOKENS__CI__TOKEN", "abc", "http.tokens", (HttpToken("ci", "abc", None),)),
        ("TOOLS", '{"deny": ["*:x"]}', "rules", (Rules("gateway.tools", ENVIRONMENT, Globs(deny=("*:x",))),)),
        ("TOOLS__DENY", '["*:x"]', "rules", (Rules("gateway.tools", ENVIRONMENT, Globs(deny=("*:x",))),)),
        ("TOOLS__READONLY", "true", "rules", (Rules("gateway.tools", ENVIRONMENT, read_only=True),)),
        (
            "PROFILES__R__TOOLS__DENY",
            '["x"]',
            "profiles",
            {"r": (Rules("gateway.profiles.r.tools", ENVIRONMENT, Globs(deny=("x",))),)},
        ),
    ],
)
def test_each_key_has_its_variable(
    configured: Configured, variable: str, value: str, attribute: str, expected: object
) -> None:
    config = configured(environ={f"KIMI_GATEWAY_{variable}": value})
    assert (attrgetter(attribute)(config), config.problems) == (expected, ())


@pytest.mark.parametrize("variable", ["TOKEN", "DEBUG", "TRUST_PROJECT", "LATER"])
def test_variables_that_are_no_settings_are_left_alone(configured: Configured, variable: str) -> None:
    assert configured(environ={f"KIMI_GATEWAY_{variable}": "x"}) == configured()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("NAMING", "odd"), ("HEALTH__INTERVAL", "soon"), ("HEALTH", "{"), ("KIMI", "perhaps"), ("MAX_FRAME", "-1")],
)
def test_a_bad_variable_is_named_and_the_next_layer_counts(configured: Configured, variable: str, value: str) -> None:
    files = gateway(naming="bare", health={"interval": 5}, kimi=False, maxFrame=2048)
    config = configured(files, environ={f"KIMI_GATEWAY_{variable}": value})
    (problem,) = config.problems
    assert (problem.file, problem.key, bool(problem.fix)) == (None, f"KIMI_GATEWAY_{variable}", True)
    assert (config.naming, config.health.interval, config.kimi.enabled, config.frame_limit) == ("bare", 5, False, 2048)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"naming": "odd"}, "naming"),
        ({"naming": 5}, "naming"),
        ({"kimi": "no"}, "kimi"),
        ({"kimi": {"tools": 1}}, "kimi.tools"),
        ({"health": []}, "health"),
        ({"health": {"interval": "5"}}, "health.interval"),
        ({"health": {"misses": 0}}, "health.misses"),
        ({"maxFrame": 1}, "maxFrame"),
        ({"http": {"hosts": ["a", 5]}}, "http.hosts[1]"),
        ({"http": {"tokens": {"ci": {"profile": "r"}}}}, "http.tokens.ci"),
        ({"http": {"tokens": {"ci": {"token": "x", "profile": 5}}}}, "http.tokens.ci.profile"),
        ({"http": {"tokens": {"ci": {"token": "${NOPE}"}}}}, "http.tokens.ci.token"),
        ({"http": {"tokens": {"ci": {"token": "${NOPE:-}"}}}}, "http.tokens.ci.token"),
    ],
)
def test_a_bad_setting_is_a_problem_at_its_place_and_the_default_counts(
    configured: Configured, keys: dict[str, Any], key: str
) -> None:
    config = configured({**gateway(**keys), "mcpServers": {"a": {"command": "x"}}})
    (problem,) = config.problems
    assert (problem.key, problem.line > 1, bool(problem.fix)) == (f"gateway.{key}", True, True)
    assert (config.naming, config.kimi, config.health, config.http) == ("safe", Kimi(), Health(), Http())
    assert config.servers["a"].problem == ""


def test_filters_of_all_layers_apply_together(configured: Configured) -> None:
    config = configured(
        gateway(tools={"deny": ["a:*"]}, profiles={"r": {"tools": {"allow": ["b:*"]}}, "g": {}}),
        gateway(tools={"allow": ["b:*"], "readOnly": True}, profiles={"r": {"tools": {"deny": ["b:x"]}}}),
        {"KIMI_GATEWAY_TOOLS": '{"deny": ["c:*"]}'},
    )
    assert [rules.tools for rules in config.rules] == [
        Globs(deny=("a:*",)), Globs(allow=("b:*",)), Globs(deny=("c:*",))
    ]  # fmt: skip
    assert [(str(rules.label), rules.source.scope) for rules in config.rules] == [
        ("gateway.tools", "global"), ("gateway.tools", "project"), ("gateway.tools", "environment")
    ]  # fmt: skip
    assert [rules.read_only for rules in config.rules] == [False, True, False]
    assert [rules.tools for rules in config.profiles["r"]] == [Globs(allow=("b:*",)), Globs(deny=("b:x",))]
    assert config.profiles["r"][0].label == "gateway.profiles.r.tools"
    assert [rules.tools for rules in config.profiles["g"]] == [Globs()]


def test_servers_beside_tools_are_kept_apart(configured: Configured) -> None:
    config = configured(gateway(servers={"deny": ["x"]}, profiles={"r": {"tools": {}, "servers": {"allow": ["y"]}}}))
    assert (config.rules[0].servers, config.rules[0].tools) == (Globs(deny=("x",)), Globs())
    assert config.profiles["r"][0].servers == Globs(allow=("y",))


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"tools": {"deny": "x"}}, "tools.deny"),
        ({"tools": []}, "tools"),
        ({"tools": {"allow": ["a", 5]}}, "tools.allow[1]"),
        ({"servers": "x"}, "servers"),
        ({"tools": {}, "servers": {"allow": 5}}, "servers.allow"),
    ],
)
def test_a_filter_that_cannot_be_read_hides_everything(configured: Configured, keys: dict[str, Any], key: str) -> None:
    config = configured(gateway(**keys, profiles={"r": keys}))
    assert [problem.key for problem in config.problems] == [f"gateway.{key}", f"gateway.profiles.r.{key}"]
    for rules in (*config.rules, *config.profiles["r"]):
        assert (rules.tools.allow, rules.servers) == ((), Globs(allow=()))


def test_a_bad_filter_in_the_environment_names_its_variable(configured: Configured) -> None:
    config = configured(environ={"KIMI_GATEWAY_TOOLS": "{deny: [x]}"})
    (problem,) = config.problems
    assert (problem.file, problem.key, config.rules[0].tools.allow) == (None, "KIMI_GATEWAY_TOOLS", ())


def test_unknown_keys_are_kept_silently(configured: Configured) -> None:
    config = configured(gateway(naming="bare", later={"x": 1}, health={"later": 1}))
    assert (config.naming, config.problems) == ("bare", ())


def test_deep_nonsense_in_a_setting_is_one_problem(configured: Configured) -> None:
    nest = "[" * 300 + "]" * 300
    config = configured(
        f'{{"gateway": {{"health": {nest}, "x": {nest}}}, "mcpServers": {{"a": {{"command": "x", "args": {nest}}}}}}}'
    )
    assert [problem.key for problem in config.problems] == ["gateway.health", "mcpServers.a.args[0]"]
