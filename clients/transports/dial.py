"""Which channel leads to a server that is reached by an address."""

from __future__ import annotations

from clients.transports.channel import Channel, Receiver
from configs.models import Server


def dial(server: Server, receiver: Receiver, *, limit: int) -> Channel:
    """The channel to a server with a `url`.

    The libraries behind each cost up to 0.2 s to import: only who has such a server pays.
    """
    if server.transport == "sse":
        from clients.transports.sse import SseChannel

        return SseChannel(server, receiver, limit=limit)
    if server.transport == "http":
        from clients.transports.http import HttpChannel

        return HttpChannel(server, receiver, limit=limit)
    from clients.transports.auto import AutoChannel

    return AutoChannel(server, receiver, limit=limit)
