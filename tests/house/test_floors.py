"""Who may import what from outside: boto3, Arrow and Iceberg stay where they belong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from tests.house.sources import LIBRARY, ROOT, environment, module_of

ARROW = ("numpy", "pyarrow", "pyiceberg")

# Every module below is on the admission path unless it stands here.
LAKE_SIDE = {
    "perdure.api.wiring_lake",
}
LAKE_SIDE_FUNCTIONS = {"query", "tick", "land"}
ADMISSION_FLOORS = ("perdure.kernel", "perdure.authority", "perdure.api")

BOTO3_HOMES = (
    "perdure.authority.dynamodb",
    "perdure.lake.s3",
    "perdure.api.wiring",
    "perdure.api.wiring_lake",
)


def on_admission_path(path: Path) -> bool:
    """Tell whether a thin function may come to import the module."""
    module = module_of(path)
    if module.startswith("functions."):
        return path.parent.name not in LAKE_SIDE_FUNCTIONS
    is_below = module == "perdure" or module.startswith(ADMISSION_FLOORS)
    return is_below and not module.startswith(tuple(LAKE_SIDE))


ADMISSION_PATH = sorted(module_of(path) for path in LIBRARY if on_admission_path(path))


@pytest.fixture(scope="module")
def imports():
    """The graph of all imports, those of outside packages included."""
    return grimp.build_graph(
        "perdure",
        "airspace",
        "perdure_emulator",
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )


@pytest.mark.parametrize("package", ARROW)
def test_no_chain_of_imports_leads_from_the_admission_path_to_arrow(imports, package):
    starts = [module for module in ADMISSION_PATH if module in imports.modules]
    assert starts

    chains = [
        " → ".join(chain)
        for module in starts
        if package in imports.modules
        and (chain := imports.find_shortest_chain(module, package)) is not None
    ]

    assert chains == []


def test_importing_the_admission_path_loads_no_arrow():
    script = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )

    run = subprocess.run(
        [sys.executable, "-c", script, json.dumps(ADMISSION_PATH)],
        cwd=ROOT,
        env=environment(AWS_DEFAULT_REGION="eu-central-1", POWERTOOLS_DEV="true"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert {*json.loads(run.stdout)} & {*ARROW} == set()


@pytest.mark.parametrize("package", ["boto3", "botocore"])
def test_aws_is_spoken_in_its_homes_only(imports, package):
    importers = (
        imports.find_modules_that_directly_import(package) if package in imports.modules else set()
    )

    strangers = {module for module in importers if not module.startswith(BOTO3_HOMES)}

    assert strangers == set()
