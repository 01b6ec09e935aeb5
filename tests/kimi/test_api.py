"""The four tools over the HTTP API, through a real server process."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.kimi import moonshot
from tests.kimi.conftest import Serve
from tests.kimi.moonshot import Moonshot, Raw, Reply, Say


def test_all_four_tools_answer_and_the_writing_ones_say_that_nothing_changed(
    serve: Serve, api: Moonshot, project: Path
) -> None:
    peer = serve()
    for tool in ("kimi_analyze", "kimi_verify"):
        assert peer.call(tool, prompt="Is it well?") == (False, "All is well.")
    for tool in ("kimi_implement", "kimi_refactor"):
        failed, text = peer.call(tool, prompt="Make it so")
        assert not failed
        *_, last = text.splitlines()
        assert text.startswith("All is well.")
        assert "No file was changed" in last and "@moonshot-ai/kimi-code" in last
        assert "unified diff" in api.prompt()
    assert "Safety checks" in api.prompt()
    assert {request["model"] for request in api.requests} == {"kimi-k2.6"}
    assert set(api.keys) == {"Bearer sk-test-123"}
    assert list(project.iterdir()) == []


FAILURES: list[tuple[Reply, str]] = [
    (moonshot.UNAUTHORISED, "auth"),
    (moonshot.RATE_LIMITED, "rate_limit"),
    (moonshot.NO_QUOTA, "quota"),
    (moonshot.OVERLOADED, "overloaded"),
    (moonshot.BROKEN, "overloaded"),
    (moonshot.Fail(503, "server_error", "Service unavailable"), "overloaded"),
    (moonshot.NO_MODEL, "model_not_found"),
    (moonshot.BAD_REQUEST, "failed"),
    (moonshot.TOO_LONG, "context_too_long"),
    (moonshot.FILTERED, "content_filter"),
    (moonshot.Fail(401, "invalid_authentication_error", "No such key: sk-test-123"), "auth"),
    (moonshot.EMPTY, "failed"),
    (Say("Half an ans", finish="length"), "failed"),
    (Say("Half an ans", finish="content_filter"), "content_filter"),
    (Say("Half an ans", finish=None, done=False), "failed"),
    (Say("Half an ans", finish=None, done=True), "failed"),
]


def test_a_failure_gets_its_kind_first_and_never_half_an_answer(serve: Serve, api: Moonshot) -> None:
    peer = serve()
    for reply, kind in FAILURES:
        api.says(reply)
        failed, text = peer.call("kimi_analyze", prompt="Is it well?")
        assert failed, reply
        assert text.startswith(f"{kind}: "), (reply, text)
        assert "Half an ans" not in text and "sk-test-123" not in text
        if isinstance(reply, moonshot.Fail):
            assert reply.message.replace("sk-test-123", "***") in text
    assert len(api.requests) == len(FAILURES), "a failure was retried"


WHOLE = b'data: {"choices":[{"delta":{"content":"Whole."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ODD = b"data: [1]\n\n" + b"".join(
    b'data: {"choices":%b}\n\n' % odd for odd in (b"null", b'{"a":1}', b'[1,{"delta":5}]')
)
HALVES_OF_AN_EMOJI = (
    rb'data: {"choices":[{"delta":{"content":"a\ud83d"}}]}' + b"\n\n"
    rb'data: {"choices":[{"delta":{"content":"\ude00b\ud83d"},"finish_reason":"stop"}]}' + b"\n\n"
)
NOT_STREAMED = b'{"choices":[{"message":{"content":"Whole."},"finish_reason":"stop"}]}'
BUSY = b'{"type":"engine_overloaded_error","message":"busy"}'
HALF = b'data: {"choices":[{"delta":{"content":"Half an ans"}}]}\n\n'


def test_odd_but_whole_answers_come_whole(serve: Serve, api: Moonshot) -> None:
    peer = serve()
    for reply, answer in (
        (Raw(ODD + WHOLE), "Whole."),
        (Raw(WHOLE.replace(b'{"choices"', b'{"error":null,"choices"')), "Whole."),
        (Raw(NOT_STREAMED, "application/json"), "Whole."),
        (Raw(HALVES_OF_AN_EMOJI), "a\U0001f600b\ufffd"),
    ):
        api.says(reply)
        assert peer.call("kimi_analyze", prompt="x") == (False, answer), reply


def test_odd_failures_get_their_kind(serve: Serve, api: Moonshot) -> None:
    peer = serve()
    for reply, words in (
        (Raw(HALF + b"data: {nope\n\n"), "failed: the answer was cut off"),
        (Raw(HALF + b"event: error\ndata: %b\n\n" % BUSY), "overloaded: "),
        (Raw(b'{"error":%b}' % BUSY, "application/json"), "overloaded: "),
        (Raw(b"<html>Log in</html>", "text/html"), "failed: "),
        (Say("Half an ans", finish="tool_calls"), "failed: the answer was cut off"),
        (Raw(b"", status=413), "context_too_long: 413"),
        (Raw(b"", status=307, location="http://127.0.0.1:9/x"), "connection: "),
    ):
        api.says(reply)
        failed, text = peer.call("kimi_analyze", prompt="x")
        assert failed and text.startswith(words), (reply, text)
        assert "Half an ans" not in text
    assert "points to http://127.0.0.1:9/x" in text


def test_the_address_may_be_a_host_or_all_of_it(serve: Serve, api: Moonshot) -> None:
    for address in (api.url.removesuffix("/v1"), f"{api.url}//", f"{api.url}/chat/completions"):
        assert serve(KIMI_BASE_URL=address).call("kimi_analyze", prompt="x") == (False, "All is well.")


def test_an_environment_no_client_can_be_made_in_is_a_connection_error(serve: Serve) -> None:
    for name, value in (("ALL_PROXY", "foo://x"), ("HTTPS_PROXY", "http://[::bad"), ("SSL_CERT_FILE", "/nowhere.pem")):
        failed, text = serve(**{name: value}).call("kimi_analyze", prompt="x")
        assert failed and text.startswith("connection: a proxy or SSL variable"), text


def test_a_refused_connection_names_the_address(serve: Serve) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        failed, text = serve(KIMI_BASE_URL=url).call("kimi_analyze", prompt="Anyone?")
    assert failed and text.startswith("connection: ") and url in text


def test_without_cli_and_key_the_error_says_what_to_install_or_set(serve: Serve) -> None:
    peer = serve(MOONSHOT_API_KEY="", KIMI_API_KEY="")
    failed, text = peer.call("kimi_analyze", prompt="Anyone?")
    assert failed and text.startswith("cli_missing: ")
    assert "npm install -g @moonshot-ai/kimi-code" in text and "MOONSHOT_API_KEY" in text
    failed, text = serve(MOONSHOT_API_KEY=" ", KIMI_MCP_BACKEND="api").call("kimi_analyze", prompt="Anyone?")
    assert failed and text.startswith("auth: ") and "MOONSHOT_API_KEY" in text
    failed, text = serve(KIMI_MCP_BACKEND="cli").call("kimi_analyze", prompt="Anyone?")
    assert failed and text.startswith("cli_missing: ")


def test_the_second_key_counts_where_the_first_is_empty(serve: Serve, api: Moonshot) -> None:
    peer = serve(MOONSHOT_API_KEY="", KIMI_API_KEY="sk-2")
    assert peer.call("kimi_analyze", prompt="x") == (False, "All is well.")
    assert api.keys == ["Bearer sk-2"]


def test_the_timeout_is_kept_and_the_error_says_what_to_do(serve: Serve, api: Moonshot) -> None:
    api.says(moonshot.Hang())
    peer = serve()
    # How long a request needs to get out is the machine's affair: where it was too short, it gets more.
    for seconds in (0.5, 5, 50):
        failed, text = peer.call("kimi_analyze", prompt="Think", timeout=seconds)
        assert failed and text.startswith("timeout: ") and f"within {seconds:g} s" in text
        assert "takes minutes" in text and "`timeout`" in text
        if api.requests:
            break
    api.wait_until_left()


def test_what_fits_arrives_whole_and_what_does_not_is_refused_before_it_is_sent(
    serve: Serve, api: Moonshot, project: Path
) -> None:
    content = "".join(f"line {number:06}\n" for number in range(25_000))
    (project / "big.txt").write_text(content)
    assert (project / "big.txt").stat().st_size == 300_000
    (project / "huge.txt").write_text("x" * 1_100_000)
    (project / "most.txt").write_text("x" * 1_000_000)
    peer = serve()
    assert peer.call("kimi_analyze", prompt="Read", files=["big.txt"]) == (False, "All is well.")
    assert content in api.prompt()
    failed, text = peer.call("kimi_analyze", prompt="Read", files=["huge.txt"])
    assert failed and text.startswith("invalid_input: huge.txt: too large (1,100,000 bytes")
    failed, text = peer.call("kimi_analyze", prompt="Read", files=["most.txt", "big.txt"])
    assert failed and text.startswith("context_too_long: ") and "nothing was sent" in text
    failed, text = peer.call("kimi_analyze", prompt="Read", files=["big.txt", "gone.txt", ".."])
    assert failed and text.startswith("invalid_input: gone.txt: missing; ..: outside the allowed directories")
    assert len(api.requests) == 1
