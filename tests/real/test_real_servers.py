"""Real published servers, all at once behind one gateway: what they list and answer directly, they do through it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.naming import wire_names
from tests.client import Gateway, Message
from tests.real.compare import Json, Listings, differences, listings
from tests.real.conftest import EVERYTHING, Installed, Place
from tests.real.direct import Direct, Http, Sse

CAPABILITIES: Json = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
SAMPLE: Json = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m", "stopReason": "endTurn"}
CHOICE: Json = {"action": "accept", "content": {"name": "Ada", "check": True, "integer": 3}}
FRESH = re.compile(r"\d{1,2}:\d{2}:\d{2}(?: [AP]M)?|\d{4}-\d{2}-\d{2}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Times and identifiers, new in every answer."""

Speak = Callable[[str, Json], Json]
"""A request and the whole answer to it."""

CALLS: dict[str, list[tuple[str, Json]]] = {
    "everything": [
        ("echo", {"message": "Grüße \U0001f600"}),
        ("get-sum", {"a": 0.1, "b": 2}),
        ("get-sum", {"a": "not a number"}),
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "New York"}),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("get-annotated-message", {"messageType": "debug"}),
        ("get-resource-links", {"count": 4}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 0}),
        ("simulate-research-query", {"topic": "without a task"}),
        ("trigger-sampling-request", {"prompt": "What is it?", "maxTokens": 7}),
        ("trigger-elicitation-request", {}),
        ("trigger-url-elicitation", {"url": "https://example.org/x", "message": "Go", "elicitationId": "e-1"}),
        (
            "trigger-url-elicitation",
            {"url": "https://e.org", "message": "m", "elicitationId": "e-2", "errorPath": True},
        ),
        ("get-roots-list", {}),
    ],
    "files": [
        ("list_allowed_directories", {}),
        ("list_directory", {"path": "{files}"}),
        ("read_text_file", {"path": "{files}/hello.txt"}),
        ("read_text_file", {"path": "/nowhere"}),
        ("write_file", {"path": "{files}/new.txt", "content": "new"}),
        ("directory_tree", {"path": "{files}"}),
    ],
    "git": [
        ("git_status", {"repo_path": "{repository}"}),
        ("git_log", {"repo_path": "{repository}"}),
        ("git_diff_unstaged", {"repo_path": "{repository}"}),
        ("git_show", {"repo_path": "{repository}", "revision": "nothing"}),
    ],
    "memory": [
        ("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]}),
        ("search_nodes", {"query": "counts"}),
        ("read_graph", {}),
    ],
    "time": [
        ("get_current_time", {"timezone": "UTC"}),
        ("convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}),
        ("convert_time", {"source_timezone": "Nowhere/None", "time": "12:30", "target_timezone": "UTC"}),
    ],
}
PROMPTS: list[tuple[str, Json]] = [
    ("simple-prompt", {}),
    ("args-prompt", {"city": "Kyiv", "state": "x"}),
    ("args-prompt", {}),
    ("completable-prompt", {"department": "Sales", "name": "Eve"}),
    ("resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
]


def entries(installed: Installed, place: Place, side: str) -> dict[str, Json]:
    """The configuration of all that speak stdio. Each side has a memory of its own."""

    def entry(command: list[str], **env: str) -> Json:
        return {"command": command[0], "args": command[1:], **({"env": env} if env else {})}

    memory = str(place.directory / f"memory-{side}.jsonl")
    return {
        "everything": entry(installed.npm(EVERYTHING)),
        "files": entry(installed.npm("@modelcontextprotocol/server-filesystem", str(place.files))),
        "memory": entry(installed.npm("@modelcontextprotocol/server-memory"), MEMORY_FILE_PATH=memory),
        "git": entry(installed.pypi("mcp-server-git", "--repository", str(place.repository))),
        "time": entry(installed.pypi("mcp-server-time", "--local-timezone", "UTC")),
    }


def answering(place: Place) -> dict[str, Callable[[Any], Json]]:
    """How a client with all capabilities answers."""
    return {
        "roots/list": lambda _: {"roots": [{"uri": place.files.as_uri(), "name": "files"}]},
        "sampling/createMessage": lambda _: SAMPLE,
        "elicitation/create": lambda _: CHOICE,
    }


def introduced(direct: Direct, place: Place) -> Direct:
    for method, handler in answering(place).items():
        direct.on(method, handler)
    direct.introduce(CAPABILITIES)
    return direct


def gateway_of(place: Place, servers: dict[str, Json], stack: ExitStack) -> Gateway:
    gateway = stack.enter_context(Gateway(place.directory, servers))
    for method, handler in answering(place).items():
        gateway.on(method, handler)
    gateway.initialize(capabilities=CAPABILITIES)
    return gateway


def through(gateway: Gateway) -> Speak:
    return lambda method, params: gateway.request(method, params).json


def same_listings(direct: dict[str, Direct], gateway: Gateway) -> dict[str, Listings]:
    """Wait until the gateway lists exactly what the servers list themselves, but for the names."""
    lists = {name: listings(one.request) for name, one in direct.items()}
    while found := differences(lists, listings(through(gateway))):
        try:
            gateway.expect("notifications/tools/list_changed")
        except AssertionError:
            raise AssertionError(json.dumps(found, indent=1)) from None
    return lists


def outcome(answer: Json) -> Json:
    """A result or an error, without what is new in every answer."""
    kept = {key: answer[key] for key in ("result", "error") if key in answer}
    return json.loads(FRESH.sub("<new>", json.dumps(kept, ensure_ascii=False)))


def filled(arguments: Json, place: Place) -> Json:
    text = json.dumps(arguments).replace("{files}", str(place.files))
    return json.loads(text.replace("{repository}", str(place.repository)))


def same_calls(
    calls: list[tuple[str, Json]], names: dict[str, str], direct: Direct, speak: Speak, place: Place
) -> None:
    for tool, arguments in calls:
        given = filled(arguments, place)
        expected = direct.request("tools/call", {"name": tool, "arguments": given})
        got = speak("tools/call", {"name": names[tool], "arguments": given})
        assert outcome(got) == outcome(expected), tool


def same_prompts(names: dict[str, str], direct: Direct, speak: Speak) -> None:
    for prompt, arguments in PROMPTS:
        expected = direct.request("prompts/get", {"name": prompt, "arguments": arguments})
        got = speak("prompts/get", {"name": names[prompt], "arguments": arguments})
        assert outcome(got) == outcome(expected), prompt
    asked: Json = {"argument": {"name": "name", "value": ""}, "context": {"arguments": {"department": "Sales"}}}
    prompt = "completable-prompt"
    expected = direct.request("completion/complete", {"ref": {"type": "ref/prompt", "name": prompt}, **asked})
    got = speak("completion/complete", {"ref": {"type": "ref/prompt", "name": names[prompt]}, **asked})
    assert outcome(got) == outcome(expected)


def all_same(direct: dict[str, Direct], gateway: Gateway, place: Place) -> dict[str, Listings]:
    """Every list, and calls, prompts and resources of every server: the same directly and through the gateway."""
    lists = same_listings(direct, gateway)
    tools = wire_names({name: [tool["name"] for tool in lists[name]["tools"]] for name in lists})
    prompts = wire_names({name: [prompt["name"] for prompt in lists[name]["prompts"]] for name in lists})
    speak = through(gateway)
    for name, one in direct.items():
        kind = "everything" if name.startswith("everything") else name
        same_calls(CALLS[kind], tools[name], one, speak, place)
        if lists[name]["prompts"]:
            same_prompts(prompts[name], one, speak)
    return lists


@pytest.mark.timeout(400)
def test_what_real_servers_list_and_answer_they_do_through_the_gateway(installed: Installed, place: Place) -> None:
    with ExitStack() as stack:
        gateway = gateway_of(place, entries(installed, place, "gateway"), stack)
        servers = entries(installed, place, "direct")
        direct = {name: introduced(stack.enter_context(place.direct(servers[name])), place) for name in servers}
        lists = all_same(direct, gateway, place)
        assert [len(lists[name]["tools"]) for name in ("files", "memory", "git", "time")] == [14, 9, 12, 2]
        assert f"everything__{lists['everything']['tools'][0]['name']}" in gateway.tool_names()
        for resource in lists["everything"]["resources"]:
            read: Json = {"uri": resource["uri"]}
            assert gateway.request("resources/read", read).json["result"] == direct["everything"].request(
                "resources/read", read
            ).get("result")
        for uri in ("demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/0"):
            expected = direct["everything"].request("resources/read", {"uri": uri})
            assert outcome(gateway.request("resources/read", {"uri": uri}).json) == outcome(expected)
        # Listed by nobody, matched by nobody's template: it is not tried on one server after the other.
        assert gateway.request("resources/read", {"uri": "demo://resource/none"}).error["code"] == -32002


def test_everything_that_server_everything_can_do_works_through_the_gateway(installed: Installed, place: Place) -> None:
    with ExitStack() as stack:
        gateway = gateway_of(place, {"everything": entries(installed, place, "gateway")["everything"]}, stack)
        wait_for_tool(gateway, "everything__get-roots-list")
        does_everything(gateway, "everything", place)


def wait_for_tool(gateway: Gateway, name: str) -> None:
    while name not in gateway.tool_names():
        gateway.expect("notifications/tools/list_changed")


def does_everything(gateway: Gateway, server: str, place: Place) -> None:
    gateway.request("logging/setLevel", {"level": "debug"})
    shows_progress(gateway, server)
    asks_the_client(gateway)
    logs(gateway, server)
    updates_resources(gateway, server)
    learns_new_roots(gateway, server, place)


def shows_progress(gateway: Gateway, server: str) -> None:
    work: Json = {"duration": 0.6, "steps": 3}
    answer = gateway.call(f"{server}__trigger-long-running-operation", work, _meta={"progressToken": "p"})
    assert "Long running operation completed" in answer.text
    progress = [message.params for message in gateway.got("notifications/progress")]
    assert [(one["progressToken"], one["progress"], one["total"]) for one in progress] == [
        ("p", n, 3) for n in (1, 2, 3)
    ]


def asks_the_client(gateway: Gateway) -> None:
    asked: dict[str, list[Message]] = {"sampling/createMessage": [], "elicitation/create": []}

    def answer_with(method: str, answer: Json) -> Callable[[Message], Json]:
        return lambda message: asked[method].append(message) or answer

    gateway.on("sampling/createMessage", answer_with("sampling/createMessage", SAMPLE))
    gateway.on("elicitation/create", answer_with("elicitation/create", {"action": "decline"}))
    name = next(name for name in gateway.tool_names() if "sampling-request" in name)
    assert '"text": "42"' in gateway.call(name, {"prompt": "Why?", "maxTokens": 9}).text
    assert asked["sampling/createMessage"][0].params["maxTokens"] == 9
    name = next(name for name in gateway.tool_names() if "elicitation-request" in name)
    assert "declined" in gateway.call(name).text
    assert asked["elicitation/create"][0].params["requestedSchema"]["required"] == ["name"]


def logs(gateway: Gateway, server: str) -> None:
    assert "Started" in gateway.call(f"{server}__toggle-simulated-logging").text
    while "level" not in str(gateway.expect("notifications/message").params["data"]):
        continue  # it also logs the roots it was given
    assert "Stopped" in gateway.call(f"{server}__toggle-simulated-logging").text


def updates_resources(gateway: Gateway, server: str) -> None:
    uri = gateway.request("resources/list").result["resources"][0]["uri"]
    assert gateway.request("resources/subscribe", {"uri": uri}).result == {}
    assert "Started" in gateway.call(f"{server}__toggle-subscriber-updates").text
    assert gateway.expect("notifications/resources/updated").params == {"uri": uri}
    assert "Stopped" in gateway.call(f"{server}__toggle-subscriber-updates").text
    assert gateway.request("resources/unsubscribe", {"uri": uri}).result == {}


def learns_new_roots(gateway: Gateway, server: str, place: Place) -> None:
    assert place.files.as_uri() in gateway.call(f"{server}__get-roots-list").text
    roots = [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b"}]
    gateway.on("roots/list", lambda _: {"roots": roots})
    gateway.notify("notifications/roots/list_changed")
    gateway.expect("notifications/message", data="Roots updated: 2 root(s) received from client")
    assert "file:///b" in gateway.call(f"{server}__get-roots-list").text


@pytest.mark.parametrize(("type", "transport", "path"), [("sse", "sse", "sse"), ("http", "streamableHttp", "mcp")])
def test_everything_that_server_everything_can_do_works_over_the_web_too(
    everything_over: Callable[[str], int], place: Place, type: str, transport: str, path: str
) -> None:
    url = f"http://127.0.0.1:{everything_over(transport)}/{path}"
    with ExitStack() as stack:
        gateway = gateway_of(place, {"web": {"type": type, "url": url}}, stack)
        wait_for_tool(gateway, "web__get-roots-list")
        does_everything(gateway, "web", place)


@pytest.mark.timeout(400)
def test_one_server_over_three_transports_at_once_with_all_the_others(
    installed: Installed, place: Place, everything_over: Callable[[str], int]
) -> None:
    sse = f"http://127.0.0.1:{everything_over('sse')}/sse"
    http = f"http://127.0.0.1:{everything_over('streamableHttp')}/mcp"
    web: dict[str, Json] = {
        "everything-http": {"type": "http", "url": http},
        "everything-sse": {"type": "sse", "url": sse},
    }
    with ExitStack() as stack:
        gateway = gateway_of(place, {**entries(installed, place, "gateway"), **web}, stack)
        servers = entries(installed, place, "direct")
        direct = {name: introduced(stack.enter_context(place.direct(servers[name])), place) for name in servers}
        direct["everything-sse"] = introduced(stack.enter_context(Sse(sse)), place)
        direct["everything-http"] = introduced(stack.enter_context(Http(http)), place)
        all_same(direct, gateway, place)
