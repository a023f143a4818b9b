"""How the day becomes batches of commands."""

from __future__ import annotations

import json

import pytest

from airspace import components
from airspace.flights import real_day
from airspace.replay import Command, despawn_batches, spawn_batches, split
from perdure.kernel import limits
from perdure.kernel.component import checked_value


@pytest.fixture(scope="module")
def flights():
    return real_day().flights


def at(*ticks: int) -> list[Command]:
    return [{"operation": "despawn", "entity_id": n, "tick": t} for n, t in enumerate(ticks)]


def sizes(runs: list[tuple[Command, ...]]) -> list[int]:
    return [len(run) for run in runs]


@pytest.mark.parametrize(
    ("ticks", "groups_max", "commands_max", "verdict"),
    [
        ((), 2, 9, []),
        ((1,), 2, 9, [1]),
        ((1, 2), 2, 9, [2]),
        ((1, 2, 3), 2, 9, [2, 1]),
        ((1, 1, 2, 2, 2, 3), 2, 9, [5, 1]),
        ((1, 1, 1, 1), 2, 3, [3, 1]),
        ((1, 2, 1, 2, 3), 2, 9, [4, 1]),
        ((1, 2, 3, 4), 1, 9, [1, 1, 1, 1]),
    ],
)
def test_commands_are_cut_where_a_limit_would_be_passed(ticks, groups_max, commands_max, verdict):
    runs = split(at(*ticks), groups_max=groups_max, commands_max=commands_max)

    assert sizes(runs) == verdict
    assert [command for run in runs for command in run] == at(*ticks)


def test_priorities_are_groups_of_their_own():
    commands: list[Command] = [
        {"operation": "despawn", "entity_id": 1, "tick": 5, "priority": priority}
        for priority in (0, 1, 2)
    ]

    assert sizes(split(commands, groups_max=2)) == [2, 1]


def test_an_absent_priority_is_priority_zero_and_an_absent_tick_a_group():
    commands: list[Command] = [
        {"operation": "despawn", "entity_id": 1, "tick": 5},
        {"operation": "despawn", "entity_id": 2, "tick": 5, "priority": 0},
        {"operation": "despawn", "entity_id": 3},
        {"operation": "despawn", "entity_id": 4},
    ]

    assert sizes(split(commands, groups_max=2)) == [4]


def test_ids_that_the_caller_chose_count_beside_the_groups():
    commands = [command | {"command_id": f"c{n}"} for n, command in enumerate(at(1, 1, 1, 1))]

    assert sizes(split(commands, groups_max=3)) == [2, 2]


def test_a_command_that_alone_passes_the_limit_is_not_lost():
    commands: list[Command] = [command | {"command_id": "c"} for command in at(1)]

    assert sizes(split(commands, groups_max=1)) == [1]


def test_the_day_keeps_within_the_limits_of_a_batch(flights):
    batches = spawn_batches(flights) + despawn_batches(flights, range(1, 806))

    for batch in batches:
        assert len({command["tick"] for command in batch.commands}) <= limits.BATCH_GROUPS_MAX
        assert len(batch.commands) <= limits.BATCH_COMMANDS_MAX
        assert len(json.dumps(batch.commands)) <= limits.BATCH_BYTES_MAX
    assert sum(len(batch.commands) for batch in batches) == 2 * 805
    assert len(batches) == 13


def test_the_day_is_the_same_bytes_under_the_same_names_in_every_run(flights):
    first = spawn_batches(flights), despawn_batches(flights, range(1, 806))

    again = spawn_batches(real_day().flights), despawn_batches(flights, range(1, 806))

    assert json.dumps([batch.commands for part in again for batch in part]) == json.dumps(
        [batch.commands for part in first for batch in part]
    )
    assert [batch.id for batch in again[0]] == [f"day-spawn-{n:03}" for n in range(1, 7)]
    assert [batch.id for batch in again[1]] == [f"day-despawn-{n:03}" for n in range(1, 8)]


def test_each_aircraft_is_taken_away_under_its_own_id_when_its_route_ends(flights):
    spawns = [command for batch in spawn_batches(flights) for command in batch.commands]
    arrivals = {n: c["components"]["Route"]["arrival_tick"] for n, c in enumerate(spawns, 1)}

    despawns = [c for b in despawn_batches(flights, range(1, 806)) for c in b.commands]

    assert {command["entity_id"]: command["tick"] for command in despawns} == arrivals


def test_a_missing_receipt_is_noticed(flights):
    with pytest.raises(ValueError):
        despawn_batches(flights, range(1, 805))


def test_the_values_of_a_spawn_are_those_of_the_component_classes(flights):
    spawns = [command for batch in spawn_batches(flights) for command in batch.commands]

    for command in spawns:
        for name, values in command["components"].items():
            assert checked_value(getattr(components, name), values) == values
