"""Ends on the command line: said twice, told once, and killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.cli.endings import DIARY, DIE

pytestmark = pytest.mark.lifecycle

SPAWN = {"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}}


def test_a_destroyed_world_is_shown_listed_read_and_not_written(local, harbour):
    local("submit", "harbour", "-", stdin=json.dumps(SPAWN))
    local("tick", "harbour")

    done = local("world", "destroy", "harbour", "--yes", "--json")
    again = local("world", "destroy", "harbour", "--yes", "--json")
    refused = local("submit", "harbour", "-", stdin=json.dumps(SPAWN))
    rows = local("query", "harbour", "--components", "Position", "--json")
    listed, live = local("worlds", "--json"), local("worlds", "--live", "--json")

    assert (done.exit_code, again.exit_code) == (0, 0)
    assert done.json == again.json
    assert (done.json["status"], done.json["fence_held_until"]) == ("destroyed", None)
    assert (refused.exit_code, "world_destroyed" in refused.err) == (1, True)
    assert len(rows.json["rows"]) == 1
    assert [world["status"] for world in listed.json["worlds"]] == ["destroyed"]
    assert live.json == {"worlds": []}


def test_a_world_is_not_destroyed_unless_it_is_meant(local, harbour):
    asked = local("world", "destroy", "harbour")
    shown = local("world", "show", "harbour", "--json")

    assert (asked.exit_code, "--yes" in asked.err) == (2, True)
    assert shown.json["status"] == "active"


@pytest.mark.parametrize("command", [("destroy", "absent", "--yes"), ("resume", "absent")])
def test_an_absent_world_is_refused(local, harbour, command):
    run = local("world", *command)

    assert (run.exit_code, "not_found" in run.err) == (1, True)


def test_a_world_is_resumed_under_the_next_epoch_and_a_destroyed_one_is_not(local, harbour):
    resumed = local("world", "resume", "harbour", "--json")
    people = local("world", "resume", "harbour")
    local("world", "destroy", "harbour", "--yes")
    refused = local("world", "resume", "harbour")

    assert (resumed.exit_code, resumed.json["epoch"]) == (0, 1)
    assert (people.exit_code, "epoch" in people.out) == (0, True)
    assert (refused.exit_code, "world_destroyed" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("commit", "moment", "told"),
    [
        (1, "before", 1),
        (99, "while telling", 2),
        (2, "after", 1),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((1, "after", 1), (2, "before", 2), (3, "before", 1), (3, "after", 1))
        ),
    ],
)
def test_kill_9_at_any_step_and_the_same_command_ends_it(
    perdure, root, monkeypatch, commit, moment, told
):
    diary = root.parent / "diary"
    monkeypatch.setenv(DIARY, str(diary))
    here = ("--root", root, "--app", "tests.cli.endings:app")
    perdure("world", "create", "harbour", "--world-id", "harbour", *here)
    if moment == "while telling":
        diary.with_name(DIE).touch()

    killed = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.killed"),
            *(root, "tests.cli.endings:app", str(commit), moment),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=120,
    )
    done = perdure("world", "destroy", "harbour", "--yes", "--json", *here)
    log = perdure("log", "harbour", "--json", *here)

    assert killed.returncode == -signal.SIGKILL
    assert (done.exit_code, done.json["status"]) == (0, "destroyed")
    assert [each["kind"] for each in log.json["entries"]] == ["created", "closing", "destroyed"]
    assert diary.read_text().splitlines() == ["told"] * told
