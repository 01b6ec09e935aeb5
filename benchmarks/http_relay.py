"""The floor towards a Streamable HTTP upstream: an ASGI application that passes bodies on with aiohttp.

`python http_relay.py PORT URL` serves its tools as `s0__NAME`, in either era; all it changes is that name.
"""

import sys
from typing import Any

import aiohttp
import uvicorn
import uvloop

PASSED = (b"accept", b"content-type", b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name")


class Relay:
    """One request in is one request out."""

    def __init__(self, url: str, client: aiohttp.ClientSession) -> None:
        self.url, self.client = url, client

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        names = {name.decode(): value.decode() for name, value in scope["headers"] if name in PASSED}
        if "mcp-name" in names:
            names["mcp-name"] = names["mcp-name"].removeprefix("s0__")
        asked = self.client.post(self.url, data=body.replace(b'"name":"s0__', b'"name":"', 1), headers=names)
        async with asked as response:
            answer = await response.read()
        headers = [(b"content-length", b"%d" % len(answer))]
        for name in ("content-type", "mcp-session-id"):
            if name in response.headers:
                headers.append((name.encode(), response.headers[name].encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


async def main() -> None:
    options: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as client:
        application = Relay(sys.argv[2], client)
        await uvicorn.Server(uvicorn.Config(application, port=int(sys.argv[1]), **options)).serve()


if __name__ == "__main__":
    uvloop.run(main())
