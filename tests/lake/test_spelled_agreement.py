"""A batch read from its bytes by columns: the same state as command by command, or not read so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.worldlings import REGISTRY, TYPES, after, contents, spawn, update

from perdure.kernel.batch import prepared
from perdure.kernel.canonical import canonical
from perdure.kernel.component import Component, Registry
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import BatchId, Instant, Partition, Seq, WorldId
from perdure.kernel.log import LogEntry
from perdure.kernel.operations import Spawn, Update
from perdure.kernel.stored import StoredBatch
from perdure.lake.spelled import spelled
from perdure.lake.staging import Staging
from perdure.lake.state import EMPTY

pytestmark = pytest.mark.proof


class Reading(Component):
    value: float
    count: int
    is_good: bool


KNOWN = Registry([*REGISTRY, Reading])
KINDS = {**TYPES, "Reading": Reading.component.fingerprint}


def stored(payload, count):
    entry = LogEntry(
        partition=Partition("w/s/w"),
        seq=Seq(2),
        at=Instant(0),
        kind="admitted",
        facts={
            "batch": "b",
            "first_sequence": 11,
            "first_entity_id": 101,
            "published": -1,
            "groups": [[0, 0, count, 11]],
        },
        payload=payload,
        previous="",
    )
    return StoredBatch.of(entry)


def admitted(*commands):
    return stored(prepared(WorldId("w"), BatchId("b"), commands, KNOWN).payload, len(commands))


def told(*operations, types=("Position",)):
    """Return a batch of what stands in the log, whether any admission would write it or not."""
    spelled_ = b",".join(
        each if isinstance(each, bytes) else json.dumps(each, separators=(",", ":")).encode()
        for each in operations
    )
    rest = canonical({"origin": "local", "principal": None, "types": {n: KINDS[n] for n in types}})
    return stored(b'{"commands":[' + spelled_ + b"]," + rest[1:], len(operations))


def is_read_whole(batch, before=EMPTY):
    """Apply a batch both ways, hold the states against each other, and tell if it was read whole."""
    whole, single = Staging(before, KNOWN), Staging(before, KNOWN)
    is_whole = whole.applied_whole(batch)
    if is_whole:
        result = single.apply(batch.commands(0, batch.size))
        assert result.applied == [*range(11, 11 + batch.size)]
        assert repr(contents(whole.state())) == repr(contents(single.state()))
        for table, archetype in whole.state().archetypes.items():
            assert archetype.rows.equals(single.state().archetypes[table].rows)
            assert archetype.rows.schema.equals(single.state().archetypes[table].rows.schema)
    else:
        assert whole.state() == before
    return is_whole


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
READINGS = st.builds(
    Reading, value=FLOATS, count=st.integers(-(2**63), 2**63 - 1), is_good=st.booleans()
)


@settings(max_examples=150, deadline=None)
@given(st.lists(READINGS, min_size=1, max_size=6))
def test_spawns_read_by_columns_are_those_read_one_by_one(readings):
    batch = admitted(*map(Spawn, readings))
    plainly = all("." in repr(each.value) for each in readings)

    assert is_read_whole(batch) == plainly, "1e+22 has no point, and is left to the other way"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), FLOATS), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), unique=True),
)
def test_updates_read_by_columns_are_those_read_one_by_one(updates, living):
    before = after(
        *(spawn(n, n, Position={"x": 1.0, "y": 2.0}, Velocity={"dx": 3.0}) for n in living)
    )
    entities = [entity for entity, _ in updates]
    commands = [
        Update(entity_id=entity, components={"Velocity": {"dx": dx}}) for entity, dx in updates
    ]

    is_whole = is_read_whole(admitted(*commands), before)

    possible = set(entities) <= set(living) and len(set(entities)) == len(entities)
    assert is_whole == (possible and all("." in repr(dx) for _, dx in updates))


X1 = {"components": {"Position": {"x": 1.0, "y": 2.0}}, "operation": "spawn"}


def spawned(position):
    return {"components": {"Position": position}, "operation": "spawn"}


@pytest.mark.parametrize(
    "batch",
    [
        told(X1, spawned({"x": 1, "y": 2.0})),
        told(X1, spawned({"x": 1, "y": 2.0}), spawned({"x": 1, "y": 2.0})),
        told(X1, spawned({"x": "1.0", "y": 2.0})),
        told(X1, spawned({"x": None, "y": 2.0})),
        told(X1, spawned({"x": 1.0})),
        told(X1, spawned({"x": 1.0, "y": 2.0, "z": 3.0})),
        told(X1, spawned(None)),
        told(X1, spawned([1.0, 2.0])),
        told(X1, {"components": {}, "operation": "spawn"}),
        told(X1, {"operation": "spawn"}),
        told(X1, {**X1, "operation": "teleport"}),
        told(X1, {**X1, "operation": None}),
        told(X1, {**X1, "command_id": 'a"},{"b'}),
        told(X1, {**X1, "entity_id": 5}),
        told(X1, {**X1, "anything": 1}),
        told({**X1, "operation": "update", "entity_id": 99}),
        told(X1, {"entity_id": 1, "operation": "despawn"}),
        told(X1, b'{"components":{"Position":{"x":NaN,"y":2.0}},"operation":"spawn"}'),
        told(X1, b'{"components":{"Position":{"x":1.0e999,"y":2.0}},"operation":"spawn"}'),
        told(X1, b'{"components":{"Position":{"x":1.0,"x":1.5,"y":2}},"operation":"spawn"}'),
        told(X1, types=("Position", "Velocity")),
        told({"components": {"Position": {"x": 1.0, "y": 2.0}, "Ghost": {}}, "operation": "spawn"}),
        told(
            {"components": {"Fragile": {"strength": 5}}, "operation": "spawn"}, types=("Fragile",)
        ),
        told(
            {
                "components": {"Label": {"text": "a", "rank": 1, "is_new": True}},
                "operation": "spawn",
            },
            types=("Label",),
        ),
        told(
            *(
                {
                    "components": {"Reading": {"value": 1.5, "count": count, "is_good": True}},
                    "operation": "spawn",
                }
                for count in (1, 2**63)
            ),
            types=("Reading",),
        ),
        told(
            {
                "components": {"Reading": {"value": 1.5, "count": True, "is_good": 1}},
                "operation": "spawn",
            },
            types=("Reading",),
        ),
        stored(b'{"commands":[]}', 1),
        stored(b"null", 1),
    ],
)
def test_what_is_not_spelled_as_an_admission_spells_it_is_left_to_be_read_one_by_one(batch):
    assert spelled(batch, KNOWN) is None or not is_read_whole(batch)


def test_what_nobody_knows_by_that_fingerprint_is_left_to_be_read_one_by_one():
    assert spelled(told(X1), Registry()) is None


def test_entities_of_a_whole_batch_are_changed_by_what_follows_it():
    batch = admitted(*(Spawn(Reading(value=n / 7, count=n, is_good=True)) for n in range(40)))
    staging = Staging(EMPTY, KNOWN)

    assert staging.applied_whole(batch)
    later = {"value": 0.5, "count": 0, "is_good": False}
    change = update(99, 103, Reading=later)._replace(types=KINDS)
    again = staging.apply([change])
    repeated = staging.applied_whole(batch)

    assert again.applied == [99]
    assert not repeated, "the entities are there by now"
    held = contents(staging.state())
    assert len(held) == 40
    assert held[103] == {f"reading__{name}": value for name, value in later.items()}
    assert held[102]["reading__count"] == 1


ONE = b'{"components":{"Position":{"x":1.0,"y":2.0}},"operation":"spawn"}'


@pytest.mark.parametrize(
    ("payload", "is_whole"),
    [
        (b'{"commands":[%s],"origin":"lo' % ONE, False),
        (b'{"commands":[%s],"origin":"a"}' % ONE, True),
        (b'{"commands":[%s],"origin":"a","types":[1]}' % ONE, True),
        (b'{"commands":[%s],"origin":\xff,"types":{}}' % ONE, False),
        (b'[{"commands":[%s],"types":{}}]' % ONE, False),
    ],
)
def test_a_payload_that_was_never_written_is_left_to_the_way_that_says_corrupt(payload, is_whole):
    batch = stored(payload, 1)

    assert spelled(batch, KNOWN) is None
    with pytest.raises(Corrupt):
        _ = batch.operations if not is_whole else batch.types


def test_types_that_are_no_fingerprints_are_left_to_the_other_way():
    payload = b'{"commands":[%s],"origin":"a","types":{"Position":[1]}}' % ONE

    assert spelled(stored(payload, 1), KNOWN) is None
