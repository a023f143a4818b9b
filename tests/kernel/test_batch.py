"""Batches: what enters a digest, which limits hold, and what is read back from the log."""

from __future__ import annotations

import pytest
from tests.support.worldly import REGISTRY, WORLD, Counter, Position, Tag, World, due

from perdure.kernel import limits
from perdure.kernel.batch import grouped, prepared, split
from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component, Registry
from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import BatchId, Tick, WorldId
from perdure.kernel.log import log_key
from perdure.kernel.operations import (
    AddComponents,
    Despawn,
    RemoveComponents,
    Spawn,
    Update,
    parsed_commands,
)
from perdure.kernel.stored import StoredBatch

OK = "ok"


def batch(*commands, id="b", world=WORLD.world, **sender):
    return prepared(world, BatchId(id), commands, REGISTRY, **sender)


def verdict_of(*commands, id="b", registry=REGISTRY):
    try:
        prepared(WORLD.world, BatchId(id), commands, registry)
    except PerdureError as error:
        return error.code
    return OK


SAME, OTHER = True, False


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"id": "another"}, SAME),
        ({"principal": None, "origin": "local"}, SAME),
        ({"command": {"tick": None, "priority": None, "command_id": None}}, SAME),
        ({"principal": "ann"}, OTHER),
        ({"origin": "http"}, OTHER),
        ({"world": WorldId("another")}, OTHER),
        ({"command": {"tick": 0}}, OTHER),
        ({"command": {"priority": 0}}, OTHER),
        ({"command": {"max_attempts": 3}}, OTHER),
        ({"command": {"command_id": "mine"}}, OTHER),
        ({"command": {"entity_id": 2}}, OTHER),
    ],
)
def test_the_batch_digest_covers_the_request_as_sent(change, verdict):
    usual = batch(due())

    command = (
        due(**change.pop("command", {}))
        if "entity_id" not in change.get("command", {})
        else Despawn(entity_id=2)
    )
    changed = batch(command, **{k: v for k, v in change.items() if k != "command"})

    assert (changed.digest == usual.digest) is verdict


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"command_id": "another"}, SAME),
        ({"tick": 1}, OTHER),
        ({"priority": 0}, OTHER),
    ],
)
def test_a_commands_own_digest_leaves_out_its_id(change, verdict):
    ((_, _, usual),) = batch(due(command_id="mine")).own_ids

    ((_, _, changed),) = batch(due(**{"command_id": "mine", **change})).own_ids

    assert (changed == usual) is verdict


def test_a_commands_own_digest_is_the_same_in_any_company():
    alone = batch(Spawn(Tag(), command_id="mine"))
    together = batch(Spawn(Position(x=0, y=0)), Spawn(Tag(), command_id="mine"), id="c")

    assert alone.own_ids[0][2] == together.own_ids[0][2]
    assert (
        together.own_ids[0][2] != batch(Spawn(Tag(), command_id="mine"), origin="x").own_ids[0][2]
    )


def test_the_payload_is_canonical_and_the_same_from_json_and_from_python():
    raw = [
        {"components": {"Position": {"y": 2, "x": 1}}, "operation": "spawn", "tick": None},
        {"entity_id": 1, "operation": "update", "components": {"Counter": {"value": 1}}},
        {"entity_id": 1, "operation": "remove_components", "components": ["Tag", "Counter", "Tag"]},
    ]
    spelled = [
        Spawn(Position(x=1.0, y=2.0)),
        Update(Counter(value=1, note=None), entity_id=1),
        RemoveComponents(entity_id=1, components=["Counter", "Tag"]),
    ]

    from_json, from_python = batch(*parsed_commands(raw)), batch(*spelled)

    content = {
        "commands": [
            {"components": {"Position": {"x": 1.0, "y": 2.0}}, "operation": "spawn"},
            {
                "components": {"Counter": {"note": None, "value": 1}},
                "entity_id": 1,
                "operation": "update",
            },
            {"components": ["Counter", "Tag"], "entity_id": 1, "operation": "remove_components"},
        ],
        "origin": "local",
        "principal": None,
        "types": {each.__name__: each.component.fingerprint for each in (Counter, Position, Tag)},
    }
    assert from_json.payload == from_python.payload == canonical(content)
    assert from_json.digest == from_python.digest


class Text(Component):
    text: str


LONG = Registry((Text,))


def long(size):
    return Spawn(Text(text="x" * size))


@pytest.mark.parametrize(
    ("commands", "verdict"),
    [
        ([], "invalid_batch"),
        ([due()], OK),
        ([due()] * 10_000, OK),
        ([due()] * 10_001, "too_large"),
        ([due(tick) for tick in range(90)], OK),
        ([due(tick) for tick in range(91)], "too_large"),
        ([due(0, priority) for priority in range(91)], "too_large"),
        ([due(command_id=f"c{n}") for n in range(89)], OK),
        ([due(command_id=f"c{n}") for n in range(90)], "too_large"),
        ([due(command_id=f"c{n}", tick=n) for n in range(45)], OK),
        ([due(command_id=f"c{n}", tick=n) for n in range(46)], "too_large"),
        ([due(command_id="a"), due(command_id="a")], "invalid_batch"),
        ([due(command_id="a.1")], "invalid_id"),
        ([due(command_id="a/1")], "invalid_id"),
        ([due(command_id="")], "invalid_id"),
        ([due(command_id="x" * 129)], "invalid_id"),
    ],
    ids=range(16),
)
def test_a_batch_keeps_to_its_limits(commands, verdict):
    assert verdict_of(*commands) == verdict


@pytest.mark.parametrize(
    ("commands", "verdict"),
    [
        ([long(63_000)], OK),
        ([long(64_000)], "too_large"),
        ([long(10), long(64_000)], "too_large"),
        ([long(60_000)] * 99, OK),
        ([long(60_000)] * 100, "too_large"),
    ],
    ids=range(5),
)
def test_a_batch_keeps_to_its_limits_in_bytes(commands, verdict):
    assert verdict_of(*commands, registry=LONG) == verdict


@pytest.mark.parametrize(
    ("id", "verdict"),
    [
        ("b" * 120, OK),
        ("b" * 121, "invalid_id"),
        ("b.1", OK),
        ("", "invalid_id"),
        ("b/1", "invalid_id"),
    ],
)
def test_a_batch_id_leaves_room_for_the_index(id, verdict):
    assert verdict_of(due(), id=id) == verdict


def other_position():
    class Position(Component):
        x: float

    return Position


OTHER_POSITION = other_position()
FINGERPRINT = Position.component.fingerprint


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (Spawn(components={"Position": {"x": 0, "y": 0}}), OK),
        (Spawn(components={f"Position@{FINGERPRINT}": {"x": 0, "y": 0}}), OK),
        (Spawn(components={f"Position@{FINGERPRINT}": Position(x=0, y=0)}), OK),
        (Spawn(components={"Position": Counter(value=1)}), "invalid_value"),
        (Spawn(components={"Position@0": Position(x=0, y=0)}), "invalid_value"),
        (
            Spawn(
                components={
                    "Position": {"x": 0, "y": 0},
                    f"Position@{FINGERPRINT}": {"x": 1, "y": 1},
                }
            ),
            "invalid_value",
        ),
        (Spawn(components={"Nothing": {}}), "unknown_component"),
        (Spawn(OTHER_POSITION(x=0)), "unknown_component"),
        (Spawn(components={"Position": {"x": "a", "y": 0}}), "wrong_type"),
        (AddComponents(Tag(), entity_id=1), OK),
        (RemoveComponents(entity_id=1, components=["Nothing"]), "unknown_component"),
        (RemoveComponents(entity_id=1, components=["Tag", f"Tag@{Tag.component.fingerprint}"]), OK),
    ],
    ids=range(12),
)
def test_components_are_resolved_exactly(command, verdict):
    assert verdict_of(command) == verdict


def test_one_batch_does_not_mix_two_schemas_of_a_component():
    registry = Registry((Position, OTHER_POSITION))

    verdict = verdict_of(Spawn(Position(x=0, y=0)), Spawn(OTHER_POSITION(x=0)), registry=registry)

    assert verdict == "invalid_batch"


def test_no_tick_and_one_not_above_the_published_are_the_next_tick():
    dues = [(None, 0), (3, 0), (4, 0), (5, 0), (6, 0), (5, -1), (None, 0)]

    groups = grouped(dues, published=4)

    assert list(groups.items()) == [
        ((Tick(5), 0), [0, 1, 2, 3, 6]),
        ((Tick(6), 0), [4]),
        ((Tick(5), -1), [5]),
    ]


def test_what_is_read_back_from_the_log_is_what_was_admitted():
    world = World()
    commands = [due(4), Spawn(Tag(), tick=3, command_id="mine"), due(), Spawn(Tag(), tick=4)]
    receipts = world.receipts(*commands, batch="b")

    stored = StoredBatch.of(world.paper.held(log_key(WORLD.partition, 2)))

    told = [stored.command(index) for index in range(4)]
    ids = [stored.command_id(index) for index in range(4)]
    assert ids == [each.command_id for each in receipts]
    assert [each.sequence for each in told] == [each.sequence for each in receipts]
    assert [each.entity_id for each in told] == [each.entity_id for each in receipts]
    assert [each.operation["operation"] for each in told] == ["despawn", "spawn"] * 2
    assert stored.groups == [((4, 0), [0, 3]), ((3, 0), [1]), ((0, 0), [2])]
    assert stored.group_of == {0: 0, 3: 0, 1: 1, 2: 2}
    assert told[0].max_attempts == limits.ATTEMPTS_DEFAULT


@pytest.mark.parametrize(
    ("commands", "verdict"),
    [
        ([], []),
        ([due()] * 5, [3, 2]),
        ([due(tick) for tick in range(4)], [2, 2]),
        ([due(0), due(0), due(1), due(2)], [3, 1]),
        ([due(command_id="a"), due(command_id="b"), due(command_id="c")], [1, 1, 1]),
        ([due(0), due(0, 0), due(1)], [3]),
    ],
    ids=range(6),
)
def test_a_list_is_split_into_few_batches_within_the_limits(commands, verdict):
    parts = list(split(commands, commands_max=3, records_max=2))

    assert [len(part) for part in parts] == verdict
    assert [each for part in parts for each in part] == commands
