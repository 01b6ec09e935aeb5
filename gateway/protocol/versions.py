"""The protocol versions there are, and which era each belongs to."""

from __future__ import annotations

from typing import Literal

Era = Literal["session", "stateless"]

SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)
LATEST_SESSION = SESSION_VERSIONS[-1]
LATEST = STATELESS_VERSIONS[-1]
BATCHES = "2025-03-26"
"""The only version with JSON-RPC batches."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def negotiate(asked: str | None) -> str:
    """What `initialize` is answered with: the version asked for where we speak it, else our newest."""
    return asked if asked in SESSION_VERSIONS else LATEST_SESSION
