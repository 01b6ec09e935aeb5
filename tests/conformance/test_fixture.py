"""The fixture speaks the eras it is told to and no other, over either transport, to the SDK's own client."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters

from tests.conformance import peers

DEADLINE = 60.0


@contextmanager
def reached(transport: str, eras: str, tmp_path: Path) -> Generator[Any]:
    """What the SDK's client takes to reach a fixture."""
    if transport == "http":
        with peers.fixture(eras, tmp_path / "log") as url:
            yield url
    else:
        entry = peers.over_stdio(eras)
        yield StdioServerParameters(command=sys.executable, args=entry["args"], env=entry["env"])


async def ask_the_user(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    answers = {"step1": "Ada", "step2": "blue"}
    assert isinstance(params, types.ElicitRequestFormParams)
    step, field = ("step1", "name") if "name" in params.message else ("step2", "color")
    return types.ElicitResult(action="accept", content={field: answers[step]})


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(
    ("eras", "version"),
    [("session", "2025-11-25"), ("stateless", "2026-07-28"), ("session,stateless", "2026-07-28")],
)
def test_it_speaks_what_it_is_told_to_and_asks_in_that_era(
    transport: str, eras: str, version: str, tmp_path: Path
) -> None:
    async def talk(target: Any) -> None:
        with anyio.fail_after(DEADLINE):
            async with Client(target, elicitation_callback=ask_the_user) as client:
                assert client.protocol_version == version
                assert len((await client.list_tools()).tools) > 25
                result = await client.call_tool("test_input_required_result_multi_round", {})
                assert isinstance(result.content[0], types.TextContent)
                assert result.content[0].text == "Ada likes blue"

    with reached(transport, eras, tmp_path) as target:
        anyio.run(talk, target)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_stateless_fixture_refuses_a_handshake(transport: str, tmp_path: Path) -> None:
    async def talk(target: Any) -> None:
        with anyio.fail_after(DEADLINE):
            async with Client(target, mode="legacy"):
                pass

    with reached(transport, "stateless", tmp_path) as target, pytest.raises(BaseException) as caught:
        anyio.run(talk, target)
    assert "does not speak the session era" in _leaf(caught.value)


def _leaf(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(error)  # pyright: ignore[reportUnknownArgumentType]
