"""The route of forks."""

from __future__ import annotations

import pytest
from tests.api.rig import spawn

from perdure.api import models

pytestmark = pytest.mark.lifecycle

FORK = "/v1/worlds/harbour/fork"


def test_a_fork_is_told_with_its_parent_and_takes_over_what_is_open(call, harbour):
    call("POST", "/v1/worlds/harbour/commands", {"batch_id": "b", "commands": [spawn()]})

    made = call("POST", FORK, {"name": "what if", "world_id": "f"})
    told = call("GET", "/v1/worlds/f")
    command = call("GET", "/v1/worlds/f/commands/b.0")

    assert (made.status, told.status) == (201, 200)
    assert made.body == told.body
    info = models.World.model_validate(told.body)
    assert (info.parent_world_id, info.pending_commands) == ("harbour", 1)
    assert (command.status, command.body["status"]) == (200, "pending")


def test_a_fork_may_leave_what_is_open_to_its_source(call, harbour):
    call("POST", "/v1/worlds/harbour/commands", {"batch_id": "b", "commands": [spawn()]})

    made = call("POST", FORK, {"name": "what if", "world_id": "f", "pending": "drop"})
    command = call("GET", "/v1/worlds/f/commands/b.0")

    assert made.body["pending_commands"] == 0
    assert (command.body["status"], command.body["code"]) == ("rejected", "cancelled")


def test_a_fork_may_tick_by_itself(call, harbour):
    made = call("POST", FORK, {"name": "what if", "every": "1m"})

    assert made.body["every_ms"] == 60_000


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/worlds/nowhere/fork", {"name": "f"}, 404, "not_found"),
        (FORK, {"name": "harbour"}, 409, "name_taken"),
        (FORK, {"name": "f", "at_tick": 3}, 404, "not_published"),
        (FORK, {"name": "f", "pending": "some"}, 400, "invalid_value"),
        (FORK, {"name": "f", "every": "1m", "every_ms": 60_000}, 400, "invalid_value"),
        (FORK, {"name": "f", "world_id": "a/b"}, 400, "invalid_id"),
        (FORK, {}, 400, "missing_field"),
    ],
)
def test_what_cannot_be_forked_is_refused_and_nothing_changes(
    rig, harbour, path, body, status, code
):
    before = rig.snapshot()

    refused = rig.caller("POST", path, body)

    assert (refused.status, refused.body["code"]) == (status, code)
    assert rig.snapshot() == before
