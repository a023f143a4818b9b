"""Who may import what from outside: boto3, Arrow and Iceberg stay where they belong."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from tests.house.sources import LIBRARY, ROOT, environment, module_of

ARROW = ("numpy", "pyarrow", "pyiceberg")

# Every module below is on the admission path unless it stands here.
LAKE_SIDE = tuple(
    f"perdure.api.wiring_{each}" for each in ("lake", "migrate", "python", "readonly")
)
NOT_DEPLOYED = ("perdure.authority.testing", "perdure.runtime.session.testing")
LAKE_SIDE_FUNCTIONS = {"query", "tick", "land"}
ADMISSION_FLOORS = ("perdure.kernel", "perdure.authority", "perdure.api")

BOTO3_HOMES = (
    "perdure.authority.dynamodb",
    "perdure.lake.s3",
    "perdure.api.wiring",
    "perdure.api.wiring_lake",
    "perdure_emulator.elsewhere_aws",
)

BROUGHT_BY_THE_RUNTIME = {
    "boto3",
    "botocore",
    "certifi",  # which botocore takes where it finds it
    "jmespath",
    "python-dateutil",
    "s3transfer",
    "six",
    "urllib3",
}
DEPLOYED_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "eu-central-1",
    "PERDURE_STORAGE": "s3://bucket",
    "PERDURE_TABLE": "table",
    "PERDURE_APP": "airspace.app:app",
    "POWERTOOLS_SERVICE_NAME": "api",
}


def on_admission_path(path: Path) -> bool:
    """Tell whether a thin function may come to import the module."""
    module = module_of(path)
    if module.startswith("functions."):
        return path.parent.name not in LAKE_SIDE_FUNCTIONS
    is_below = module == "perdure" or module.startswith(ADMISSION_FLOORS)
    return is_below and not module.startswith(LAKE_SIDE + NOT_DEPLOYED)


ADMISSION_PATH = sorted(module_of(path) for path in LIBRARY if on_admission_path(path))


@pytest.fixture(scope="module")
def imports():
    """The graph of all imports, those of outside packages included."""
    roots = {module_of(path).partition(".")[0] for path in LIBRARY}
    return grimp.build_graph(
        *sorted(roots),
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


@pytest.fixture(scope="module")
def loaded():
    """The top-level modules that importing the whole admission path loads."""
    script = (
        "import importlib, json, sys\n"
        "before = set(sys.modules)\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in {*sys.modules} - before})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, json.dumps(ADMISSION_PATH)],
        cwd=ROOT,
        env=environment(**DEPLOYED_ENVIRONMENT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return {*json.loads(run.stdout)}


def test_importing_the_admission_path_loads_no_arrow(loaded):
    assert loaded & {*ARROW} == set()


def test_importing_the_admission_path_loads_nothing_that_its_archive_lacks(loaded):
    pins = (ROOT / "requirements" / "thin.txt").read_text(encoding="utf-8")
    packed = set(re.findall(r"^([a-z0-9-]+)==", pins, re.MULTILINE)) | BROUGHT_BY_THE_RUNTIME

    homes = importlib.metadata.packages_distributions()
    needed = {name.lower().replace("_", "-") for top in loaded for name in homes.get(top, [])}

    assert needed - packed - {"perdure"} == set()


@pytest.mark.parametrize("package", ["boto3", "botocore"])
def test_aws_is_spoken_in_its_homes_only(imports, package):
    importers = (
        imports.find_modules_that_directly_import(package) if package in imports.modules else set()
    )

    strangers = {module for module in importers if not module.startswith(BOTO3_HOMES)}

    assert strangers == set()
