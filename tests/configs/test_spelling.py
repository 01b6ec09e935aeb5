from __future__ import annotations

from configs.spelling import UnknownKey, unknown_gateway_keys, unknown_server_keys


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
