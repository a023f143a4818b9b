"""Starting: help imports next to nothing, and a command only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.emulator.deployment import ROOT, deployed, environment

from perdure.cli.main import COMMANDS


def loaded(*arguments):
    """The modules that are loaded once ``perdure`` has run with these arguments."""
    script = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from perdure.cli.main import main\n"
        "main()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return set(json.loads(run.stderr.splitlines()[-1]))


def test_help_names_every_command_and_imports_none(perdure):
    run = perdure("--help")

    assert run.exit_code == 0
    assert all(name in run.out for name in COMMANDS)
    heavy = {"pydantic", "rich", "httpx", "uvicorn", "pyarrow", "aws_lambda_powertools", "boto3"}
    assert loaded("--help") & heavy == set()


def test_listing_worlds_of_a_directory_imports_neither_arrow_nor_an_http_client(
    local, harbour, root
):
    modules = loaded("worlds", "--root", root, "--app", "tests.emulator.harbour:app")

    assert "perdure.authority.sqlite" in modules
    assert modules & {"pyarrow", "numpy", "pyiceberg", "httpx", "boto3"} == set()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_every_command_has_help_of_its_own(perdure, name):
    run = perdure(name, "--help")

    assert run.exit_code == 0
    assert "Usage:" in run.out


def test_unknown_command_is_used_wrongly(perdure):
    run = perdure("explode")

    assert run.exit_code == 2
    assert run.err == "perdure: No such command 'explode'.\n"


def test_same_words_work_on_an_address(perdure, tmp_path):
    with deployed(tmp_path / "root") as running:
        made = perdure("token", "--role", "admin", "--ttl", "5m", "--root", tmp_path / "root")
        there = ("--url", str(running.http.base_url), "--token", made.out.strip())
        spawn = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}

        bad = perdure("world", "create", "harbour", "--world-id", "h/2", *there)
        perdure("world", "create", "harbour", "--world-id", "h 2", *there)
        perdure("submit", "h 2", "-", *there, stdin=json.dumps([spawn] * 3))
        ran = perdure("tick", "h 2", "--ticks", 2, "--json", *there)
        rows = perdure("query", "h 2", "--components", "Position", "--json", *there)
        landed = perdure("land", "--json", *there)
        refused = perdure("world", "show", "nowhere", *there)
        nobody = perdure("worlds", *there[:2])

    assert (bad.exit_code, nobody.exit_code) == (1, 1)
    assert ran.json == {
        "published_tick": 1,
        "ticks": 2,
        "applied": 3,
        "rejected": 0,
        "hook_failures": [],
    }
    assert [row["entity_id"] for row in rows.json["rows"]] == [1, 2, 3]
    assert landed.json["rows"] == 6
    assert (refused.exit_code, refused.err.count("\n")) == (1, 1)
    assert (nobody.exit_code, nobody.err.count("\n")) == (1, 1)
    assert nobody.err.startswith("perdure: unauthenticated: ")
    assert "PERDURE_TOKEN" in nobody.err
