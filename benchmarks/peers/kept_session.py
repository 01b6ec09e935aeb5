"""fastmcp's proxy with one upstream session that is kept, its fastest way: `python kept_session.py CONFIG [PORT]`."""

# pyright: basic, reportMissingImports=false
# Run by the peer's own Python, which has fastmcp; ours has not.
import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.server import create_proxy


async def main() -> None:
    async with Client(json.loads(Path(sys.argv[1]).read_text())) as client:
        proxy = create_proxy(client)
        if len(sys.argv) > 2:
            await proxy.run_async("http", port=int(sys.argv[2]), show_banner=False, log_level="warning")
        else:
            await proxy.run_async(show_banner=False)


asyncio.run(main())
