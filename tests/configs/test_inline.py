from __future__ import annotations

from typing import Any

import pytest

from configs.inline import is_secret, secrets


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"env": {"GITHUB_TOKEN": "abc"}}, [("env.GITHUB_TOKEN", "${GITHUB_TOKEN}")]),
        ({"env": {"X": "ghp_0123456789"}}, [("env.X", "${X}")]),
        ({"env": {"GITHUB_TOKEN": "${T}", "LEVEL": "info", "USE_TOKEN": "true", "PATH": "/bin", "TOKEN": ""}}, []),
        ({"headers": {"Authorization": "Bearer abc"}}, [("headers.Authorization", "Bearer ${MY_DB_TOKEN}")]),
        ({"headers": {"X-Api-Key": "abc", "Accept": "x"}}, [("headers.X-Api-Key", "${MY_DB_TOKEN}")]),
        ({"args": ["--api-key", "abc", "-v"]}, [("args[1]", "${MY_DB_API_KEY}")]),
        ({"args": ["--token=t"]}, [("args[0]", "--token=${MY_DB_TOKEN}")]),
        ({"env": {"authToken": "t", "Monkey": "x"}}, [("env.authToken", "${AUTHTOKEN}")]),
        ({"args": ["--token", "--verbose", "run", "sk-0123456789"]}, [("args[3]", "${MY_DB_TOKEN}")]),
        ({"args": ["--tokenizer", "bpe", "--keyboard=us", "--author", "me"]}, []),
        ({"url": "https://x/mcp?api_key=abc&q=1"}, [("url", "${MY_DB_TOKEN} in place of it")]),
        ({"url": "https://me:pass@x/mcp"}, [("url", "${MY_DB_TOKEN} in place of it")]),
        ({"url": "https://x/mcp?api_key=${K}"}, []),
        ({"url": "http://[", "env": [], "args": [1]}, []),
    ],
)  # fmt: skip
def test_secrets_written_out_are_found_with_what_to_write(entry: Any, found: list[tuple[str, str]]) -> None:
    assert [(secret.key, secret.better) for secret in secrets("my-db", entry)] == found


def test_a_name_alone_makes_no_secret_of_a_switch() -> None:
    assert not is_secret("API_KEY", "${KEY}") and not is_secret("MONKEY", "x") and is_secret("apiKey", "x")
