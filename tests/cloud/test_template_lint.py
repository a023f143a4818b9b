"""The template is one that sam and cfn-lint find nothing in."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.cloud.rendered import TEMPLATE
from tests.house.sources import ROOT

# One worker runs this module, so the environment below is made once.
pytestmark = [pytest.mark.cloud, pytest.mark.xdist_group("sam")]


@pytest.fixture(scope="module")
def sam():
    """The folder of sam's and cfn-lint's programs, made ready if it is not."""
    subprocess.run([ROOT / "scripts" / "setup", "sam"], check=True, capture_output=True)
    return ROOT / ".venv-sam" / "bin"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            ("sam", "validate", "--lint", "--region", "eu-central-1", "--template", TEMPLATE),
            marks=pytest.mark.slow,  # the same linter, after another translation
            id="sam",
        ),
        pytest.param(("cfn-lint", TEMPLATE), id="cfn-lint"),
    ],
)
def test_linter_finds_nothing(sam, command, tmp_path):
    home = {"HOME": str(tmp_path), "SAM_CLI_TELEMETRY": "0", "AWS_EC2_METADATA_DISABLED": "true"}

    run = subprocess.run(
        [sam / command[0], *command[1:]],
        cwd=tmp_path,
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
