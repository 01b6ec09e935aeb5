"""A server made with the MCP SDK, over SSE or Streamable HTTP. Arguments: mode, port. Prints the port it serves."""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("sdk")
cancelled = 0


class Colour(BaseModel):
    colour: str


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def big(size: int) -> str:
    return "x" * size


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for step in range(to):
        await ctx.report_progress(step + 1, to)
    return "counted"


@server.tool()
async def hang() -> str:
    global cancelled
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return "never"


@server.tool()
async def cancellations() -> str:
    return str(cancelled)


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Which colour?", Colour)
    return f"{answer.action} {answer.data.colour if answer.action == 'accept' else ''}"


@server.tool()
async def grow(ctx: Context) -> str:
    async def grown() -> str:
        return "grown"

    server.add_tool(grown, name="grown")
    await ctx.session.send_tool_list_changed()
    return "done"


@server.prompt()
def greet(name: str) -> str:
    return f"Hello {name}"


@server.resource("test://note")
def note() -> str:
    return "a note"


def main() -> None:
    mode, port = sys.argv[1], int(sys.argv[2])
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    app = server.sse_app() if mode == "sse" else server.streamable_http_app(json_response=mode == "json")
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
