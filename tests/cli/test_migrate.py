"""`perdure migrate`: a storage moves by one command, which says what it did and why it would not."""

from __future__ import annotations

import json
import os
import sys

import pytest

from perdure.kernel.canonical import canonical

pytestmark = pytest.mark.lifecycle

SPAWN = json.dumps({"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}})


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


@pytest.fixture
def landed(local, harbour):
    """A storage with one ship, at rest."""
    local("submit", "harbour", "-", stdin=SPAWN)
    local("tick", "harbour")
    local("land")


def migrate(perdure, root, *options):
    to = root.with_name("moved")
    return perdure("migrate", "--from", root, "--to", to, "--id", "m", *options)


def test_receipt_is_printed_and_printed_again(perdure, root, landed):
    first = migrate(perdure, root, "--json")
    again = migrate(perdure, root, "--json")

    assert (first.exit_code, again.exit_code) == (0, 0), first.err
    assert first.out == again.out == canonical(first.json).decode() + "\n"
    assert first.json["worlds"]["harbour"]["published"] == 0


def test_people_see_what_was_moved(perdure, root, landed):
    run = migrate(perdure, root)

    told = dict(line.split(maxsplit=1) for line in run.out.splitlines())
    assert run.exit_code == 0, run.err
    assert (told["worlds"].strip(), told["rows"].strip()) == (
        "1",
        "4",
    )  # one row of the world, three of its log


def test_moved_worlds_are_listed_here_and_there(perdure, root, landed):
    migrate(perdure, root)

    here = perdure("worlds", "--json", "--root", root)
    there = perdure("worlds", "--json", "--root", root.with_name("moved"))

    statuses = [run.json["worlds"][0]["status"] for run in (here, there)]
    assert statuses == ["moved", "active"]


def test_command_for_a_moved_world_is_refused(perdure, local, root, landed):
    migrate(perdure, root)

    run = local("submit", "harbour", "-", stdin=SPAWN)

    assert run.exit_code == 1
    assert "world_moved" in run.err


def test_source_that_is_not_at_rest_is_refused(perdure, local, root, harbour):
    local("submit", "harbour", "-", stdin=SPAWN)

    run = migrate(perdure, root)

    assert run.exit_code == 1
    assert "not_quiescent" in run.err
    assert "'harbour'" in run.err
    assert not root.with_name("moved").exists()


def test_storage_that_is_not_there_is_unavailable(perdure, root):
    run = migrate(perdure, root)

    assert run.exit_code == 3
    assert "store_unavailable" in run.err


@pytest.mark.parametrize(
    "arguments", [(), ("--from", "a", "--to", "b"), ("--from", "a", "--to", "b", "--id")]
)
def test_call_without_its_ends_or_id_is_used_wrongly(perdure, arguments):
    assert perdure("migrate", *arguments).exit_code == 2


def test_migration_that_was_never_begun_is_given_up_without_harm(perdure, local, root, landed):
    run = migrate(perdure, root, "--abandon", "--json")

    assert run.exit_code == 0, run.err
    assert local("tick", "harbour").exit_code == 0
