"""Storages that move, are copied or drift, and the slips of whoever types: what a review tried."""

from __future__ import annotations

import base64
import json
import re
import shutil

import pytest

from airspace.client import PATIENCE_SECONDS as DEMO_SECONDS
from perdure.cli.client import PATIENCE_SECONDS as CLI_SECONDS
from perdure.cli.client import Answered
from perdure.cli.embedded import Embedded
from perdure.runtime.land import LEASE_MS

DRIFTED = "tests.cli.drifted:app"
SPAWN = json.dumps({"operation": "spawn", "components": {"Position": {"x": 1.0, "y": 0.0}}})


@pytest.fixture
def landed(local, harbour):
    """A world with one ship, whose tick 0 has landed."""
    local("submit", "harbour", "-", stdin=SPAWN)
    local("tick", "harbour")
    assert local("land", "--json").json["rows"] == 1
    return harbour


def query(perdure, root, *arguments):
    return perdure(
        "query", "harbour", "--components", "Position", "--json", "--root", root, *arguments
    )


def test_component_that_no_entity_has_yet_gives_no_rows(local, harbour):
    local("tick", "harbour", "--ticks", "5")

    run = local("query", "harbour", "--components", "Position", "--tick", "3", "--json")

    assert run.exit_code == 0, run.err
    assert run.json["rows"] == []


def test_tick_under_another_application_is_refused_before_anything_is_lost(
    local, perdure, root, harbour
):
    local("submit", "harbour", "-", "--batch-id", "b", stdin=SPAWN)

    run = perdure("tick", "harbour", "--root", root, "--app", "airspace.app:app")

    assert run.exit_code == 1
    assert "wrong_app" in run.err
    assert local("command", "show", "harbour", "b-000000.0", "--json").json["status"] == "pending"


def test_command_of_a_schema_that_is_gone_is_rejected_and_never_guessed(
    local, perdure, root, harbour
):
    local("submit", "harbour", "-", "--batch-id", "b", stdin=SPAWN)

    run = perdure("tick", "harbour", "--root", root, "--app", DRIFTED)

    assert run.exit_code == 0
    told = local("command", "show", "harbour", "b-000000.0", "--json").json
    assert (told["status"], told["code"]) == ("rejected", "unknown_component")


def test_published_tick_stays_readable_when_another_world_has_a_newer_schema(
    local, perdure, root, harbour
):
    local("submit", "harbour", "-", stdin=SPAWN)
    local("tick", "harbour")
    drifted = ("--root", root, "--app", DRIFTED)
    perdure("world", "create", "other", "--world-id", "other", *drifted)
    perdure("submit", "other", "-", *drifted, stdin=SPAWN)
    perdure("tick", "other", *drifted)

    run = query(perdure, root, "--tick", "0")

    assert run.exit_code == 0, run.err
    assert len(run.json["rows"]) == 1


def test_storage_whose_directory_was_moved_is_read_where_it_is_now(landed, perdure, root):
    moved = root.rename(root.with_name("moved"))

    run = query(perdure, moved, "--tick", "0")

    assert run.exit_code == 0, run.err


def test_landing_in_a_copy_leaves_the_original_alone(landed, perdure, root):
    copy = shutil.copytree(root, root.with_name("copy"))
    before = sorted(root.rglob("*"))

    perdure("tick", "harbour", "--root", copy, "--app", "tests.emulator.harbour:app")
    perdure("land", "--root", copy)

    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("patience_seconds", [CLI_SECONDS, DEMO_SECONDS])
def test_clients_wait_longer_than_a_dead_lander_holds_its_fence(patience_seconds):
    assert patience_seconds * 1_000 > LEASE_MS


def test_cursor_with_an_impossible_place_is_refused(local, root, harbour):
    local("submit", "harbour", "-", stdin=SPAWN + "\n" + SPAWN)
    local("tick", "harbour")
    client = Embedded(root, app="tests.emulator.harbour:app")
    try:
        asked = {"components": "Position", "limit": 1}
        page = client.ask("GET", "/v1/worlds/harbour/entities", query=asked)
        scope, _ = base64.urlsafe_b64decode(page["next"] + "==").rsplit(b"\n", 1)
        forged = base64.urlsafe_b64encode(scope + b"\n0 9223372036854775807").rstrip(b"=")

        with pytest.raises(Answered) as answered:
            client.ask(
                "GET", "/v1/worlds/harbour/entities", query={**asked, "next": forged.decode()}
            )
    finally:
        client.close()

    assert answered.value.code == "invalid_value"


def test_every_duration_that_the_help_names_is_taken(local):
    named = re.findall(r"\b\d+(?:ms|s|m|h|d)\b", local("world", "create", "--help").out)

    runs = [local("world", "create", f"every-{each}", "--every", each) for each in named]

    assert len(named) >= 3
    assert [run.exit_code for run in runs] == [0] * len(named)


def test_empty_idempotency_key_is_refused(root, harbour):
    client = Embedded(root, app="tests.emulator.harbour:app")
    try:
        body = {"commands": [json.loads(SPAWN)]}

        with pytest.raises(Answered) as answered:
            client.ask("POST", "/v1/worlds/harbour/commands", body=body, key="")
    finally:
        client.close()

    assert answered.value.code == "invalid_id"
