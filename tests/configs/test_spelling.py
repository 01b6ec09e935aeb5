from __future__ import annotations

from configs.spelling import UnknownKey, unknown_gateway_keys, unknown_server_keys, unknown_variables


def test_unknown_keys_of_the_gateway_section_come_with_the_nearest_known() -> None:
    found = unknown_gateway_keys(
        {
            "namng": "safe",
            "naming": "safe",
            "kimi": True,
            "servers": {"alow": []},
            "profiles": {"anything": {"tool": {}, "tools": {"readonly": True}}},
            "http": {"tokens": {"anything": {"tokn": "x"}}},
            "zzz": 1,
        }
    )
    assert set(found) == {
        UnknownKey(("namng",), "naming"),
        UnknownKey(("zzz",), None),
        UnknownKey(("servers", "alow"), "allow"),
        UnknownKey(("profiles", "anything", "tool"), "tools"),
        UnknownKey(("profiles", "anything", "tools", "readonly"), "readOnly"),
        UnknownKey(("http", "tokens", "anything", "tokn"), "token"),
    }


def test_unknown_keys_of_an_entry_come_with_the_nearest_known() -> None:
    found = unknown_server_keys({"comand": "x", "args": [], "tools": {"denny": []}, "health": {"intervall": 1}})
    assert set(found) == {
        UnknownKey(("comand",), "command"),
        UnknownKey(("tools", "denny"), "deny"),
        UnknownKey(("health", "intervall"), "interval"),
    }


def test_a_variable_that_is_nearly_a_setting_comes_with_the_one_that_was_meant() -> None:
    nearly = {
        "KIMI_GATEWAY_NAMMING": "KIMI_GATEWAY_NAMING",
        "kimi_gateway_max_frames": "KIMI_GATEWAY_MAXFRAME",
        "KIMI_GATEWAY_HEALTH__INTERVALL": "KIMI_GATEWAY_HEALTH__INTERVAL",
        "KIMI_GATEWAY_PROFILES__CI__TOOLS__ALOW": "KIMI_GATEWAY_PROFILES__CI__TOOLS__ALLOW",
    }
    good = [
        "NAMING",
        "MAX_FRAME",
        "HTTP__BODY_LIMIT",
        "HTTP__BODYLIMIT",
        "TOOLS__READONLY",
        "PROFILES__CI__TOOLS__ALLOW",
    ]
    others = ["TOKEN", "DEBUG", "TRUST_PROJECT", "INSIDE_KIMI", "CHILD", "ADDRESS", "KIMI__ENABLED"]
    assert dict(unknown_variables(["NAMMING", *nearly, *(f"KIMI_GATEWAY_{name}" for name in good + others)])) == nearly
