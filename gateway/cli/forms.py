"""Read what a server elicits as a form, and check what a person types into it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from gateway.cli.arguments import coerce
from gateway.cli.schemas import Schema, kind, parameters, required
from gateway.cli.usage import Usage


class Invalid(Exception):
    """What was typed does not do, and why."""


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a form."""

    key: str
    schema: Schema
    required: bool

    @property
    def default(self) -> object:
        return self.schema.get("default")

    @property
    def many(self) -> bool:
        return self.schema.get("type") == "array"

    @property
    def choices(self) -> dict[str, object]:
        """What may be chosen, by the words for it; none where anything goes."""
        holder: Schema = self.schema.get("items") or {} if self.many else self.schema
        for name in ("oneOf", "anyOf"):
            if isinstance(holder.get(name), list):
                parts = [cast("Schema", one) for one in holder[name] if isinstance(one, dict) and "const" in one]
                return {str(one.get("title") or one["const"]): one["const"] for one in parts}
        if not isinstance(holder.get("enum"), list):
            return {}
        members = cast("list[object]", holder["enum"])
        names = cast("list[object]", holder.get("enumNames") or [])
        return {str(names[index] if index < len(names) else one): one for index, one in enumerate(members)}

    @property
    def prompt(self) -> str:
        """The words before the cursor."""
        what = (
            kind(self.schema, self.schema) if not self.choices else "several of, by commas" if self.many else "one of"
        )
        shown = "" if self.default is None else f" [{_shown(self.default)}]"
        optional = "" if self.required or shown else ", may be empty"
        return f"  {self.schema.get('title') or self.key} ({what}{optional}){shown}: "

    def read(self, typed: str) -> Any:
        """The value of what was typed; `None` for nothing, where that is allowed.

        Raises:
            Invalid: it does not do.
        """
        words = typed.strip()
        if not words:
            if self.default is None and self.required:
                raise Invalid("It needs an answer.")
            return self.default
        if self.choices:
            return self._chosen(words)
        try:
            value = coerce(self.key, [words], self.schema, self.schema)
        except Usage as error:
            raise Invalid(f"{error}.") from None
        self._check(value)
        return value

    def _chosen(self, words: str) -> Any:
        typed = [part.strip() for part in words.split(",")] if self.many else [words]
        found = [self._choice(one) for one in typed if one]
        return found if self.many else found[0]

    def _choice(self, words: str) -> object:
        """By its number, its words or its value."""
        choices = self.choices
        if words.isdecimal() and 1 <= int(words) <= len(choices) and words not in map(str, choices.values()):
            return list(choices.values())[int(words) - 1]
        for name, value in choices.items():
            if words.lower() in (name.lower(), str(value).lower()):
                return value
        raise Invalid(f"{words!r} is none of: {', '.join(choices)}.")

    def _check(self, value: object) -> None:
        bounds = self.schema
        size = len(value) if isinstance(value, str) else value
        low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minimum", "maximum")
        unit = " characters" if isinstance(value, str) else ""
        if not isinstance(size, int | float) or isinstance(size, bool):
            return
        if isinstance(bounds.get(low), int | float) and size < bounds[low]:
            raise Invalid(f"It must be at least {bounds[low]}{unit}.")
        if isinstance(bounds.get(high), int | float) and size > bounds[high]:
            raise Invalid(f"It must be at most {bounds[high]}{unit}.")


def fields(schema: Schema) -> list[Field]:
    """The form of a schema, in its order."""
    needed = required(schema)
    return [Field(key, one, key in needed) for key, one in parameters(schema).items()]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
