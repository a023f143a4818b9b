"""What a world uses, listed and changed on the command line, in a process of its own each time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.emulator.deployment import ROOT, environment
from tests.support.children import children

pytestmark = pytest.mark.lifecycle

APP = "tests.cli.crewed:app"
SPAWN = json.dumps({"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}})


@pytest.fixture
def crewed(perdure, root):
    """Run ``perdure`` on a storage with a world named w."""

    def run(*arguments, stdin=""):
        return perdure(*arguments, "--root", root, "--app", APP, stdin=stdin)

    assert run("world", "create", "w", "--world-id", "w").exit_code == 0
    return run


DRIFT = {"name": "drift", "priority": 0, "components": ["Position"], "registered": True}


@pytest.mark.parametrize(
    ("plural", "name", "whole"),
    [
        ("processors", "drift", DRIFT),
        ("hooks", "look_out", {"name": "look_out", "moment": "OnSpawn", "registered": True}),
        ("resources", "chart", {"name": "chart", "registered": True}),
    ],
)
def test_each_kind_is_listed_removed_and_added(crewed, plural, name, whole):
    said = [
        crewed(plural, "list", "w", "--json"),
        crewed(plural, "remove", "w", name, "--json"),
        crewed(plural, "remove", "w", name, "--json"),
        crewed(plural, "list", "w", "--json"),
        crewed(plural, "add", "w", name, "--json"),
    ]

    assert [run.exit_code for run in said] == [0] * 5
    assert [run.json for run in said] == [{plural: each} for each in ([whole], [], [], [], [whole])]


def test_people_see_a_table_or_that_there_is_nothing(crewed):
    listed, none = crewed("processors", "list", "w"), crewed("hooks", "remove", "w", "look_out")

    heading, row = listed.out.splitlines()
    assert heading.split() == ["name", "priority", "components", "registered"]
    assert row.split()[:2] == ["drift", "0"]
    assert none.out == "no hooks\n"


def test_priority_of_a_world_is_its_own(crewed):
    added = crewed("processors", "add", "w", "drift", "--priority", "-7", "--json")
    again = crewed("processors", "add", "w", "drift", "--json")

    assert added.json["processors"] == [{**DRIFT, "priority": -7}]
    assert again.json["processors"] == [DRIFT]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("processors", "add", "w", "fly"), 1, "unknown_processor"),
        (("processors", "remove", "w", "fly"), 1, "unknown_processor"),
        (("hooks", "add", "w", "fly"), 1, "unknown_hook"),
        (("resources", "remove", "w", "fly"), 1, "unknown_resource"),
        (("processors", "add", "w", "drift", "--priority", "3000000000"), 1, "out_of_range"),
        (("processors", "add", "nowhere", "drift", "--priority", "1"), 1, "not_found"),
        (("processors", "list", "nowhere"), 1, "not_found"),
        (("hooks", "add", "w", "drift"), 1, "unknown_hook"),
        (("hooks", "add", "w", "look_out", "--priority", "1"), 2, "No such option"),
        (("processors", "add", "w"), 2, "Missing argument"),
        (("processors", "add", "w", "x" * 129), 1, "invalid_id"),
    ],
    ids=lambda each: " ".join(each)[:40] if isinstance(each, tuple) else None,
)
def test_refusal_says_why_and_changes_nothing(crewed, arguments, exit_code, code):
    before = crewed("log", "w", "--json").json

    run = crewed(*arguments)

    assert run.exit_code == exit_code
    assert code in run.err
    assert crewed("log", "w", "--json").json == before


def test_tick_goes_by_what_the_world_uses_and_tells_which_hooks_failed(crewed):
    crewed("submit", "w", "-", stdin=SPAWN)

    loud = crewed("tick", "w")
    crewed("processors", "remove", "w", "drift")
    crewed("submit", "w", "-", stdin=SPAWN)
    still = crewed("tick", "w", "--ticks", "2", "--json")
    rows = crewed("query", "w", "--components", "Position", "--json")

    failure = {"hook": "look_out", "code": "lookup_error", "detail": "nothing to see"}
    assert loud.exit_code == 0
    assert "hook look_out failed, which changed nothing: lookup_error: nothing to see" in loud.out
    assert still.json["hook_failures"] == [failure]
    assert [row["position__x"] for row in rows.json["rows"]] == [2.0, 1.0]


def test_processor_without_its_resource_fails_the_tick_and_says_so(crewed):
    crewed("submit", "w", "-", stdin=SPAWN)
    crewed("resources", "remove", "w", "chart")

    failed = crewed("tick", "w")
    crewed("resources", "add", "w", "chart")
    ticked = crewed("tick", "w", "--json")

    assert failed.exit_code == 3
    assert "tick_failed" in failed.err
    assert "UnknownResource" in failed.err
    assert ticked.json["published_tick"] == 0


@pytest.mark.slow
def test_processes_that_change_at_once_all_have_their_way(crewed, root):
    changes = [
        ("processors", "remove", "w", "drift"),
        ("hooks", "remove", "w", "look_out"),
        ("resources", "remove", "w", "chart"),
        ("processors", "remove", "w", "drift"),
    ]
    where = ("--root", str(root), "--app", APP)

    commands = [(sys.executable, "-m", "perdure.cli.main", *change, *where) for change in changes]
    given = {"cwd": ROOT, "env": environment(), "stdout": subprocess.DEVNULL}
    with children(commands, **given) as rivals:
        codes = [rival.wait(120) for rival in rivals]

    left = [crewed(plural, "list", "w", "--json").json for plural in ("processors", "hooks")]
    log = crewed("log", "w", "--json").json["entries"]
    assert codes == [0] * 4
    assert left == [{"processors": []}, {"hooks": []}]
    assert [each["kind"] for each in log].count("configured") == 3
