"""A client of the stateless era on stdio, and upstreams that ask in the middle of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.client import Gateway, Message, until
from tests.conftest import Start
from tests.puppets import Puppet

Make = Callable[..., Puppet]
Json = dict[str, Any]
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ALL: Json = {"elicitation": {}, "sampling": {}, "roots": {}}


def envelope(capabilities: Json | None = None, **more: Any) -> Json:
    return {VERSION: "2026-07-28", CAPABILITIES: ALL if capabilities is None else capabilities, **more}


def params(meta: Json | None = None, **more: Any) -> Json:
    return {**more, "_meta": meta or envelope()}


def call(gateway: Gateway, name: str = "a__work", meta: Json | None = None, **more: Any) -> Any:
    return gateway.send("tools/call", params(meta, name=name, **{"arguments": {"n": 1}, **more}))


def retry(gateway: Gateway, asked: Message, answers: Json | None = None, **more: Any) -> Any:
    key = next(iter(asked.result["inputRequests"]))
    responses = {key: {"action": "accept", "content": {"x": 1}}} if answers is None else answers
    return call(gateway, inputResponses=responses, requestState=asked.result["requestState"], **more)


def started(gateway: Gateway) -> Gateway:
    """Its upstreams are there."""
    assert gateway.request("tools/list", params()).result["tools"]
    return gateway


def parked(gateway: Gateway, a: Puppet) -> tuple[Message, Message]:
    """A call whose upstream has asked: the upstream's request, and what the client got."""
    id = call(gateway)
    work = a.expect("tools/call")
    a.ask("q", "elicitation/create", message="who?", requestedSchema={"type": "object"})
    return work, gateway.answer(id)


def test_discovery_says_what_there_is_and_the_era_is_kept(puppet: Make, start: Start) -> None:
    gateway = start(puppet("a"), version=None)
    found = gateway.request("server/discover", params()).result
    assert found["resultType"] == "complete"
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["cacheScope"] in ("private", "public")
    assert found["ttlMs"] >= 0
    assert found["capabilities"]["tools"] == {"listChanged": True}
    refused = gateway.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}).error
    assert refused["code"] == -32022
    assert gateway.request("ping", params()).error["code"] == -32601
    assert gateway.request("tools/list", {"_meta": {VERSION: "2026-07-28"}}).error["code"] == -32602


def test_a_version_nobody_speaks_decides_nothing(puppet: Make, start: Start) -> None:
    gateway = start(puppet("a"), version=None)
    refused = gateway.request("server/discover", params({VERSION: "2031-01-01", CAPABILITIES: {}})).error
    assert refused["code"] == -32022
    assert refused["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
    assert gateway.initialize().result["protocolVersion"] == "2025-11-25"


def test_the_older_upstream_sees_nothing_of_the_newer_era(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    id = call(gateway, meta=envelope(progressToken="mine", vendor={"x": 1}))
    work = a.expect("tools/call")
    assert work.params["_meta"] == {"progressToken": work.id, "vendor": {"x": 1}}
    a.tell("notifications/progress", progressToken=work.id, progress=1)
    assert gateway.expect("notifications/progress").params == {"progressToken": "mine", "progress": 1}
    a.reply(work, {"content": [], "odd": 10**70})
    assert gateway.answer(id).payload == b'{"resultType":"complete","content": [], "odd": %d}' % 10**70


def test_a_question_parks_the_call_and_the_retry_resumes_it(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    work, asked = parked(gateway, a)
    assert asked.result["resultType"] == "input_required"
    assert list(asked.result["inputRequests"].values()) == [
        {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object"}}}
    ]
    id = retry(gateway, asked)
    assert a.expect_answer("q").result == {"action": "accept", "content": {"x": 1}}
    a.ask("again", "sampling/createMessage", messages=[], maxTokens=1)
    again = gateway.answer(id)
    assert again.result["requestState"] != asked.result["requestState"]
    id = retry(gateway, again, {next(iter(again.result["inputRequests"])): {"role": "assistant"}})
    assert a.expect_answer("again").result == {"role": "assistant"}
    a.reply(work, {"content": []})
    assert gateway.answer(id).result == {"resultType": "complete", "content": []}
    assert len(a.got("tools/call")) == 1


def test_a_retry_is_bound_to_its_call_and_good_once(puppet: Make, start: Start) -> None:
    a = puppet("a", tools=[{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "other")])
    gateway = started(start(a, version=None))
    work, asked = parked(gateway, a)
    wrong = [
        retry(gateway, asked, arguments={"n": 2}),
        retry(gateway, asked, arguments={"n": "1"}),
        retry(gateway, asked, name="a__other"),
        call(gateway, requestState="kimi-gateway.guessed", inputResponses={}),
    ]
    for id in wrong:
        assert gateway.answer(id).error["code"] == -32602
    id = retry(gateway, asked)
    a.reply(work, {"content": []})
    assert gateway.answer(id).result["resultType"] == "complete"
    assert gateway.answer(retry(gateway, asked)).error["code"] == -32602
    assert len(a.got("tools/call")) == 1


def test_a_retry_that_cannot_be_read_leaves_the_call_where_it_is(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    work, asked = parked(gateway, a)
    key = next(iter(asked.result["inputRequests"]))
    unreadable: list[Any] = [[], "x", {key: 5}]
    for responses in unreadable:
        broken = call(gateway, requestState=asked.result["requestState"], inputResponses=responses)
        assert gateway.answer(broken).error["code"] == -32602, responses
    id = retry(gateway, asked)
    assert a.expect_answer("q").result == {"action": "accept", "content": {"x": 1}}
    a.reply(work, {"content": []})
    assert gateway.answer(id).result["resultType"] == "complete"


def test_a_state_that_nobody_issued_starts_no_call(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    for state in ("kimi-gateway.guessed", "another", 5):
        refused = gateway.answer(call(gateway, requestState=state, inputResponses={}))
        assert refused.error["code"] == -32602, state
    assert not a.got("tools/call")


def test_a_gateway_behind_this_one_gets_its_own_state_back(puppet: Make, start: Start) -> None:
    a = puppet("a", capabilities={"tools": {}})
    speak_newer(a)
    gateway = started(start(a, version=None))
    id = call(gateway)
    wanted = {"1": {"method": "roots/list"}}
    issued = {"resultType": "input_required", "inputRequests": wanted, "requestState": "kimi-gateway.of-the-other"}
    a.reply(a.expect("tools/call"), issued)
    id = retry(gateway, gateway.answer(id), {"1": {"roots": []}})
    again = a.expect("tools/call")
    assert (again.params["requestState"], again.params["inputResponses"]) == (
        issued["requestState"],
        {"1": {"roots": []}},
    )
    a.reply(again, {"resultType": "complete", "content": []})
    assert gateway.answer(id).result["resultType"] == "complete"


def test_an_unanswered_question_is_asked_again(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    _, asked = parked(gateway, a)
    again = gateway.answer(retry(gateway, asked, {}))
    assert list(again.result["inputRequests"].values()) == list(asked.result["inputRequests"].values())


def test_what_happens_while_a_call_is_parked_waits_for_its_retry(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    work, asked = parked(gateway, a)
    a.ask("r", "roots/list")
    id = retry(gateway, asked)
    more = gateway.answer(id)
    assert [request["method"] for request in more.result["inputRequests"].values()] == ["roots/list"]
    a.reply(work, {"content": [], "done": True})
    id = retry(gateway, more, {next(iter(more.result["inputRequests"])): {"roots": []}})
    assert gateway.answer(id).result["done"] is True


def test_a_parked_call_whose_upstream_dies_says_so_at_its_retry(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    _, asked = parked(gateway, a)
    a.drop()
    until(lambda: a.starts == 2, "its next life")
    answer = gateway.answer(retry(gateway, asked)).result
    assert answer["isError"] is True
    assert answer["resultType"] == "complete"


def test_a_client_that_goes_leaves_no_parked_call_behind(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    work, _ = parked(gateway, a)
    gateway.close_input()
    assert a.expect("notifications/cancelled", requestId=work.id)
    assert a.expect_answer("q").error["code"] == -32603


@pytest.mark.parametrize(
    ("method", "capabilities", "code"),
    [
        ("elicitation/create", {"sampling": {}}, -32601),
        ("sampling/createMessage", {}, -32601),
        ("roots/list", {"elicitation": {}}, -32601),
    ],
)
def test_what_the_client_lacks_is_refused_at_once(
    puppet: Make, start: Start, method: str, capabilities: Json, code: int
) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    id = call(gateway, meta=envelope(capabilities))
    work = a.expect("tools/call")
    a.ask(7, method)
    assert a.expect_answer(7).error["code"] == code
    a.reply(work, {"content": []})
    assert gateway.answer(id).result["resultType"] == "complete"


def test_a_mode_of_elicitation_that_the_client_lacks_is_refused(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    call(gateway, meta=envelope({"elicitation": {}}))
    a.expect("tools/call")
    a.ask(7, "elicitation/create", mode="url", url="https://example.org", elicitationId="e", message="go")
    assert a.expect_answer(7).error["code"] == -32602


def test_cancelling_reaches_the_upstream(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    id = call(gateway)
    work = a.expect("tools/call")
    gateway.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    assert a.expect("notifications/cancelled").params == {"requestId": work.id, "reason": "enough"}


def test_logs_are_sent_to_the_request_that_wants_them(puppet: Make, start: Start) -> None:
    a = puppet("a")
    gateway = started(start(a, version=None))
    id = call(gateway)
    work = a.expect("tools/call")
    a.tell("notifications/message", level="error", data="nobody asked")
    a.reply(work, {"content": []})
    assert gateway.answer(id).result["resultType"] == "complete"
    id = call(gateway, meta={**envelope(), "io.modelcontextprotocol/logLevel": "warning"})
    work = a.expect("tools/call")
    until(lambda: a.got("logging/setLevel"), "the level")
    a.tell("notifications/message", level="info", data="too low")
    a.tell("notifications/message", level="error", data="heard")
    a.reply(work, {"content": []})
    assert gateway.answer(id).result["resultType"] == "complete"
    assert [message.params["data"] for message in gateway.got("notifications/message")] == ["heard"]


def test_a_subscription_hears_what_it_asked_for(puppet: Make, start: Start) -> None:
    a = puppet("a", resources=[{"uri": "x://1", "name": "one"}])
    gateway = started(start(a, version=None))
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["x://1"]}
    id = gateway.send("subscriptions/listen", params(notifications=wanted))
    mark = {"io.modelcontextprotocol/subscriptionId": id}
    first = gateway.expect("notifications/subscriptions/acknowledged").params
    assert first == {"notifications": wanted, "_meta": mark}
    assert a.expect("resources/subscribe").params == {"uri": "x://1"}
    a.tell("notifications/resources/updated", uri="x://1")
    assert gateway.expect("notifications/resources/updated").params == {"uri": "x://1", "_meta": mark}
    a.tell("notifications/resources/updated", uri="x://2")
    a.tell("notifications/prompts/list_changed")
    a.tell("notifications/tools/list_changed")
    assert gateway.expect("notifications/tools/list_changed").params == {"_meta": mark}
    assert not gateway.got("notifications/prompts/list_changed")
    assert len(gateway.got("notifications/resources/updated")) == 1
    gateway.notify("notifications/cancelled", {"requestId": id})
    assert a.expect("resources/unsubscribe").params == {"uri": "x://1"}


def test_news_of_a_part_name_the_part(puppet: Make, start: Start) -> None:
    a = puppet("a", resources=[{"uri": "x://1", "name": "one"}])
    gateway = started(start(a, version=None))
    gateway.send("subscriptions/listen", params(notifications={"resourceSubscriptions": ["x://1"]}))
    a.expect("resources/subscribe")
    a.tell("notifications/resources/updated", uri="x://1/part")
    assert gateway.expect("notifications/resources/updated").params["uri"] == "x://1/part"


def test_a_subscription_from_before_the_first_listing_is_made_up_for(puppet: Make, start: Start) -> None:
    a = puppet("a", resources=[{"uri": "x://1", "name": "one"}])
    a.forget("resources/list")
    gateway = start(a, version=None)
    gateway.send("subscriptions/listen", params(notifications={"resourceSubscriptions": ["x://1"]}))
    assert gateway.expect("notifications/subscriptions/acknowledged")
    listing = a.expect("resources/list")
    a.reply(listing, {"resources": a.resources})
    assert a.expect("resources/subscribe").params == {"uri": "x://1"}


def speak_newer(one: Puppet, **more: Any) -> None:
    """Let it be a server of the stateless era, which says this of its list."""
    found: Json = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    listed: Json = {"resultType": "complete", "tools": one.tools, **more}
    one.on("server/discover", lambda _: {"result": found})
    one.on("tools/list", lambda _: {"result": listed})


def test_lists_may_be_kept_as_long_as_the_least_that_any_server_allows(puppet: Make, start: Start) -> None:
    a, b = puppet("a", capabilities={"tools": {}}), puppet("b", capabilities={"tools": {}})
    for one, ttl, scope in ((a, 9000, "public"), (b, 4000, "private")):
        speak_newer(one, ttlMs=ttl, cacheScope=scope)
    gateway = start(a, b, version=None)
    until(lambda: len(gateway.request("tools/list", params()).result["tools"]) == 2, "both")
    listed = gateway.request("tools/list", params()).result
    assert (listed["ttlMs"], listed["cacheScope"]) == (4000, "private")
