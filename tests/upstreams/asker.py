"""A stdio server of the session era whose one tool asks its client what it is told to; standard library only.

Arguments of `work`: `ask`, a method to ask the client with `say` as its message; `wait`, how many calls must be in
flight before it asks; `pid`, to answer with the process's number; `recall`, to answer with all it was ever told.
"""

import json
import os
import sys

waiting: dict[str, object] = {}
told: list[object] = []
held: list[tuple[object, dict[str, object]]] = []


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(id: object, words: str) -> None:
    say({"id": id, "result": {"content": [{"type": "text", "text": words}]}})


def ask(id: object, arguments: dict[str, object]) -> None:
    key = f"q{len(told) + len(waiting)}-{id}"
    waiting[key] = id
    say({"id": key, "method": arguments["ask"], "params": {"message": arguments.get("say", "?")}})


def work(id: object, arguments: dict[str, object]) -> None:
    if arguments.get("pid"):
        text(id, str(os.getpid()))
    elif arguments.get("recall"):
        text(id, json.dumps(told))
    else:
        held.append((id, arguments))
        if len(held) >= int(str(arguments.get("wait", 1))):
            for one, with_ in held:
                ask(one, with_)
            held.clear()


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "asker", "version": "1"}
        say({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        work(id, message["params"].get("arguments") or {})
    elif method == "ping":
        say({"id": id, "result": {}})
    elif method is None:
        answer = {key: message[key] for key in ("result", "error") if key in message}
        told.append(answer)
        text(waiting.pop(id), json.dumps(answer))
    elif id is not None:
        say({"id": id, "error": {"code": -32601, "message": "Method not found"}})
