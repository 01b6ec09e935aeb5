"""The end of a gateway that serves: everybody hears of it, and nothing is left."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
from collections.abc import Callable

from tests.faults.processes import descendants, gone
from tests.http.conftest import Serve
from tests.http.test_stateless import began
from tests.http.wire import PREFIX, Reply
from tests.puppets import Puppet

Make = Callable[..., Puppet]


def test_a_gateway_that_is_told_to_stop_tells_everybody_and_stops(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    served = serve(a)
    site = served.site
    talk = site.initialize()
    talk.request("tools/list")
    listening, common, old = (
        site.stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7),
        talk.listen(),
        site.ask("GET", "/sse"),
    )
    assert listening.next().method == "notifications/subscriptions/acknowledged"
    old.event()
    calls = [talk.call("a__work"), began(site, "a__work")]
    for _ in calls:
        a.expect("tools/call")
    below = descendants(served.gateway.pid)
    assert len(below) >= 2
    os.kill(served.gateway.pid, signal.SIGTERM)
    for call in calls:
        reply = Reply(call)
        frame = reply.message if reply.kind == "application/json" else reply.rest()[-1]
        assert frame.result["isError"] is True
        assert "shutting down" in frame.text
    last = listening.rest()
    assert [frame.result for frame in last] == [{"resultType": "complete", "_meta": {f"{PREFIX}subscriptionId": 7}}]
    assert common.rest() == []
    assert old.rest() == []
    assert served.gateway.wait() == 0
    gone(below)
    assert b"Traceback" not in served.gateway.errors
    assert served.gateway.messages == []


def test_who_comes_back_while_it_stops_is_turned_away(serve: Serve, puppet: Make) -> None:
    served = serve(puppet("a"))
    stream = served.site.initialize().listen()
    os.kill(served.gateway.pid, signal.SIGTERM)
    assert stream.rest() == []
    with contextlib.suppress(OSError, http.client.HTTPException):  # nor is there anybody any more, by then
        assert served.site.ask("GET", "/sse").status == 503
    assert served.gateway.wait() == 0
    assert b"Traceback" not in served.gateway.errors


def test_an_unread_stream_does_not_hold_the_gateway_back(serve: Serve, puppet: Make) -> None:
    a = puppet("a")
    served = serve(a)
    talk = served.site.initialize()
    connection = talk.call("a__work", _meta={"progressToken": 1})
    asked = a.expect("tools/call")
    for number in range(100):
        token = asked.params["_meta"]["progressToken"]
        a.tell("notifications/progress", progressToken=token, progress=number, message="x" * 64 * 1024)
    talk.request("ping")
    os.kill(served.gateway.pid, signal.SIGTERM)
    assert served.gateway.wait() == 0
    connection.close()
