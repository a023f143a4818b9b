"""Imports: a function that was imported, and then copied many times, has nothing of its own yet.

SnapStart copies a process after its imports. An id, a token or a time drawn there would be
the same in all of them, and so would a client of AWS and what it has of credentials.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.api.test_functions import Functions
from tests.house.sources import environment
from tests.house.test_floors import LAKE_SIDE_FUNCTIONS

pytestmark = pytest.mark.cloud

ROOT = Path(__file__).parents[2]
FUNCTIONS = sorted(file.parent.name for file in (ROOT / "functions").glob("*/app.py"))

# Whoever is asked during the import for what must be drawn later is named, with who asked.
PROBE = """
import importlib.util, json, os, random, secrets, sys, time, traceback, uuid
asked = []
def watch(owner, name):
    real = getattr(owner, name)
    def watched(*given, **named):
        frames = traceback.extract_stack()[:-1]
        if any(f"{os.sep}perdure{os.sep}" in each.filename for each in frames) and importing:
            ours = [each for each in frames if f"{os.sep}perdure{os.sep}" in each.filename][-1]
            direct = frames[-1].filename == ours.filename
            if direct or owner is not time:
                asked.append(f"{name} by {ours.filename}:{ours.lineno}")
        return real(*given, **named)
    setattr(owner, name, watched)
for owner, names in {
    uuid: ("uuid1", "uuid4", "getnode"), os: ("urandom",), secrets: ("token_hex", "token_bytes"),
    random: ("random", "randint", "choice", "getrandbits", "uniform"),
    time: ("time", "time_ns", "monotonic", "perf_counter"),
}.items():
    for name in names:
        watch(owner, name)
importing = True
def loaded():
    spec = importlib.util.spec_from_file_location("deployed", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
one, other = loaded(), loaded()
importing = False
boxes = [one.sandbox, other.sandbox]
print(json.dumps({
    "asked": asked,
    "apart": one.sandbox is not other.sandbox and one.handler != other.handler,
    "opened": [each._ports is not None or each._runner is not None for each in boxes],
    "boto3": "boto3" in sys.modules,
    "logged": "powertools_handler" in vars(__import__("logging").getLogger("perdure")),
    "xray": "aws_xray_sdk" in sys.modules and "aws_xray_sdk.core" in sys.modules,
}))
"""


def probed(name, probe=PROBE):
    run = subprocess.run(
        [sys.executable, "-c", probe, str(ROOT / "functions" / name / "app.py")],
        cwd=ROOT,
        env=environment(
            AWS_LAMBDA_FUNCTION_NAME=f"stack-{name}",
            AWS_DEFAULT_REGION="eu-central-1",
            PERDURE_STORAGE="s3://bucket",
            PERDURE_TABLE="table",
            POWERTOOLS_SERVICE_NAME=name,
            POWERTOOLS_LOGGER_SAMPLE_RATE="0.5",
            _X_AMZN_TRACE_ID="Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1",
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LAKE_SIDE_FUNCTIONS else [])
        for name in FUNCTIONS
    ],
)
def test_importing_a_function_draws_nothing_and_opens_nothing(name):
    found = probed(name)

    assert found["asked"] == []
    assert found["apart"]
    assert found["opened"] == [False, False]
    assert not found["logged"]
    assert not found["xray"]


def test_function_api_is_imported_without_boto3():
    assert not probed("api")["boto3"]


def test_the_probe_sees_what_an_import_draws():
    source = "shared/perdure/authority/system.py"
    drawing = PROBE.replace(
        "one, other = loaded(), loaded()",
        "one, other = loaded(), loaded()\nfrom perdure.authority import system\nsystem.new_token()",
    )

    assert any(f"token_hex by {ROOT / source}" in each for each in probed("api", drawing)["asked"])


async def holder(sandbox):
    ports = await sandbox.opened()
    drawn = ports._ticker.holder
    await sandbox.aclose()
    return drawn


async def test_two_copies_of_a_process_are_two_holders(in_lambda, tmp_path):
    (tmp_path / "default").mkdir()
    in_lambda.setenv("PERDURE_STORAGE", tmp_path.as_uri())
    in_lambda.setenv("PERDURE_APP", "tests.emulator.harbour:app")
    one, other = Functions().module("tick"), Functions().module("tick")

    assert await holder(one.sandbox) != await holder(other.sandbox)
