"""The docs say what the code does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from clients.state import TABLE, Event

REPOSITORY = Path(__file__).parent.parent
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").glob("*.md"))]


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", REPOSITORY / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_from_the_code_is_up_to_date() -> None:
    assert sorted(file.name for file in generator().outdated()) == [], "run `make docs`"


def test_a_changed_diagram_would_be_noticed() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    assert generator().architecture(page.replace("ready --> waiting: lost", "ready --> closed: lost")) == page


def test_every_move_of_the_table_is_in_the_diagram() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    for (state, event), target in TABLE.items():
        if event is not Event.CLOSE:
            assert f"{state.value} --> {target.value}: {event.value}" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_docs_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
