"""The state of a world in memory: the rows written of a tick, and the state made of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.lake.worldlings import (
    ORIGIN,
    STILL,
    Label,
    Position,
    Velocity,
    add,
    after,
    contents,
    despawn,
    remove,
    spawn,
    stored,
    update,
)

from perdure.kernel.component import table_id
from perdure.kernel.ids import NO_TICK
from perdure.lake.archetype import Archetype, Shape
from perdure.lake.changes import changes, checkpoint, should_checkpoint
from perdure.lake.schema import signature_record
from perdure.lake.state import EMPTY, WorldState, rebuilt, shape_from_signature


def test_a_despawn_writes_an_inactive_row_with_the_values_before_the_tick():
    before = after(spawn(1, 1, Velocity={"dx": 1.0}), spawn(2, 2, Velocity={"dx": 2.0}))

    state = after(update(3, 1, Velocity={"dx": 5.0}), despawn(4, 1), state=before)
    (written,) = changes(before, state).tables

    assert written.rows.to_pylist() == [{"entity_id": 1, "is_active": False, "velocity__dx": 1.0}]


def test_a_change_of_components_writes_a_row_in_the_old_table_and_one_in_the_new():
    before = after(spawn(1, 1, Velocity={"dx": 1.0}))

    state = after(add(2, 1, Position={"x": 2.0, "y": 3.0}), state=before)
    rows = {each.table: each.rows.to_pylist() for each in changes(before, state).tables}

    assert rows == {
        table_id([Velocity.component]): [{"entity_id": 1, "is_active": False, "velocity__dx": 1.0}],
        table_id([Position.component, Velocity.component]): [
            {
                "entity_id": 1,
                "is_active": True,
                "position__x": 2.0,
                "position__y": 3.0,
                "velocity__dx": 1.0,
            }
        ],
    }


def test_an_update_to_equal_values_writes_nothing():
    before = after(spawn(1, 1, Velocity={"dx": 1.0}))

    state = after(update(2, 1, Velocity={"dx": 1.0}), state=before)

    assert changes(before, state).rows == 0


def test_values_are_compared_bit_by_bit_so_nan_is_no_change_and_minus_zero_is_one():
    shape = Shape((Velocity.component,))
    old = archetype(shape, [1, 2, 3], [float("nan"), 0.0, None])
    new = archetype(shape, [1, 2, 3], [float("nan"), -0.0, None])

    written = changes(WorldState.of([old]), WorldState.of([new]))

    (table,) = written.tables
    assert table.rows["entity_id"].to_pylist() == [2]


@pytest.mark.parametrize(("old", "new"), [(None, 1.0), (1.0, None)])
def test_a_value_that_becomes_or_ceases_to_be_null_is_a_change(old, new):
    shape = Shape((Velocity.component,))

    written = changes(
        WorldState.of([archetype(shape, [1, 2], [5.0, old])]),
        WorldState.of([archetype(shape, [1, 2], [5.0, new])]),
    )

    (table,) = written.tables
    assert table.rows["entity_id"].to_pylist() == [2]


def test_a_tick_that_writes_every_living_entity_says_so():
    before = after(spawn(1, 1, Velocity=STILL), spawn(2, 2, Velocity=STILL))

    half = after(update(3, 1, Velocity={"dx": 1.0}), state=before)
    ended = after(update(3, 1, Velocity={"dx": 1.0}), despawn(4, 2), state=before)

    assert not changes(before, half).is_whole
    assert changes(before, ended).is_whole


def test_what_no_command_touched_keeps_its_memory():
    before = after(
        spawn(1, 1, Position=ORIGIN, Velocity=STILL),
        spawn(2, 2, Label={"text": "a", "rank": 1, "is_new": True}),
    )
    table = table_id([Position.component, Velocity.component])

    state = after(update(3, 1, Velocity={"dx": 1.0}), state=before)

    assert (
        state.archetypes[table_id([Label.component])]
        is before.archetypes[table_id([Label.component])]
    )
    assert address(state.archetypes[table], "position__x") == address(
        before.archetypes[table], "position__x"
    )
    assert address(state.archetypes[table], "velocity__dx") != address(
        before.archetypes[table], "velocity__dx"
    )


def test_of_an_entitys_rows_the_latest_tick_wins_and_at_one_tick_the_active_one():
    one = after(spawn(1, 1, Velocity={"dx": 1.0}), spawn(2, 2, Velocity={"dx": 2.0}))
    two = after(add(3, 1, Position=ORIGIN), state=one)
    three = after(despawn(4, 2), update(5, 1, Velocity={"dx": 3.0}), state=two)
    ticks = [
        stored(changes(before, state).tables, tick)
        for tick, (before, state) in enumerate([(EMPTY, one), (one, two), (two, three)])
    ]

    together = EMPTY.advanced([rows for tick in reversed(ticks) for rows in tick])

    assert contents(together) == contents(rebuilt(ticks)) == contents(three)
    assert contents(rebuilt(ticks[:2])) == contents(two)


def test_at_one_tick_the_active_row_wins_whichever_comes_first():
    one = after(spawn(1, 1, Velocity={"dx": 1.0}))
    two = after(add(2, 1, Position=ORIGIN), state=one)
    three = after(remove(3, 1, "Position"), state=two)

    for before, state in ((one, two), (two, three)):
        rows = stored(changes(before, state).tables, 5)
        assert contents(EMPTY.advanced(rows)) == contents(state)
        assert contents(EMPTY.advanced(rows[::-1])) == contents(state)


def test_a_later_row_in_another_table_takes_the_entity_there():
    one = after(spawn(1, 1, Velocity={"dx": 1.0}), spawn(2, 2, Velocity={"dx": 1.0}))
    two = after(spawn(1, 1, Position=ORIGIN))

    state = one.advanced(stored(changes(EMPTY, two).tables, 6))

    assert contents(state) == {
        1: {"position__x": 0.0, "position__y": 0.0},
        2: {"velocity__dx": 1.0},
    }


def test_entities_that_come_from_different_tables_bring_their_own_values():
    label = {"text": "a", "rank": 1, "is_new": True}
    before = after(
        spawn(1, 1, Position={"x": 1.0, "y": 0.0}, Velocity=STILL),
        spawn(2, 2, Position={"x": 2.0, "y": 0.0}, Label=label),
        spawn(3, 3, Position={"x": 3.0, "y": 0.0}, Velocity=STILL),
        spawn(4, 4, Position={"x": 4.0, "y": 0.0}, Label=label),
        spawn(5, 5, Position={"x": 5.0, "y": 0.0}),
    )

    state = after(
        remove(6, 4, "Label"),
        remove(7, 1, "Velocity"),
        remove(8, 2, "Label"),
        remove(9, 3, "Velocity"),
        state=before,
    )

    assert {entity: row["position__x"] for entity, row in contents(state).items()} == {
        n: float(n) for n in range(1, 6)
    }


def test_a_state_is_rebuilt_from_a_checkpoint_and_the_rows_after_it():
    old = after(*(spawn(n, n, Velocity={"dx": float(n)}) for n in range(1, 100)))
    new = after(update(100, 50, Velocity={"dx": -1.0}), despawn(101, 51), state=old)

    state = rebuilt([stored(checkpoint(old), 7), stored(changes(old, new).tables, 8)])

    assert contents(state) == contents(new)


def test_a_table_is_understood_from_its_catalog_record_without_any_class():
    record = signature_record("c/x", [Velocity.component, Label.component])

    shape = shape_from_signature(record)

    assert shape.types == (Label.component, Velocity.component)
    assert shape.table == record.table


@pytest.mark.parametrize(
    ("tick", "last", "rows_since", "entities", "verdict"),
    [
        (0, NO_TICK, 0, 0, False),
        (62, NO_TICK, 0, 10, False),
        (63, NO_TICK, 0, 10, True),
        (163, 100, 0, 10, False),
        (164, 100, 0, 10, True),
        (101, 100, 9_999, 10, False),
        (101, 100, 10_000, 10, True),
        (103, 100, 300_000, 100_000, False),
        (104, 100, 400_000, 100_000, True),
    ],
)
def test_a_checkpoint_is_due_by_ticks_or_when_changes_outgrow_the_world(
    tick, last, rows_since, entities, verdict
):
    assert should_checkpoint(tick, last, rows_since, entities) is verdict


def test_ids_of_an_archetype_cannot_be_written():
    state = after(spawn(1, 1, Velocity=STILL))
    (held,) = state.ordered

    with pytest.raises(ValueError, match="read-only"):
        held.ids[0] = np.int64(5)


def archetype(shape, ids, values):
    rows = pa.table(
        [pa.array(ids, pa.int64()), pa.array(values, pa.float64())], schema=shape.schema
    )
    return Archetype.of(shape, rows)


def address(held, column):
    return held.array(column).buffers()[1].address
