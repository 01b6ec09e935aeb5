"""A home directory with a project in it, and the configuration they give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from configs.load import load
from configs.models import Config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def project(home: Path) -> Path:
    """A repository below the home directory."""
    project = home / "work"
    (project / ".git").mkdir(parents=True)
    return project


@pytest.fixture
def configured(home: Path, project: Path) -> Callable[..., Config]:
    """Write the user's and the project's file (text, or values) and load them."""

    def configured(
        personal: str | dict[str, Any] | None = None,
        shared: str | dict[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Config:
        for directory, content in ((home, personal), (project, shared)):
            if content is not None:
                text = content if isinstance(content, str) else json.dumps(content, indent=2)
                (directory / ".kode.json").write_text(text, encoding="utf-8")
        return load(cwd=project, home=home, environ={"KIMI_GATEWAY_TRUST_PROJECT": "1", **(environ or {})})

    return configured
