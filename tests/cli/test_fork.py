"""`perdure world fork` on a local directory."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.lifecycle

SPAWN = json.dumps({"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}})


def test_a_world_is_forked_and_goes_on_as_its_source_does(local, harbour):
    local("submit", "harbour", "-", stdin=SPAWN)
    local("tick", "harbour")
    local("submit", "harbour", "-", stdin=SPAWN)

    made = local("world", "fork", "harbour", "what if", "--world-id", "f", "--json")
    for world in ("harbour", "f"):
        assert local("tick", world).exit_code == 0
    infos = [local("world", "show", world, "--json").json for world in ("harbour", "f")]

    assert made.exit_code == 0
    assert (made.json["parent_world_id"], made.json["published_tick"]) == ("harbour", 0)
    assert [info["entities"] for info in infos] == [2, 2]
    query = ("--components", "Position", "--json")
    rows = [local("query", world, *query).json["rows"] for world in ("harbour", "f")]
    assert [row["entity_id"] for row in rows[1]] == [row["entity_id"] for row in rows[0]] == [1, 2]


def test_the_same_id_is_the_same_fork(local, harbour):
    first = local("world", "fork", "harbour", "what if", "--world-id", "f", "--json")
    again = local("world", "fork", "harbour", "what if", "--world-id", "f", "--json")

    assert again.json == first.json


def test_a_refusal_ends_with_1_and_its_code(local, harbour):
    run = local("world", "fork", "harbour", "f", "--at-tick", "7")

    assert run.exit_code == 1
    assert "not_published" in run.err


def test_pending_commands_can_be_left_alone(local, harbour):
    local("submit", "harbour", "-", stdin=SPAWN)

    made = local("world", "fork", "harbour", "f", "--drop-pending", "--json")

    assert made.json["pending_commands"] == 0
