"""Ask a running gateway how it is."""

from __future__ import annotations

import http.client
import json
from typing import Any, cast
from urllib.parse import urlsplit

from gateway import __version__
from gateway.cli.report import METHOD, Report
from gateway.cli.running_file import Running
from gateway.protocol.versions import LATEST, META_CAPABILITIES, META_CLIENT, META_VERSION

PATIENCE = 5.0
"""Seconds a gateway on this machine has for an answer it keeps in memory."""
LIMIT = 16 * 1024 * 1024
NOT_OURS = ("resultType", "_meta", "ttlMs", "cacheScope")
"""Members that every result of the protocol has."""


class Unreachable(Exception):
    """It is not there any more, or does not answer as one of ours would."""


def ask(running: Running) -> Report:
    """The report of a running gateway, with the address it came from.

    Raises:
        Unreachable: there is none.
    """
    body = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {"_meta": _meta()}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": LATEST,
        "Mcp-Method": METHOD,
        **({"Authorization": f"Bearer {running.token}"} if running.token else {}),
    }
    # Not through urllib: a proxy of the environment must not see the token.
    address = urlsplit(running.url)
    if address.scheme != "http" or not address.hostname:
        raise Unreachable(f"{running.url} is no address of a gateway on this machine")
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
    # The one name that every gateway answers to: the address it serves on need not be among its hosts.
    headers["Host"] = f"localhost:{address.port or http.client.HTTP_PORT}"
    try:
        connection.request("POST", address.path or "/", json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read(LIMIT)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(str(error) or type(error).__name__) from error
    finally:
        connection.close()
    report = _report(answer.status, answer.getheader("Content-Type", ""), data)
    return {**report, "gateway": {"pid": running.pid, "url": running.url}}


def _meta() -> dict[str, object]:
    return {
        META_VERSION: LATEST,
        META_CAPABILITIES: {},
        META_CLIENT: {"name": "kimi-gateway status", "version": __version__},
    }


def _report(status: int, kind: str, data: bytes) -> Report:
    if status != http.client.OK:
        raise Unreachable(f"it answered {status}")
    if kind.startswith("text/event-stream"):
        data = b"".join(line[5:].strip() for line in data.splitlines() if line.startswith(b"data:"))
    try:
        answer: Any = json.loads(data)
        result: Any = answer["result"]
        if not isinstance(result["servers"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreachable("its answer is no report") from error
    return {key: value for key, value in cast("Report", result).items() if key not in NOT_OURS}
