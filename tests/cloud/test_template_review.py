"""A reviewer who reads every resource by a list of rules finds nothing that is not explained."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from tests.house.sources import ROOT

pytestmark = [pytest.mark.cloud, pytest.mark.slow, pytest.mark.xdist_group("sam")]

CONFIGURATION = ROOT / "infra" / "checkov.yaml"


def test_checkov_finds_nothing_but_what_was_decided_otherwise(tmp_path):
    subprocess.run([ROOT / "scripts" / "setup", "checkov"], check=True, capture_output=True)

    run = subprocess.run(
        [ROOT / ".venv-checkov" / "bin" / "checkov", "--config-file", CONFIGURATION],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout
    assert "Passed checks: 0" not in run.stdout


def test_every_rule_that_is_left_out_has_its_reason():
    lines = CONFIGURATION.read_text(encoding="utf-8").splitlines()

    for number, line in enumerate(lines):
        if re.search(r"- CKV", line):
            assert lines[number - 1].strip().startswith("# "), line
