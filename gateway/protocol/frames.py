"""JSON-RPC 2.0 frames: the envelope decoded, the payload left as raw bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec import Raw

from gateway.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, encode_json

if TYPE_CHECKING:
    Spelled = bytes
else:
    Spelled = Raw
"""What the decoder leaves raw, and `decode` then makes bytes of, once for all who read it."""
T = TypeVar("T")
Object = dict[str, Raw]
NOTHING = Raw()
NULL = b"null"

_CR, _LF, _BACKSLASH = b"\r\n\\"
"""As numbers: to look for a byte is twice as fast as for bytes."""
_WHITE = bytes.maketrans(b"\r\n", b"  ")
_HALF = re.compile(
    rb"\\(u[dD](?:[c-fC-F][0-9a-fA-F]{2}|[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})))"
    rb"|(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})++",
    re.S,
)
"""Half a surrogate pair, or all up to the next: a text of a million escapes is not a million matches."""
_PRIVATE_ESCAPE = re.compile(rb"\\u([eEfF][0-9a-fA-F]{3})")
_PRIVATE = re.compile(rb"\xee[\x80-\xbf]{2}|\xef[\x80-\xa3][\x80-\xbf]")
_STANDIN = re.compile(rb"\\u[ef][0-9a-f]{3}")
_NUMBER = re.compile(rb'(\d{1,18})(?:\.0+)?|"(\d{1,18})"')
_ID_STARTS = b'"-0123456789'
_ID, _METHOD, _PARAMS = b'{"jsonrpc":"2.0","id":', b',"method":', b',"params":'
_TELL = b'{"jsonrpc":"2.0","method":'
_spelled = lru_cache(maxsize=256)(encode_json)
"""The JSON text of a method's name; there are few of them."""


class Malformed(Exception):
    """A frame that cannot be taken; knows the error its sender should get."""

    def __init__(self, code: int, message: str, id: bytes = NULL, *, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
        self.data = data


class Frame(msgspec.Struct, gc=False):
    """One message. `id`, `params`, `result` and `error` are JSON text; empty means absent."""

    jsonrpc: str = ""
    id: Spelled = b""
    method: str | None = None
    params: Raw = NOTHING
    result: Raw = NOTHING
    error: Raw = NOTHING

    @property
    def is_request(self) -> bool:
        return self.method is not None and bool(self.id)

    @property
    def is_notification(self) -> bool:
        return self.method is not None and not self.id

    def __repr__(self) -> str:
        kind = self.method or ("error" if self.error else "result")
        return f"<Frame {kind} {self.id.decode(errors='replace')}>"


_frame = msgspec.json.Decoder(Frame).decode
_object = msgspec.json.Decoder(Object).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode


def decode(data: bytes) -> Frame | list[Frame | Malformed]:
    """One frame, or the frames of a batch.

    Raises:
        Malformed: not JSON-RPC; carries the code and, where it could be read, the id to answer with.
    """
    if _CR in data or _LF in data or not data.isascii():
        data = clean(data)
    try:
        frame = _frame(data)
    except msgspec.ValidationError:
        return _misshapen(data)
    except msgspec.DecodeError as error:
        frame = _patched_frame(data, error)
        if isinstance(frame, list):
            return frame
    except RecursionError:
        raise _too_deep() from None
    id = frame.id = bytes(frame.id)
    if frame.method is not None:
        sound = not frame.result and not frame.error
    elif frame.result:
        sound = (not frame.error or _one_is_null(frame)) and bool(id or frame.error)
    else:
        sound = bool(frame.error)
    if sound and frame.jsonrpc == "2.0" and (not id or id[0] in _ID_STARTS or _unknown(frame)):
        return frame
    raise _unsound(frame)


def clean(data: bytes) -> bytes:
    """The same JSON on one line, known to be UTF-8.

    A CR or LF outside a string is white space, and inside one it is not JSON: as a space it can never become
    a second frame on a line or in an event.
    """
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            raise Malformed(PARSE_ERROR, "Parse error: not UTF-8") from None
    if _CR in data or _LF in data:
        return data.translate(_WHITE)
    return data


def open_object(raw: Raw | bytes) -> Object:
    """A JSON object, one level deep.

    Raises:
        Malformed: it is something else.
    """
    if not raw:
        return {}
    try:
        return _object(raw)
    except msgspec.ValidationError:
        raise _unexpected("an object") from None
    except msgspec.DecodeError:
        opened, chars = _patched(_object, bytes(raw), "an object")
        return {key.translate(chars): value for key, value in opened.items()}
    except RecursionError:
        raise _too_deep() from None


def open_array(raw: Raw | bytes) -> list[Raw]:
    """A JSON array, one level deep.

    Raises:
        Malformed: it is something else.
    """
    try:
        return _items(raw)
    except msgspec.ValidationError:
        raise _unexpected("an array") from None
    except msgspec.DecodeError:
        return _patched(_items, bytes(raw), "an array")[0]
    except RecursionError:
        raise _too_deep() from None


def seal(opened: Object) -> bytes:
    """The text of an opened object: values as they were spelled, in their order."""
    try:
        return _encode(opened)
    except UnicodeEncodeError:
        # A key with half a surrogate pair: only the standard library can spell it.
        members = (json.dumps(key).encode() + b":" + bytes(value) for key, value in opened.items())
        return b"{" + b",".join(members) + b"}"


def text(raw: Raw | bytes | None) -> str | None:
    """The string that the JSON text spells, `None` if it is no string."""
    if not raw:
        return None
    try:
        return _text(raw)
    except msgspec.ValidationError:
        return None
    except msgspec.DecodeError:
        value: object = json.loads(bytes(raw))
        return value if isinstance(value, str) else None


def string(opened: Object, key: str) -> str:
    """A member that must be a string.

    Raises:
        Malformed: it is something else, or is not there.
    """
    try:
        return _text(opened[key])
    except (KeyError, msgspec.MsgspecError):
        value = text(opened.get(key))
    if value is None:
        raise Malformed(INVALID_PARAMS, f"Invalid params: {key} must be a string")
    return value


def quote(value: str) -> Raw:
    """A string as JSON text."""
    return Raw(encode_json(value))


def encode(value: object) -> bytes:
    """JSON text of a value of ours, or of strings of others."""
    return encode_json(value)


# Joined, not formatted: a payload is copied once, and "%" would grow its buffer step by step (1 MB: 40 µs, not 850).


def request(id: bytes | Raw, method: str, params: bytes | Raw = b"") -> bytes:
    if not params:
        return b"".join((_ID, id, _METHOD, _spelled(method), b"}"))
    return b"".join((_ID, id, _METHOD, _spelled(method), _PARAMS, params, b"}"))


def notification(method: str, params: bytes | Raw = b"") -> bytes:
    if not params:
        return b"".join((_TELL, _spelled(method), b"}"))
    return b"".join((_TELL, _spelled(method), _PARAMS, params, b"}"))


def result(id: bytes | Raw, payload: bytes | Raw) -> bytes:
    return b"".join((_ID, id, b',"result":', payload, b"}"))


def error(id: bytes | Raw, payload: bytes | Raw) -> bytes:
    return b"".join((_ID, id, b',"error":', payload, b"}"))


def recoded(payload: Raw, old: int, new: int) -> Raw:
    """An error under another code, where it has this one; all else as it was spelled."""
    opened = open_object(payload)
    if bytes(opened.get("code", b"")) != b"%d" % old:
        return payload
    return Raw(seal({**opened, "code": Raw(b"%d" % new)}))


def id_key(id: bytes | Raw) -> bytes:
    """What two spellings of the same id share; 1 and "1" stay apart."""
    raw = bytes(id)
    if _BACKSLASH in raw:
        return bytes(quote(text(raw) or ""))
    return raw


def number(id: bytes) -> int:
    """The number that an id of ours is, also where a server has made a text or a fraction of it; 0 is none."""
    try:
        return int(id)
    except ValueError:
        found = _NUMBER.fullmatch(id)
        return int(found[1] or found[2]) if found else 0


def _one_is_null(frame: Frame) -> bool:
    """Some libraries spell both members of every answer: the one that is null is as good as absent, and dropped."""
    if bytes(frame.error) == NULL:
        frame.error = NOTHING
    elif bytes(frame.result) == NULL:
        frame.result = NOTHING
    return not (frame.result and frame.error)


def _unknown(frame: Frame) -> bool:
    """An error that answers a request whose id could not be read."""
    return frame.method is None and bool(frame.error) and frame.id == NULL


def _unsound(frame: Frame) -> Malformed:
    id = frame.id
    if id and id[0] not in _ID_STARTS and not _unknown(frame):
        return Malformed(INVALID_REQUEST, "Invalid Request: id must be a string or a number")
    # A broken answer names an id of ours: an error under it would seem to answer one of the other side's requests.
    known = id if id and not (frame.result or frame.error) else NULL
    if frame.jsonrpc != "2.0":
        return Malformed(INVALID_REQUEST, 'Invalid Request: jsonrpc must be "2.0"', known)
    if frame.method is not None:
        return Malformed(INVALID_REQUEST, "Invalid Request: both a request and a response", known)
    if frame.result and not frame.error:
        return Malformed(INVALID_REQUEST, "Invalid Request: a result without an id")
    return Malformed(INVALID_REQUEST, "Invalid Request: no method, and not a response", known)


def _unexpected(wanted: str) -> Malformed:
    return Malformed(INVALID_PARAMS, f"Invalid params: {wanted} is expected")


def _too_deep() -> Malformed:
    return Malformed(PARSE_ERROR, "Parse error: nested too deeply")


def _misshapen(data: bytes) -> list[Frame | Malformed]:
    """No single frame: a batch, or an error that names what can be named."""
    if data.lstrip()[:1] == b"[":
        parts = open_array(data)
        if not parts:
            raise Malformed(INVALID_REQUEST, "Invalid Request: an empty batch")
        return [_part(bytes(part)) for part in parts]
    if data.lstrip()[:1] != b"{":
        try:
            _raw(data)
        except msgspec.DecodeError as error:
            raise Malformed(PARSE_ERROR, f"Parse error: {error}") from None
        raise Malformed(INVALID_REQUEST, "Invalid Request: not an object")
    opened = open_object(data)
    id = bytes(opened.get("id", b""))
    known = id if id and id[0] in _ID_STARTS and "result" not in opened and "error" not in opened else NULL
    raise Malformed(INVALID_REQUEST, "Invalid Request: a member has the wrong type", known)


def _part(data: bytes) -> Frame | Malformed:
    try:
        frame = decode(data)
    except Malformed as malformed:
        return malformed
    return frame if isinstance(frame, Frame) else Malformed(INVALID_REQUEST, "Invalid Request: a batch in a batch")


def _patched_frame(data: bytes, error: msgspec.DecodeError) -> Frame | list[Frame | Malformed]:
    if b"\\u" not in data:
        raise Malformed(PARSE_ERROR, f"Parse error: {error}")
    try:
        frame, chars = _patched(_frame, data)
    except msgspec.ValidationError:
        return _misshapen(data)
    if frame.method is not None:
        frame.method = frame.method.translate(chars)
    return frame


def _patched(decoder: Callable[[bytes], T], data: bytes, wanted: str = "") -> tuple[T, dict[int, int]]:
    """Decode what msgspec refuses: escapes of half a surrogate pair, which JavaScript emits when it cuts a text.

    Each spelling of one is replaced by an escape that occurs nowhere in the text, and put back in what was decoded;
    the second value does the same for strings that were read.
    """
    used = {int(code, 16) for code in _PRIVATE_ESCAPE.findall(data)}
    used.update(ord(char.decode()) for char in _PRIVATE.findall(data))
    unused = (code for code in range(0xE000, 0xF900) if code not in used)
    standins: dict[bytes, bytes] = {}
    originals: dict[bytes, bytes] = {}
    chars: dict[int, int] = {}

    def swap(match: re.Match[bytes]) -> bytes:
        lone = match[1]
        if lone is None:
            return match[0]
        standin = standins.get(lone)
        if standin is None:
            code = next(unused, None)
            if code is None:
                return match[0]
            standin = standins[lone] = b"\\u%04x" % code
            originals[standin] = match[0]
            chars[code] = int(lone[1:], 16)
        return standin

    patched = _HALF.sub(swap, data)
    try:
        decoded = decoder(patched)
    except msgspec.ValidationError:
        if wanted:
            raise _unexpected(wanted) from None
        raise
    except msgspec.DecodeError as error:
        raise Malformed(PARSE_ERROR, f"Parse error: {error}") from None
    except RecursionError:
        raise _too_deep() from None

    def original(raw: Raw) -> Raw:
        return Raw(_STANDIN.sub(lambda found: originals.get(found[0], found[0]), bytes(raw)))

    return _restored(decoded, original), chars


def _restored(decoded: T, original: Callable[[Raw], Raw]) -> T:
    if isinstance(decoded, Frame):
        frame = decoded
        for name in ("id", "params", "result", "error"):
            setattr(frame, name, original(getattr(frame, name)))
        return decoded
    if isinstance(decoded, dict):
        opened = cast(Object, decoded)
        return cast(T, {key: original(value) for key, value in opened.items()})
    return cast(T, [original(value) for value in cast(list[Raw], decoded)])
