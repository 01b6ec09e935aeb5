"""A small MCP server with one fault, named by its first argument. Run with `python -I -S`: it starts in no time.

A second argument is a file to which it appends a line for its start and each method it gets.
"""

import json
import os
import signal
import sys
import threading
import time

FAULT = sys.argv[1]
JOURNAL = sys.argv[2] if len(sys.argv) > 2 else ""
MEBIBYTES = 300
"""Of the answer of `long`: so many that keeping them all would show in anybody's memory."""
mark = b"\xef\xbb\xbf" if FAULT == "begins-with-a-byte-order-mark" else b""
LAST_WORDS = "ModuleNotFoundError: No module named 'fastmcp'\nhint: pip install fastmcp\n"


def note(line: str) -> None:
    if JOURNAL:
        with open(JOURNAL, "a") as journal:  # noqa: PTH123 - no pathlib: half its start
            journal.write(line + "\n")


def write(line: bytes, end: bytes = b"\n") -> None:
    view = memoryview(line + end)
    while view:
        view = view[os.write(1, view) :]


def tool(name: str) -> dict[str, object]:
    return {"name": name, "inputSchema": {"type": "object"}}


def lists(method: str) -> dict[str, object] | None:
    if method == "tools/list":
        return {"tools": [tool(name) for name in ("pid", "echo", "stop", "long")]}
    if method == "initialize":
        return {
            "protocolVersion": "2099-01-01" if FAULT == "speaks-tomorrow" else "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": FAULT, "version": "1"},
        }
    return {} if method == "ping" else None


def call(id: object, params: dict[str, object]) -> None:
    if params["name"] == "stop":
        threading.Event().wait()
    if params["name"] == "long":
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":"' % id, b"")
        for _ in range(MEBIBYTES):
            write(b"x" * 1024 * 1024, b"")
        write(b'"}}')
        return
    text = str(os.getpid()) if params["name"] == "pid" else str(len(json.dumps(params["arguments"])))
    if FAULT == "closes-its-input":
        os.close(0)
    answer(id, {"result": {"content": [{"type": "text", "text": text}]}})
    if FAULT == "closes-its-input":
        time.sleep(10_000)


def answer(id: object, body: dict[str, object]) -> None:
    global mark
    if FAULT == "spells-ids-as-text":
        id = str(id)
    elif FAULT == "spells-ids-as-fractions":
        id = float(str(id))
    write(mark + json.dumps({"jsonrpc": "2.0", "id": id, **body}).encode())
    mark = b""


def discovered(id: object) -> None:
    if FAULT == "dies-on-initialize":
        answer(id, {"result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}})
        return
    if FAULT in ("dies-on-discover", "dies-slowly-on-discover"):
        sys.exit("unknown method server/discover")
    if FAULT != "ignores-discover":
        answer(id, {"error": {"code": -32601, "message": "Method not found"}})


def received(line: bytes) -> None:
    frame = json.loads(line)
    method, id = frame.get("method"), frame.get("id")
    note(method)
    if FAULT == "prints-garbage":
        write(b"Debug: got " + line[:40] + b'\n\xff\xfe\x00\n{"jsonrpc": "2.0", "id": }\n[1, 2')
    if FAULT == "hangs" or id is None:
        return
    if method == "server/discover":
        discovered(id)
    elif method == "initialize" and FAULT == "dies-on-initialize":
        sys.exit("unknown method initialize")
    elif method == "tools/list" and FAULT == "never-lists":
        return
    elif method == "tools/call":
        call(id, frame["params"])
    elif (result := lists(method)) is not None:
        answer(id, {"result": result})
    else:
        answer(id, {"error": {"code": -32601, "message": "Method not found"}})


def flood() -> None:
    for _ in range(50 * 16):
        os.write(2, b"warning: nobody will ever read this\n" * 1820)


def ended(*_: object) -> None:
    note("end")
    os._exit(0)


def started_before() -> bool:
    with open(JOURNAL) as journal:  # noqa: PTH123
        return journal.read().count("start ") > 1


def main() -> None:
    note(f"start {os.getpid()}")
    if FAULT == "notes-its-end":
        signal.signal(signal.SIGTERM, ended)
    if FAULT == "dies-slowly-on-discover":
        time.sleep(1.5)
    if FAULT == "exits" or (FAULT == "exits-later" and started_before()):
        os.write(2, LAST_WORDS.encode())
        os._exit(3)
    if FAULT == "never-reads":
        time.sleep(10_000)
    if FAULT == "floods":
        threading.Thread(target=flood, daemon=True).start()
    if FAULT == "ignores-the-end":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rest = b""
    while data := os.read(0, 1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            received(line)
    if FAULT == "ignores-the-end":
        time.sleep(10_000)


main()
