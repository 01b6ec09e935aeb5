"""A client and an upstream of either era, over either transport: what one asks and tells reaches the other."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.client import Gateway, until
from tests.conformance import peers
from tests.conformance.driver import Client

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
ERAS = ("session", "stateless")
PAIRS = [(client, upstream, by) for client in ERAS for upstream in ERAS for by in ("stdio", "http")]


@pytest.fixture(params=PAIRS, ids=" ".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[Gateway, Client, str]]:
    """A gateway over stdio with the fixture upstream, a client of an era, and that era."""
    era, upstream, transport = request.param
    with ExitStack() as stack:
        if transport == "stdio":
            entry = peers.over_stdio(upstream)
        else:
            entry = peers.over_http(stack.enter_context(peers.fixture(upstream, tmp_path / "fixture.log")))
        gateway = stack.enter_context(Gateway(tmp_path, {"fixture": entry}, gateway={"naming": "bare"}))
        client = Client(gateway, era)
        until(lambda: any(tool["name"] == "test_sampling" for tool in client.list("tools/list", "tools")), "its tools")
        yield gateway, client, era


def test_questions_and_answers_cross_every_pairing(pair: tuple[Gateway, Client, str]) -> None:
    gateway, client, era = pair
    assert client.call("test_input_required_result_multi_round").text == "text likes text"
    assert client.asked == [ELICIT, ELICIT]

    client.asked.clear()
    assert client.call("test_input_required_result_multiple_inputs").text == "text: Paris (0 roots)"
    assert sorted(client.asked) == [ELICIT, ROOTS, SAMPLE]

    client.asked.clear()
    answer = client.request("prompts/get", {"name": "test_input_required_result_prompt"})
    assert answer.result["messages"][0]["content"]["text"] == "The context: {'context': 'text'}"
    assert client.asked == [ELICIT]

    client.call("test_tool_with_progress", _meta={"progressToken": "p"})
    assert [message.params["progress"] for message in gateway.got("notifications/progress")] == [0, 50, 100]

    missing = client.request("resources/read", {"uri": "test://nothing"}).error
    assert missing["code"] == (-32602 if era == "stateless" else -32002)
    assert missing["data"] == {"uri": "test://nothing"}
