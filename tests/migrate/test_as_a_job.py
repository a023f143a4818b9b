"""A storage moved by a job: killed on the way, it is run again from its top and moves once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.emulator.deployment import environment
from tests.support.children import child

pytestmark = [pytest.mark.stores, pytest.mark.slow]

APP = "tests.emulator.harbour:app"
SECONDS = 120
JOB = ("perdure.system", "perdure.migrate", "m")


def command(*arguments):
    return [sys.executable, "-m", "perdure.cli.main", *map(str, arguments), "--app", APP]


def told(*arguments):
    """Run `perdure`, which must do what it is told, and return the JSON that it prints."""
    run = subprocess.run(
        command(*arguments, "--json"),
        env=given(),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def given():
    return {**environment(), "PERDURE_LEASE": "1s"}


def test_a_move_whose_process_is_killed_is_gone_on_with_and_told_of_once(tmp_path):
    root, there = tmp_path / "root", tmp_path / "there"
    told("world", "create", "harbour", "--world-id", "h", "--root", root)
    told("tick", "h", "--ticks", "3", "--root", root)
    told("land", "--root", root)
    told("stores", "create", "notes", "--root", root)
    told("stores", "put", "notes", "notes/desk/note", json.dumps("hello"), "--root", root)
    args = json.dumps({"to": str(there), "migration_id": "m"})
    told("jobs", "start", *JOB[:2], "--args", args, "--job-id", "m", "--root", root)

    with child(command("jobs", "run", "--root", root), env=given()) as first:
        until = time.monotonic() + SECONDS
        while not there.exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(first.pid, signal.SIGKILL)
    left = told("jobs", "show", *JOB, "--root", root)
    ended = left
    while ended["phase"] != "ended":  # nobody may take it before the claim of the first is over
        assert time.monotonic() < until
        told("jobs", "run", "--root", root)
        ended = told("jobs", "show", *JOB, "--root", root)

    assert left["phase"] == "running"
    assert ended["phase"] == "ended"
    assert ended["outcome"]["kind"] == "done", ended
    assert ended["epoch"] == left["epoch"] + 1
    worlds = told("worlds", "--root", there)["worlds"]
    assert [(each["world_id"], each["status"]) for each in worlds] == [("h", "active")]
    here, arrived = (told("stores", "show", "notes", "--root", each) for each in (root, there))
    assert ended["outcome"]["result"]["stores"] == 1
    assert (here["status"], arrived["status"]) == ("moved", "open")
    assert (arrived["lineage"], arrived["seq"]) == (here["lineage"], 1)
