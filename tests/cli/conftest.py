"""The command line, called in this process as a shell would call it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.main import main

APP = "tests.emulator.harbour:app"


@dataclass
class Run:
    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Perdure = Callable[..., Run]


@pytest.fixture
def perdure(capsys, monkeypatch) -> Perdure:
    """Run ``perdure`` with arguments; ``stdin`` is what it reads."""

    def run(*arguments: object, stdin: str = "") -> Run:
        monkeypatch.setattr(sys, "argv", ["perdure", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Run(ended.value.code, printed.out, printed.err)

    return run


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def local(perdure, root) -> Perdure:
    """Run ``perdure`` on a storage in a local directory."""

    def run(*arguments: object, stdin: str = "") -> Run:
        return perdure(*arguments, "--root", root, "--app", APP, stdin=stdin)

    return run


@pytest.fixture
def harbour(local) -> Path:
    """A storage with a world named harbour in it; the directory it is in."""
    assert local("world", "create", "harbour", "--world-id", "harbour").exit_code == 0


@pytest.fixture
def catalog(harbour, root) -> Path:
    """The catalog file of a storage with a world in it."""
    (file,) = root.rglob(".perdure-catalog-sqlite.db")
    return file
