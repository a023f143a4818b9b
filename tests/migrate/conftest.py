"""What the tests of migration share."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.migrate.storages import filled


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


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let new processes import what this one can."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
