"""Collect what is wrong in one layer of configuration, each thing with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from configs.checks import Wrong
from configs.document import Document, Json, KeyPath, dotted
from configs.models import Problem

T = TypeVar("T")


class Notes:
    """The problems of one file, or of the environment where there is no document."""

    def __init__(self, file: Path | None, document: Document | None, name: Callable[[KeyPath], str] = dotted) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._document = document
        self._name = name

    def add(self, path: KeyPath, message: str, fix: str, *, server: str | None = None, at_key: bool = False) -> Problem:
        """Note one problem at a path."""
        line = column = 0
        if self._document:
            place = self._document.place(path, key=at_key)
            line, column = place.line, place.column
        problem = Problem(self.file, line, column, self._name(path), message, fix, server)
        self.problems.append(problem)
        return problem

    def check(self, check: Callable[[Json], T], value: Json, path: KeyPath, *, server: str | None = None) -> T | None:
        """A value that passed its check, or `None` with the problem noted."""
        try:
            return check(value)
        except Wrong as wrong:
            self.add((*path, *wrong.at), wrong.message, wrong.fix, server=server)
            return None

    def duplicates(self, path: KeyPath) -> None:
        """Note where the path itself, or any key below it, is written twice."""
        if not self._document:
            return
        siblings = self._document.duplicates(path[:-1], depth=0)
        itself = (found for found in siblings if found[0] == path)
        for twice, first in (*itself, *self._document.duplicates(path)):
            message = f"is written twice; the first, in line {first.line}, is ignored"
            self.add(twice, message, "Remove one of the two.", at_key=True)
