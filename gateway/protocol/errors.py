"""Error codes and the objects that carry them."""

from __future__ import annotations

import json

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UPSTREAM = -32000
"""An upstream is away, was lost or timed out: the gateway's own, with `data` that says which and why."""
SHUTDOWN = -32800
TOO_LARGE = -32801
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

_encode = msgspec.json.Encoder().encode


def encode_json(value: object) -> bytes:
    """JSON text; of a string with half a surrogate pair too, which only the standard library can spell."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def error_object(code: int, message: str, data: object = None) -> bytes:
    """The JSON text of an error of ours."""
    if data is None:
        return encode_json({"code": code, "message": message})
    return encode_json({"code": code, "message": message, "data": data})


def tool_error(message: str) -> bytes:
    """A tool result that tells the model what went wrong."""
    return encode_json({"content": [{"type": "text", "text": message}], "isError": True})
