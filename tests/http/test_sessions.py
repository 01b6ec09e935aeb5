"""Sessions over Streamable HTTP: the handshake, where each frame goes, and how a session ends."""

from __future__ import annotations

from collections.abc import Callable

from tests.http.conftest import Serve
from tests.http.wire import SESSION, Reply
from tests.puppets import Puppet, tool

Make = Callable[..., Puppet]
TEXT = {"content": [{"type": "text", "text": "done"}]}


def test_initialize_opens_a_session_and_its_answer_is_plain_json(serve: Serve, puppet: Make) -> None:
    site = serve(puppet("a")).site
    talk = site.initialize()
    assert len(talk.id) >= 22
    assert talk.introduction.result["protocolVersion"] == SESSION
    assert [one["name"] for one in talk.request("tools/list").result["tools"]] == ["a__work"]
    reply = talk.post(talk.frame("ping"))
    assert (reply.status, reply.kind, reply.message.result) == (200, "application/json", {})
    assert reply.headers["Mcp-Session-Id"] == talk.id


def test_what_needs_no_answer_gets_202_and_nothing_else(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize()
    reply = talk.notify("notifications/roots/list_changed")
    assert (reply.status, reply.body) == (202, b"")
    reply = talk.post({"jsonrpc": "2.0", "id": 99, "result": {}})
    assert (reply.status, reply.body) == (202, b"")


def test_a_call_is_answered_by_json_unless_something_else_comes_first(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    response = talk.call("a__work")
    a.reply(a.expect("tools/call"), TEXT)
    assert Reply(response).message.result == TEXT

    response = talk.call("a__work", _meta={"progressToken": "mine"})
    asked = a.expect("tools/call")
    a.tell("notifications/progress", progressToken=asked.params["_meta"]["progressToken"], progress=1)
    reply = Reply(response)
    assert reply.kind == "text/event-stream"
    assert reply.next().params == {"progressToken": "mine", "progress": 1}
    a.reply(asked, TEXT)
    assert [message.result for message in reply.rest()] == [TEXT]


def test_a_question_comes_on_the_stream_of_its_call_and_its_answer_goes_back(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize(capabilities={"elicitation": {}})
    response = talk.call("a__work")
    asked = a.expect("tools/call")
    a.ask("q", "elicitation/create", message="which?", requestedSchema={"type": "object", "properties": {}})
    reply = Reply(response)
    question = reply.next()
    assert (question.method, question.params["message"]) == ("elicitation/create", "which?")
    talk.answer(question, {"action": "decline"})
    assert a.expect_answer("q").result == {"action": "decline"}
    a.reply(asked, TEXT)
    assert [message.result for message in reply.rest()] == [TEXT]


def test_a_question_that_belongs_to_no_single_call_comes_on_the_get_stream(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize(capabilities={"elicitation": {}})
    stream = talk.listen()
    responses = [talk.call("a__work") for _ in range(2)]
    calls = [a.expect("tools/call") for _ in responses]
    a.ask("q", "elicitation/create", message="which?", requestedSchema={"type": "object", "properties": {}})
    question = stream.next()
    assert question.method == "elicitation/create"
    talk.answer(question, {"action": "cancel"})
    assert a.expect_answer("q").result == {"action": "cancel"}
    for call in calls:
        a.reply(call, TEXT)
    for response in responses:
        reply = Reply(response)
        assert (reply.message if reply.kind == "application/json" else reply.next()).result == TEXT


def test_the_get_stream_hears_of_changed_lists(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    talk.request("tools/list")
    stream = talk.listen()
    a.tools = [tool("other")]
    a.tell("notifications/tools/list_changed")
    assert stream.next().method == "notifications/tools/list_changed"
    assert [one["name"] for one in talk.request("tools/list").result["tools"]] == ["a__other"]


def test_what_was_said_before_anybody_listened_is_not_lost(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    talk.request("tools/list")
    a.tools = [tool("other")]
    a.tell("notifications/tools/list_changed")
    a.tools = [tool("other")]
    assert talk.listen().next().method == "notifications/tools/list_changed"


def test_a_second_listener_takes_over_from_the_first(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    talk.request("tools/list")
    first = talk.listen()
    first.event()
    second = talk.listen()
    assert first.rest() == []
    a.tell("notifications/tools/list_changed")
    assert second.next().method == "notifications/tools/list_changed"


def test_delete_ends_a_session_with_its_calls_and_its_streams(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    response, stream = talk.call("a__work"), talk.listen()
    asked = a.expect("tools/call")
    assert talk.delete().status == 200
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    assert stream.rest() == []
    assert Reply(response).status in (200, 202)
    assert talk.post(talk.frame("ping")).status == 404
    assert talk.delete().status == 404


def test_a_session_that_ends_takes_its_subscriptions_with_it(serve: Serve, puppet: Make) -> None:
    a = puppet("a", resources=[{"uri": "file:///x", "name": "x"}])
    a.on("resources/subscribe", lambda _: {"result": {}})
    a.on("resources/unsubscribe", lambda _: {"result": {}})
    site = serve(a).site
    one, other = site.initialize(), site.initialize()
    for talk in (one, other):
        assert talk.request("resources/subscribe", {"uri": "file:///x"}).result == {}
    assert one.delete().status == 200
    stream = other.listen()
    a.tell("notifications/resources/updated", uri="file:///x")
    assert stream.next().params["uri"] == "file:///x"
    assert a.got("resources/unsubscribe") == []
    assert other.delete().status == 200
    talk = site.initialize()
    while not a.got("resources/unsubscribe"):
        talk.request("ping")


def test_no_session_id_is_400_and_an_unknown_one_is_404(serve: Serve, puppet: Make) -> None:
    site = serve(puppet("a")).site
    frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert site.post(frame).status == 400
    assert site.post(frame, {"Mcp-Session-Id": "nobody"}).status == 404
    assert site.ask("GET").status == 400
    assert site.ask("GET", headers={"Mcp-Session-Id": "nobody"}).status == 404
    assert site.ask("DELETE").status == 400
    assert site.ask("DELETE", headers={"Mcp-Session-Id": "nobody"}).status == 404


def test_a_session_that_could_not_be_opened_is_none(serve: Serve, puppet: Make) -> None:
    site = serve(puppet("a")).site
    reply = site.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": 5}})
    assert reply.error["code"] == -32602
    session = reply.headers["Mcp-Session-Id"]
    assert session is None or site.ask("GET", headers={"Mcp-Session-Id": session}).status == 404


def test_a_request_the_client_cancels_ends_its_response(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    response = talk.call("a__work", id=5)
    asked = a.expect("tools/call")
    talk.notify("notifications/cancelled", {"requestId": 5})
    assert a.expect("notifications/cancelled").params["requestId"] == asked.id
    assert Reply(response).rest() == []


def test_an_id_in_use_is_refused_and_the_first_call_keeps_its_response(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    response = talk.call("a__work", id="same")
    asked = a.expect("tools/call")
    again = talk.post(talk.frame("ping", id="same"))
    assert (again.status, again.error["code"], again.json["id"]) == (400, -32600, "same")
    a.reply(asked, TEXT)
    assert Reply(response).message.result == TEXT


def test_a_batch_is_answered_by_a_batch(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize("2025-03-26")
    a.on("tools/call", lambda _: {"result": TEXT})
    frames = [talk.frame("ping", id=1), talk.frame("tools/call", {"name": "a__work"}, id=2), 7]
    answers = {answer["id"]: answer for answer in talk.post([*frames]).json}
    assert answers[1]["result"] == {}
    assert answers[2]["result"] == TEXT
    assert answers[None]["error"]["code"] == -32600


def test_a_batch_with_nothing_to_answer_is_202(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize("2025-03-26")
    assert talk.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}]).status == 202


def test_a_batch_of_nothing_good_is_answered(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize("2025-03-26")
    assert [answer["error"]["code"] for answer in talk.post([1, 2]).json] == [-32600, -32600]


def test_a_version_that_nobody_speaks_is_refused_whatever_it_heads(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize()
    for version in ("1999-01-01", "2099-01-01", ""):
        wrong = {"MCP-Protocol-Version": version}
        told = talk.frame("ping")
        replies = [
            talk.post(told, wrong),
            talk.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, wrong),
            talk.site.ask("GET", None, {**talk.headers, **wrong, "Accept": "text/event-stream"}),
            talk.site.ask("DELETE", None, {**talk.headers, **wrong}),
        ]
        for reply in replies:
            assert (reply.status, reply.error["code"]) == (400, -32022)
            assert "2025-11-25" in reply.error["data"]["supported"]
        assert [reply.json["id"] for reply in replies] == [told["id"], None, None, None]
    assert talk.post(talk.frame("ping"), {"MCP-Protocol-Version": None}).status == 200


def test_a_batch_of_another_version_is_refused(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize()
    reply = talk.post([talk.frame("ping")])
    assert (reply.status, reply.error["code"]) == (400, -32600)


def test_what_the_client_accepts(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize()
    for accept, status in (
        ("application/json, text/event-stream", 200),
        ("*/*", 200),
        (None, 200),
        ("Application/JSON", 200),
        ("application/*", 200),
        ("text/html", 406),
        ("text/event-stream", 406),
    ):
        assert talk.post(talk.frame("ping"), {"Accept": accept}).status == status, accept


def test_a_client_that_wants_no_stream_gets_only_the_answer(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    talk = serve(a).site.initialize()
    body = talk.frame("tools/call", {"name": "a__work", "_meta": {"progressToken": 1}})

    def answer(message: object) -> None:
        asked = a.got("tools/call")[0]
        a.tell("notifications/progress", progressToken=asked.params["_meta"]["progressToken"], progress=1)
        a.reply(asked, TEXT)

    a.on("tools/call", answer)
    assert talk.post(body, {"Accept": "application/json"}).message.result == TEXT


def test_a_body_that_is_not_json_is_415_or_400(serve: Serve, puppet: Make) -> None:
    talk = serve(puppet("a")).site.initialize()
    for kind in ("text/plain", "application/json-seq", None):
        assert talk.post(talk.frame("ping"), {"Content-Type": kind}).status == 415
    assert talk.post(talk.frame("ping"), {"Content-Type": "application/json; charset=utf-8"}).status == 200
    reply = talk.site.ask("POST", None, talk.headers, b"{nothing")
    assert (reply.status, reply.error["code"]) == (400, -32700)


def test_a_method_that_is_not_there_is_405_and_says_which_are(serve: Serve, puppet: Make) -> None:
    site = serve(puppet("a")).site
    reply = site.ask("PUT")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, POST, DELETE")
    assert (site.ask("POST", "/sse").status, site.ask("GET", "/messages").headers["Allow"]) == (405, "POST")
    assert site.ask("GET", "/nowhere").status == 404
