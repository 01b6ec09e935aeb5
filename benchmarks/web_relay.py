"""The floor over HTTP: an ASGI application that relays frames to N stdio upstreams, and does nothing else.

`python web_relay.py PORT COUNT COMMAND …` serves the tools of each as `s0__NAME` and so on, in either era. It takes
every frame to be well-formed, in the usual spelling and under an id nobody else uses: no parsing, sessions or limits.
"""

import asyncio
import os
import sys
from typing import Any

import uvicorn
from relay import INFO, INITIALIZE, START, Pipe, each_line  # its own directory is where this script finds modules

JSON = (b"content-type", b"application/json")
LIST = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n' + START + b'"l","method":"tools/list"}\n'


class Relay:
    """Requests by the client's own id."""

    def __init__(self, count: int, command: list[str]) -> None:
        self.count, self.command = count, command
        self.upstreams: list[Pipe] = []
        self.pending: dict[bytes, asyncio.Future[bytes]] = {}

    def start(self) -> None:
        for number in range(self.count):
            (theirs_in, stdin), (stdout, theirs_out) = os.pipe(), os.pipe()
            files = [(os.POSIX_SPAWN_DUP2, theirs_in, 0), (os.POSIX_SPAWN_DUP2, theirs_out, 1)]
            os.posix_spawn(self.command[0], self.command, os.environ, file_actions=files)
            self.upstreams.append(Pipe(stdin))
            each_line(stdout, self.answered)
            self.upstreams[number].send(INITIALIZE)
            self.upstreams[number].send(LIST)

    def answered(self, line: bytes) -> None:
        future = self.pending.pop(line[len(START) :].partition(b",")[0], None)
        if future is not None:
            future.set_result(line[:-1])

    async def answer(self, body: bytes) -> bytes:
        id = body[len(START) :].partition(b",")[0]
        if b'"initialize"' in body[:64]:
            return START + b'%b,"result":{%b}}' % (id, INFO % b"server")
        if b'"tools/call"' not in body[:64]:
            return b""
        before, _, rest = body.partition(b'"name":"s')
        number, _, name = rest.partition(b"__")
        future = self.pending[id] = asyncio.get_running_loop().create_future()
        self.upstreams[int(number)].send(before + b'"name":"' + name + b"\n")
        return await future

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        answer = await self.answer(body)
        headers = [JSON, (b"content-length", b"%d" % len(answer))]
        if b'"initialize"' in body[:64]:
            headers.append((b"mcp-session-id", b"relay"))
        await send({"type": "http.response.start", "status": 200 if answer else 202, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


async def main() -> None:
    relay = Relay(int(sys.argv[2]), sys.argv[3:])
    relay.start()
    options: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off"}
    await uvicorn.Server(uvicorn.Config(relay, port=int(sys.argv[1]), **options)).serve()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
