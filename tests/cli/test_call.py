"""`kimi-gateway call`."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import DEMO, Place
from tests.client import Json
from tests.puppets import Puppet, tool

PIXEL = base64.b64encode(b"\x89PNG not really").decode()
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "minimum": 18},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "note": {"type": "string"},
    },
    "required": ["name", "age"],
}


@pytest.fixture
def a(place: Place, puppet: Callable[..., Puppet]) -> Puppet:
    """A server whose tool `work` the test answers."""
    made = puppet("a", tools=[tool("work"), tool("other-work")])
    place.configure({"a": made.entry})
    return made


def answer(a: Puppet, result: Json | bytes) -> None:
    def reply(message: Any) -> None:
        a.reply(message, result)

    a.on("tools/call", reply)


def words(text: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], **more}


def test_arguments_follow_the_schema(place: Place) -> None:
    place.configure({"demo": DEMO})
    done = place.run("call", "demo:add", "a=1", "b=2.5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.5\n", "")


def test_the_name_on_the_wire_will_do_and_starts_only_its_server(place: Place, a: Puppet) -> None:
    place.configure({"demo": DEMO, "a": a.entry})
    assert place.run("call", "demo__echo", "text=7").stdout == "7\n"
    assert a.starts == 0


def test_an_object_is_sent_as_it_is_spelled(place: Place, a: Puppet) -> None:
    answer(a, words("done"))
    spelled = '{"n": 123456789012345678901234567890, "x": 1.10, "s": "\\ud83d"}'
    assert place.run("call", "a:work", spelled).returncode == 0
    (call,) = a.got("tools/call")
    assert b'"arguments":' + spelled.encode() in call.raw


def test_a_tool_that_says_it_failed_is_exit_code_1(place: Place, a: Puppet) -> None:
    answer(a, words("no such file", isError=True))
    done = place.run("call", "a:work")
    assert (done.returncode, done.stdout) == (1, "no such file\n")


def test_a_refusal_is_a_line_and_exit_code_1(place: Place, a: Puppet) -> None:
    a.on("tools/call", lambda _: {"error": {"code": -32602, "message": "bad arguments", "data": {"at": "x"}}})
    done = place.run("call", "a:work")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'a:work: bad arguments (error -32602) {"at": "x"}\n'


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("a:wrok", "there is no tool 'a:wrok'. Did you mean a:work?"),
        ("b:work", "there is no server 'b'."),
        ("wokr", "Did you mean a:work?"),
        ("a:zzzzzz", "`kimi-gateway tools` lists all there are."),
    ],
)
def test_a_name_that_nobody_has_is_answered_with_the_nearest(place: Place, a: Puppet, name: str, hint: str) -> None:
    done = place.run("call", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr and done.stderr.count("\n") == 1


def test_a_servers_misspelled_name_is_answered_without_starting_any(
    place: Place, puppet: Callable[..., Puppet]
) -> None:
    github = puppet("github")
    place.configure({"github": github.entry})
    assert "Did you mean github?" in place.run("call", "gihtub:work").stderr
    assert github.starts == 0


@pytest.mark.parametrize("name", ["a:work", "a__work"])
def test_a_hidden_tool_says_what_hides_it(place: Place, a: Puppet, name: str) -> None:
    place.configure({"a": {**a.entry, "tools": {"deny": ["work"]}}})
    done = place.run("call", name)
    assert done.returncode == 2 and 'hidden by deny "work"' in done.stderr


def test_a_server_that_is_switched_off_says_so(place: Place, a: Puppet) -> None:
    place.run("tools")  # what it has is known
    place.configure({"a": {**a.entry, "enabled": False}})
    done = place.run("call", "a:work")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kimi-gateway: a is disabled. Run `kimi-gateway enable a` to use it.\n"


@pytest.mark.parametrize("word", ['{"a": NaN}', "a=NaN", "a=1e999", "[1]"])
def test_arguments_that_cannot_be_sent_are_wrong_usage_in_one_line(place: Place, word: str) -> None:
    place.configure({"demo": DEMO})
    done = place.run("call", "demo:add", word, *(("b=1",) if "=" in word else ()))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_server_that_cannot_be_started_says_why(place: Place) -> None:
    place.configure({"gone": {"command": "no-such-program"}})
    done = place.run("call", "gone:x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kimi-gateway: gone failed: command not found: no-such-program.")


def test_a_misspelled_parameter_is_pointed_out_and_sent(place: Place) -> None:
    place.configure({"demo": DEMO})
    done = place.run("call", "demo:echo", "text=x", "txet=y")
    assert done.returncode == 0 and "It has no parameter 'txet'. Did you mean text?" in done.stderr


def test_images_and_sound_go_to_files_and_it_is_said_where(place: Place, a: Puppet, tmp_path: Path) -> None:
    content = [
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "x://y", "blob": PIXEL, "mimeType": "application/pdf"}},
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
    ]
    answer(a, {"content": content})
    directory = tmp_path / "out"
    for round in (1, 2):
        done = place.run("call", "a:work", "--output", str(directory))
        files = [Path(line.rsplit(": ", 1)[1]) for line in done.stdout.splitlines()]
        assert [file.suffix for file in files] == [".png", ".wav", ".pdf"]
        assert all(file.parent == directory and file.read_bytes() == base64.b64decode(PIXEL) for file in files)
        assert "not base64" in done.stderr
        assert len(list(directory.iterdir())) == 3 * round  # nothing is written over


def test_without_output_files_go_to_a_temporary_directory(place: Place, a: Puppet, tmp_path: Path) -> None:
    place.variables["TMPDIR"] = str(tmp_path)
    answer(a, {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/jpeg"}]})
    file = Path(place.run("call", "a:work").stdout.strip().rsplit(": ", 1)[1])
    assert file.suffix == ".jpg" and tmp_path in file.parents and file.exists()
    assert not list(place.project.iterdir())


def test_links_and_embedded_text_are_shown(place: Place, a: Puppet) -> None:
    content = [
        {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "x://y", "text": "embedded"}},
        {"type": "hologram", "of": "the future"},
    ]
    answer(a, {"content": content})
    shown = place.run("call", "a:work").stdout
    assert shown == 'resource file:///x (x; text/plain)\nembedded\n{"type": "hologram", "of": "the future"}\n'


@pytest.mark.parametrize(("text", "times"), [('{"n": 1}', 1), ("in other words", 2)])
def test_structured_content_is_shown_unless_the_text_is_the_same(
    place: Place, a: Puppet, text: str, times: int
) -> None:
    answer(a, words(text, structuredContent={"n": 1}))
    shown = place.run("call", "a:work").stdout
    assert text in shown and '"n": 1' in shown
    assert len(shown.split("\n", 1)[1].strip()) == (0 if times == 1 else len('{\n  "n": 1\n}'))


def test_json_prints_the_whole_result(place: Place, a: Puppet) -> None:
    result = words("hello", structuredContent={"n": 1}, _meta={"x": "y"})
    answer(a, result)
    assert place.json("call", "a:work") == result


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_loses_no_character(place: Place, a: Puppet, encoding: str) -> None:
    answer(a, b'{"content":[{"type":"text","text":"half \\ud83d, \\u65e5"}]}')
    place.variables["PYTHONIOENCODING"] = encoding
    done = place.run("call", "a:work", "--json")
    assert json.loads(done.stdout)["content"][0]["text"] == "half \ud83d, \u65e5"


def test_progress_is_shown_and_not_in_the_output(place: Place, a: Puppet) -> None:
    def work(message: Any) -> None:
        token = message.params["_meta"]["progressToken"]
        a.tell("notifications/progress", progressToken=token, progress=1, total=2, message="half")
        a.reply(message, words("done"))

    a.on("tools/call", work)
    done = place.run("call", "a:work")
    assert (done.stdout, done.stderr) == ("done\n", "progress 1/2 half\n")


def test_progress_is_one_line_on_a_terminal(place: Place, a: Puppet) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    token = call.params["_meta"]["progressToken"]
    a.tell("notifications/progress", progressToken=token, progress=1, message="x" * 200)
    screen.expect("progress 1 xxx")
    a.reply(call, words("done"))
    assert screen.wait() == 0
    assert "\n" not in screen.text[screen.text.index("progress") : screen.text.index("done")]
    assert screen.lines[-2].endswith("done")


# What an upstream asks


def ask(a: Puppet, id: str = "q", **params: Any) -> None:
    a.ask(id, "elicitation/create", **params)


def test_a_form_is_filled_in_on_a_terminal(place: Place, a: Puppet) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    ask(a, message="Who are you?", requestedSchema=FORM)
    screen.expect("a asks: Who are you?")
    screen.expect("Your name (string): ")
    screen.type("\n")
    screen.expect("It needs an answer.")
    screen.type("Ada\n")
    screen.expect("age (integer): ")
    screen.type("seventeen\n")
    screen.expect("age must be integer")
    screen.type("17\n")
    screen.expect("at least 18")
    screen.type("36\n")
    screen.expect("2. green")
    screen.expect("[red]: ")
    screen.type("2\n")
    screen.expect("note (string, may be empty): ")
    screen.type("\n")
    screen.expect("Send this? [Y/n] ")
    screen.type("\n")
    content = {"name": "Ada", "age": 36, "colour": "green"}
    assert a.expect_answer("q").result == {"action": "accept", "content": content}
    a.reply(call, words("hello Ada"))
    assert screen.wait() == 0
    assert "hello Ada" in screen.text


@pytest.mark.parametrize(("typed", "action"), [("x\nn\n", "decline"), ("\x04", "cancel")])
def test_a_form_can_be_declined_and_cancelled(place: Place, a: Puppet, typed: str, action: str) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    ask(a, message="Well?", requestedSchema={"type": "object", "properties": {"x": {"type": "string"}}})
    screen.expect("x (string, may be empty): ")
    for key in typed.splitlines(keepends=True):
        screen.type(key)
    assert a.expect_answer("q").result == {"action": action}
    a.reply(call, words("never mind"))
    assert screen.wait() == 0


@pytest.mark.parametrize(("typed", "action"), [("y\n", "accept"), ("\n", "decline")])
def test_an_address_is_shown_and_never_opened_unasked(place: Place, a: Puppet, typed: str, action: str) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    ask(a, mode="url", message="Pay first.", url="https://pay.example.test/?a=b", elicitationId="1")
    screen.expect("https://pay.example.test/?a=b")
    screen.expect("Do you agree? [y/N] ")
    screen.type(typed)
    assert a.expect_answer("q").result == {"action": action}
    a.reply(call, words("thanks"))
    assert screen.wait() == 0


def test_without_a_terminal_it_is_declined(place: Place, a: Puppet) -> None:
    def work(message: Any) -> None:
        ask(a, message="Who are you?", requestedSchema=FORM)
        declined.append(message)

    declined: list[Any] = []
    a.on("tools/call", work)

    def finish() -> None:
        assert a.expect_answer("q").result == {"action": "decline"}
        a.reply(declined[0], words("without you, then"))

    helper = threading.Thread(target=finish)
    helper.start()
    done = place.run("call", "a:work")
    helper.join()
    assert (done.returncode, done.stdout) == (0, "without you, then\n")
    assert "a asks: Who are you?\nDeclined, as there is no terminal to ask on." in done.stderr


def test_a_question_that_is_withdrawn_is_not_asked_on(place: Place, a: Puppet) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    ask(a, message="Who are you?", requestedSchema=FORM)
    screen.expect("Your name")
    a.tell("notifications/cancelled", requestId="q")
    screen.expect("no longer waits")
    a.reply(call, words("done"))
    assert screen.wait() == 0


def test_what_it_can_answer_is_declared_and_nothing_else(place: Place, a: Puppet) -> None:
    answer(a, words("done"))
    place.run("call", "a:work")
    (hello,) = a.got("initialize")
    assert hello.params["capabilities"] == {"elicitation": {"form": {}, "url": {}}}


def test_ctrl_c_cancels_upstream(place: Place, a: Puppet) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    screen.type("\x03")
    cancelled = a.expect("notifications/cancelled")
    assert cancelled.params["requestId"] == call.id
    assert screen.wait() == 130
    assert "Traceback" not in screen.text


def test_ctrl_c_at_a_question_cancels_upstream_too(place: Place, a: Puppet) -> None:
    screen = place.terminal("call", "a:work")
    call = a.expect("tools/call")
    ask(a, message="Who are you?", requestedSchema=FORM)
    screen.expect("Your name")
    screen.type("\x03")
    assert a.expect("notifications/cancelled").params["requestId"] == call.id
    assert screen.wait() == 130


def test_a_hostile_answer_does_not_steer_the_terminal(place: Place, a: Puppet) -> None:
    answer(a, words("\x1b]0;owned\x07\x1b[2Jhello\x9b"))
    screen = place.terminal("call", "a:work")
    assert screen.wait() == 0
    assert "hello" in screen.text and "\x1b]" not in screen.raw and "\x1b[2J" not in screen.raw
    assert json.dumps(place.run("call", "a:work").stdout) == json.dumps("\x1b]0;owned\x07\x1b[2Jhello\x9b\n")
