"""Turn the arguments of a tool call into one checked job. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from configs.kimi import LONGEST, KimiSettings
from servers.kimi.failure import Failure

Tool = Literal["analyze", "implement", "refactor", "verify"]
TOOLS: Mapping[str, Tool] = {
    "kimi_analyze": "analyze",
    "kimi_implement": "implement",
    "kimi_refactor": "refactor",
    "kimi_verify": "verify",
}
_SHARED = ("prompt", "files", "context", "model", "timeout")
_OWN: Mapping[Tool, str] = {
    "analyze": "role",
    "implement": "constraints",
    "refactor": "safety_checks",
    "verify": "requirements",
}
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,127}")


@dataclass(frozen=True, slots=True)
class Job:
    """One call, checked: what is asked, with which model, for how long."""

    tool: Tool
    prompt: str
    model: str
    timeout: float
    files: tuple[str, ...] = ()
    context: str = ""
    role: str = ""
    points: tuple[str, ...] = ()
    """Constraints of implement, requirements of verify."""
    safety_checks: bool = True
    model_chosen: bool = False
    """Somebody named the model, here or in the settings."""

    @property
    def writes(self) -> bool:
        return self.tool in ("implement", "refactor")


def read(name: str, arguments: Mapping[str, Any] | None, settings: KimiSettings) -> Job:
    """The job behind a call.

    Raises:
        Failure: `invalid_input`, naming the argument and what it should be.
    """
    tool = TOOLS[name]
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    known = (*_SHARED, _OWN[tool])
    unknown = [key for key in given if key not in known]
    if unknown:
        raise _bad(f"{name} has no argument {_quoted(unknown)}; it takes {', '.join(known)}")
    prompt = _text(given, "prompt", required=True)
    model = _model(given)
    return Job(
        tool=tool,
        prompt=prompt,
        model=model or settings.model,
        timeout=_timeout(given, settings.timeout_of(tool)),
        files=_texts(given, "files"),
        context=_text(given, "context"),
        role=_text(given, "role") if tool == "analyze" else "",
        points=_points(given, _OWN[tool]) if tool in ("implement", "verify") else (),
        safety_checks=_flag(given, "safety_checks") if tool == "refactor" else True,
        model_chosen=bool(model) or "model" in settings.chosen,
    )


def _bad(what: str) -> Failure:
    return Failure("invalid_input", what)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _clean(key: str, value: str) -> str:
    if "\0" in value:
        raise _bad(f'"{key}" holds a NUL character')
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _bad(f'"{key}" holds half a character (a lone surrogate)')
    return value


def _text(given: Mapping[str, Any], key: str, *, required: bool = False) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise _bad(f'"{key}" must be a text')
    if required and not value.strip():
        raise _bad(f'"{key}" is missing or empty: say what Kimi should do')
    return _clean(key, value)


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
        raise _bad(f'"{key}" must be a list of texts')
    items = cast("list[str]", value)
    if any(not item.strip() for item in items):
        raise _bad(f'"{key}" holds an empty text')
    return tuple(_clean(key, item) for item in items)


def _points(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if isinstance(value, str):
        text = _clean(key, value).strip()
        return (text,) if text else ()
    if not isinstance(value, list):
        raise _bad(f'"{key}" must be a list of texts or one text')
    return _texts(given, key)


def _flag(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, True)
    if not isinstance(value, bool):
        raise _bad(f'"{key}" must be true or false')
    return value


def _model(given: Mapping[str, Any]) -> str:
    value = _text(given, "model")
    # It becomes an argument of the CLI: nothing that could be taken for an option.
    if "model" in given and not _MODEL.fullmatch(value):
        raise _bad(f'"model" must be an alias or a model id, not {value[:40]!r}')
    return value


def _timeout(given: Mapping[str, Any], default: float) -> float:
    value = given.get("timeout", default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
        raise _bad(f'"timeout" must be a number of seconds above 0 and at most {LONGEST:g}')
    return float(value)
