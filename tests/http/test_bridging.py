"""A client with a session, over HTTP, in front of an upstream of the stateless era that wants input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import Message
from tests.http.inside import Inside
from tests.http.wire import STATELESS, Reply
from tests.puppets import Puppet
from tests.webpuppets import WebPuppet

Within = Callable[..., Inside]
Json = dict[str, Any]
ALL: Json = {"elicitation": {}, "sampling": {}, "roots": {}}
FOUND: Json = {
    "resultType": "complete", "supportedVersions": [STATELESS], "capabilities": {"tools": {}}, "ttlMs": 0,
    "cacheScope": "private",
}  # fmt: skip


@pytest.fixture(params=["stdio", "json", "stream"])
def a(request: pytest.FixtureRequest, sockets: Path) -> Iterator[Puppet]:
    """An upstream that knows no sessions."""
    made = Puppet(sockets, "a") if request.param == "stdio" else WebPuppet(sockets, "a", request.param)
    made.on("server/discover", lambda _: {"result": FOUND})
    yield made
    made.close()


def wants(state: str, **requests: str) -> Json:
    """A result that wants these questions asked, by their keys."""
    asked = {key: {"method": method, "params": {"message": key}} for key, method in requests.items()}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": state}


def test_asked_twice_it_gets_one_result(inside: Within, a: Puppet) -> None:
    talk = inside(a).site.initialize(capabilities=ALL)
    connection = talk.call("a__work", id="mine")
    first = a.expect("tools/call")
    a.reply(first, wants("one", name="elicitation/create"))
    reply = Reply(connection)
    question = reply.next()
    assert (question.method, question.params) == ("elicitation/create", {"message": "name"})
    talk.answer(question, {"action": "accept", "content": {"name": "Ada"}})

    second = a.expect("tools/call")
    assert second.params["inputResponses"] == {"name": {"action": "accept", "content": {"name": "Ada"}}}
    assert (second.params["requestState"], second.params["arguments"]) == ("one", {})
    a.reply(second, wants("two", model="sampling/createMessage", roots="roots/list"))
    questions = {one.method: one for one in (reply.next(), reply.next())}
    talk.answer(questions["roots/list"], {"roots": []})
    talk.answer(questions["sampling/createMessage"], {"model": "m"})

    third = a.expect("tools/call")
    assert third.params["inputResponses"] == {"model": {"model": "m"}, "roots": {"roots": []}}
    assert third.params["requestState"] == "two"
    assert len({first.id, second.id, third.id}) == 3
    a.reply(third, {"resultType": "complete", "content": [{"type": "text", "text": "Ada"}]})
    (result,) = reply.rest()
    assert (result.id, result.result) == ("mine", {"content": [{"type": "text", "text": "Ada"}]})


def test_what_it_cannot_be_asked_it_is_not_asked(inside: Within, a: Puppet) -> None:
    talk = inside(a).site.initialize(capabilities={"roots": {}})
    connection = talk.call("a__work")
    a.reply(a.expect("tools/call"), wants("one", roots="roots/list", name="elicitation/create"))
    answer: Message = Reply(connection).message
    assert answer.error["code"] == -32021
