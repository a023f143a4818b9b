"""What sam builds, without Docker, by whatever Python is here: it fits Lambda, on both machines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.cloud.rendered import functions
from tests.house.sources import ROOT

pytestmark = [pytest.mark.cloud, pytest.mark.slow, pytest.mark.xdist_group("sam")]

UNZIPPED_BYTES_MAX = 250 * 2**20
"""Function and layers together. Source: AWS Lambda, quotas, deployment package."""

THIN_BYTES_MAX = 20 * 2**20
ELF_MACHINE = {"x86_64": 0x3E, "arm64": 0xB7}
"""Source: the ELF header's e_machine, at its eighteenth byte."""

BUILD_SECONDS_MAX = 600
"""Four times what it takes: nothing is copied but what a function needs."""


@pytest.fixture(scope="module", params=sorted(ELF_MACHINE))
def built(request, tmp_path_factory):
    """The folder that was made for one machine, by `make build` or `sam build`, and that machine."""
    directory = tmp_path_factory.mktemp("built")
    subprocess.run([ROOT / "scripts" / "setup", "sam"], check=True, capture_output=True)
    sam = ROOT / ".venv-sam" / "bin" / "sam"
    commands = {
        "x86_64": ["make", "build", "ARCHITECTURE=x86_64", f"BUILT={directory}"],
        # Nothing is said, and what the environment says is for somebody else.
        "arm64": [sam, "build", "--build-dir", directory],
    }
    run = subprocess.run(
        commands[request.param],
        cwd=ROOT,
        env={**os.environ, "ARCHITECTURE": "x86_64", "SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS_MAX,
    )
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-2_000:]
    return directory, request.param


def bytes_of(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file())


def folder_of(directory: Path, function: str) -> Path:
    return directory / f"{function.title()}Function"


def test_a_function_with_arrow_is_within_what_lambda_takes(built):
    directory, _ = built

    for name in ("query", "tick", "land", "sessions", "jobs"):
        assert 100 * 2**20 < bytes_of(folder_of(directory, name)) < UNZIPPED_BYTES_MAX


def test_what_talks_to_models_and_tools_is_there_for_sessions_alone(built):
    directory, _ = built

    with_it = {name for name in functions() if (folder_of(directory, name) / "httpx").is_dir()}

    assert with_it == {"sessions"}
    assert (folder_of(directory, "sessions") / "jsonschema").is_dir()


def test_functions_without_arrow_are_small_and_their_layer_too(built):
    directory, _ = built

    layer = directory / "Packages" / "python"

    assert (layer / "pydantic").is_dir()
    assert (layer / "aws_lambda_powertools").is_dir()
    assert bytes_of(layer) < THIN_BYTES_MAX
    for name in ("api", "dispatch"):
        assert bytes_of(folder_of(directory, name)) < 3 * 2**20
        assert not (folder_of(directory, name) / "pyarrow").exists()


def test_every_function_has_its_own_handler_and_no_sdk(built):
    directory, _ = built

    for name in functions():
        folder = folder_of(directory, name)
        ours = ROOT / "functions" / name / "app.py"
        assert (folder / "app.py").read_bytes() == ours.read_bytes()
        assert (folder / "perdure" / "kernel" / "commit.py").is_file()
        assert not list(folder.glob("boto*"))
        assert not list(folder.rglob("__pycache__"))


def test_libraries_are_for_the_machine_and_the_python_of_the_deployment(built):
    directory, machine = built
    libraries = [each for each in directory.rglob("*.so*") if each.is_file()]

    found = {int.from_bytes(each.read_bytes()[18:20], "little") for each in libraries}
    tags = {each.name.split(".")[1].split("-")[1] for each in libraries if ".cpython-" in each.name}

    assert len(libraries) > 50
    assert found == {ELF_MACHINE[machine]}
    assert tags == {"313"}


def test_what_make_has_built_is_deployed_for_its_machine_and_refused_for_another(built):
    directory, machine = built

    text = (directory / "template.yaml").read_text(encoding="utf-8")
    parameter = yaml.safe_load(text)["Parameters"]["Architecture"]

    by_make = {"Default": "x86_64", "AllowedValues": ["x86_64"]}
    by_sam = {"Default": "arm64", "AllowedValues": ["arm64", "x86_64"]}
    expected = {"x86_64": by_make, "arm64": by_sam}[machine]
    assert {name: parameter[name] for name in expected} == expected
