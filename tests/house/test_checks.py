"""The checkers a person would run by hand, run as tests: types, lint, format, floors."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.house.sources import BIN, ROOT, environment

CHECKS = {
    "lint": (BIN / "ruff", "check", "--quiet", "."),
    "format": (BIN / "ruff", "format", "--check", "--quiet", "."),
    "types": (sys.executable, "-m", "mypy"),
    "floors": (BIN / "lint-imports", "--no-logo"),
}


@pytest.mark.parametrize("check", CHECKS)
def test_checker_finds_nothing(check):
    run = subprocess.run(
        CHECKS[check], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
