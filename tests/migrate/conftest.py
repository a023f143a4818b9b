"""What the tests of migration share."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.migrate.moving import move
from tests.migrate.storages import filled


@dataclass(frozen=True)
class Moved:
    """A storage with a past, where that is now, and what was told of the way."""

    source: Path
    destination: Path
    receipt: dict[str, Any]


@pytest.fixture(scope="session")
def past(tmp_path_factory) -> Path:
    """A storage with a past. Nobody may change it: take a copy."""
    root = tmp_path_factory.mktemp("past") / "source"
    asyncio.run(filled(root))
    return root


@pytest.fixture
def source(past, tmp_path) -> Path:
    """A storage with a past of one's own."""
    root = tmp_path / "source"
    shutil.copytree(past, root)
    return root


@pytest.fixture(scope="session")
def moved(past, tmp_path_factory) -> Moved:
    """That storage, moved. Nobody may change it: take a copy."""
    root = tmp_path_factory.mktemp("moved")
    shutil.copytree(past, root / "source")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        receipt = move(root / "source", root / "destination")
    return Moved(past, root / "destination", receipt)


@pytest.fixture
def destination(moved, tmp_path) -> Path:
    """A storage that was moved to where it is, of one's own."""
    root = tmp_path / "destination"
    shutil.copytree(moved.destination, root)
    return root


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let new processes import what this one can."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
