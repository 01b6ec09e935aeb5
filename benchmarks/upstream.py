"""A light raw MCP server over stdio, so that what stands in front of it is what is measured.

`python -I -S upstream.py [TOOLS [ERA]]`: tools `t0` … each answer with as many bytes of text as `size` asks for.
"""

import os
import sys

START = b'{"jsonrpc":"2.0","id":'
SESSION, STATELESS = "session", "stateless"
INITIALIZED = b'{"protocolVersion":"%b","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}'
CACHEABLE = b'"resultType":"complete","ttlMs":0,"cacheScope":"public",'
DISCOVERED = b'{%b"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}' % CACHEABLE


def tools(count: int) -> bytes:
    """Tools of the size that published ones have, about 0.75 KB each, as the members of a result."""
    schema = (
        b'{"type":"object","properties":{"path":{"type":"string","description":"%b"},"size":{"type":"integer"},'
        b'"options":{"type":"object","properties":{"deep":{"type":"boolean"},"limit":{"type":"integer"}}}},'
        b'"required":["path"]}' % (b"Where to look for it, absolute or below the root. " * 3)
    )
    words = b"Reads what is there and says what it found, with everything that a model may want to know. " * 3
    items = [b'{"name":"t%d","description":"%b","inputSchema":%b}' % (n, words, schema) for n in range(count)]
    return b'"tools":[' + b",".join(items) + b"]"


class Server:
    """Answers frames; what is asked in the usual spelling is not parsed."""

    def __init__(self, count: int, era: str = SESSION) -> None:
        self.stateless = era == STATELESS
        self.count = count
        self.texts: dict[int, bytes] = {}

    def answer(self, line: bytes) -> bytes:
        """The answer, without an end of line; empty where none is due."""
        if line.startswith(START):
            id, _, rest = line[len(START) :].partition(b",")
            if rest.startswith(b'"method":"tools/call"'):
                return START + id + b',"result":' + self.text(line) + b"}"
            method = rest.split(b'"', 4)[3].decode() if rest.startswith(b'"method":"') else ""
            if method:
                return self.other(id, method, line)
        import json  # how a peer of another make spells its frames

        message = json.loads(line)
        if "id" not in message or "method" not in message:
            return b""
        return self.other(json.dumps(message["id"]).encode(), message["method"], line)

    def other(self, id: bytes, method: str, line: bytes) -> bytes:
        if method == "tools/call":
            payload = self.text(line)
        elif method == "tools/list":
            payload = b"{%b%b}" % (CACHEABLE if self.stateless else b"", tools(self.count))
        elif method == "initialize" and not self.stateless:
            payload = INITIALIZED % line.partition(b'"protocolVersion"')[2].split(b'"', 2)[1]  # whichever is offered
        elif method == "server/discover" and self.stateless:
            payload = DISCOVERED
        elif method == "ping":
            payload = b"{}"
        else:
            return START + id + b',"error":{"code":-32601,"message":"Method not found"}}'
        return START + id + b',"result":' + payload + b"}"

    def text(self, line: bytes) -> bytes:
        at = line.rfind(b'"size":')
        digits = line[at + 7 : at + 20].strip() if at >= 0 else b"100"
        size = 0
        for digit in digits:
            if not 48 <= digit <= 57:
                break
            size = size * 10 + digit - 48
        found = self.texts.get(size)
        if found is None:
            kind = b'"resultType":"complete",' if self.stateless else b""
            found = self.texts[size] = b'{%b"content":[{"type":"text","text":"%b"}]}' % (kind, b"x" * size)
        return found


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def main() -> None:
    server = Server(int(sys.argv[1]) if len(sys.argv) > 1 else 10, *sys.argv[2:3])
    rest = b""
    while data := os.read(0, 1 << 16):
        if b"\n" not in data:
            rest += data
            continue
        *lines, rest = (rest + data).split(b"\n") if rest else data.split(b"\n")
        answers = [server.answer(line) for line in lines if line]
        write(b"".join([answer + b"\n" for answer in answers if answer]))


if __name__ == "__main__":
    main()
