"""Processors: what they are given, and that a tick comes out the same."""

from __future__ import annotations

import asyncio

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.lake.worldlings import (
    Label,
    Position,
    Velocity,
    contents,
    despawn,
    spawn,
)
from tests.runtime.computing import FACTS, applied, drift, put, ran, small_app, small_state

from perdure.kernel.errors import TickFailed
from perdure.kernel.ids import IN_TICK_ENTITY_FIRST
from perdure.lake.changes import changes
from perdure.lake.state import EMPTY
from perdure.runtime.app import App
from perdure.runtime.compute import TickFacts, tell


@pytest.fixture
def app():
    return small_app()


@pytest.fixture
def state():
    return small_state()


def test_a_processor_runs_over_every_archetype_that_has_its_components(app, state):
    app.processor(Position, Velocity)(drift)

    after = contents(ran(app, state).state)

    assert {entity: row["position__x"] for entity, row in after.items()} == {
        1: 2.25,
        2: 1.5,
        3: 4.0,
        4: 4.0,
    }


def test_the_state_given_to_compute_stays_as_it_was(app, state):
    app.processor(Position, Velocity)(drift)
    before = contents(state)

    ran(app, state)

    assert contents(state) == before


def test_rows_come_whole_and_in_the_order_of_entity_ids(app, state):
    seen = []

    @app.processor(Position)
    def look(rows, tick):
        seen.append((rows.schema.names, rows["entity_id"].to_pylist()))
        return rows

    ran(app, state)

    assert sorted(ids for _, ids in seen) == [[1, 2], [3], [4]]
    assert all(names[0] == "entity_id" for names, _ in seen)
    assert ["entity_id", "position__x", "position__y"] in [names for names, _ in seen]


def test_processors_run_by_priority_and_then_by_name(app, state):
    order = []

    def noting(name):
        def note(rows, tick):
            order.append(name)
            return rows

        return note

    app.processor(Label, priority=5, name="last")(noting("last"))
    app.processor(Label, name="beta")(noting("beta"))
    app.processor(Label, priority=-1, name="first")(noting("first"))
    app.processor(Label, name="alpha")(noting("alpha"))

    used = ran(app, state).processors

    assert order == ["first", "alpha", "beta", "last"]
    assert used == ("first", "alpha", "beta", "last")


def test_a_processor_sees_what_those_before_it_returned(app, state):
    app.processor(Position, Velocity, priority=1, name="one")(drift)
    app.processor(Position, Velocity, priority=2, name="two")(drift)

    after = contents(ran(app, state).state)

    assert after[2]["position__x"] == 2.0


def test_newborn_and_updated_entities_are_seen_in_their_first_tick(app):
    app.processor(Position, Velocity)(drift)
    born = applied(EMPTY, spawn(1, 1, Position={"x": 0.0, "y": 0.0}, Velocity={"dx": 2.0}))

    after = ran(app, born).state

    (written,) = changes(EMPTY, after).tables
    assert written.rows.to_pylist() == [
        {
            "entity_id": 1,
            "is_active": True,
            "position__x": 2.0,
            "position__y": 0.0,
            "velocity__dx": 2.0,
        }
    ]


def test_a_processor_with_nothing_to_work_on_is_not_among_those_used(app, state):
    app.processor(Position, Label, name="used")(lambda rows, tick: rows)
    without = applied(state, despawn(9, 3))

    assert ran(app, without).processors == ()
    assert ran(app, state).processors == ("used",)


def test_a_processor_may_be_async(app, state):
    @app.processor(Position, Velocity)
    async def later(rows, tick):
        await asyncio.sleep(0)
        return drift(rows, tick)

    assert contents(ran(app, state).state)[1]["position__x"] == 2.25


def shake(rows, tick):
    return put(rows, "position__x", pa.array(tick.rng.normal(size=rows.num_rows)))


def test_a_tick_computed_again_comes_out_the_same(app, state):
    app.processor(Position)(shake)

    one, two = ran(app, state).state, ran(app, state).state

    assert contents(one) == contents(two)
    assert changes(one, two).rows == 0


@pytest.mark.parametrize(
    "other",
    [
        TickFacts("w2", "run", 7, 1_000),
        TickFacts("w", "run2", 7, 1_000),
        TickFacts("w", "run", 8, 1_000),
    ],
)
def test_every_world_run_and_tick_has_chances_of_its_own(app, state, other):
    app.processor(Position)(shake)

    assert contents(ran(app, state).state) != contents(ran(app, state, other).state)


def test_the_chances_of_a_processor_do_not_depend_on_other_processors_or_archetypes(app, state):
    app.processor(Position)(shake)
    alone = contents(ran(app, state).state)

    app.processor(Position, priority=-1, name="greedy")(
        lambda rows, tick: (tick.rng.normal(size=100), rows)[1]
    )
    fewer = applied(state, despawn(9, 3))

    assert contents(ran(app, state).state) == alone
    assert contents(ran(app, fewer).state)[1] == alone[1]


def test_every_archetype_has_chances_of_its_own(app, state):
    app.processor(Position)(shake)

    after = contents(ran(app, state).state)

    assert len({after[entity]["position__x"] for entity in (1, 3, 4)}) == 3


def test_a_processor_knows_its_tick(app, state):
    seen = set()

    @app.processor(Position)
    def look(rows, tick):
        seen.add((tick.world_id, tick.number, tick.time))
        return rows

    ran(app, state)

    assert seen == {("w", 7, 1_000)}


def test_entities_that_a_processor_makes_get_ids_of_the_second_range_in_order(app, state):
    made = []

    @app.processor(Label)
    def divide(rows, tick):
        made.append(tick.spawn(Position(x=9.0, y=9.0)))
        made.append(tick.spawn(Velocity(dx=1.0)))
        return rows

    computed = ran(app, state)
    again = ran(app, state, next_in_tick_entity_id=computed.next_in_tick_entity_id)

    first = IN_TICK_ENTITY_FIRST
    assert made == [first, first + 1, first + 2, first + 3]
    assert contents(computed.state)[first] == {"position__x": 9.0, "position__y": 9.0}
    assert again.next_in_tick_entity_id == first + 4


def test_entities_that_processors_end_are_gone_after_the_tick_however_many_end_them(app, state):
    @app.processor(Position, name="one")
    def one(rows, tick):
        tick.despawn(1, 4)
        return rows

    @app.processor(Position, Velocity, name="two")
    def two(rows, tick):
        tick.despawn(*rows.filter(pc.equal(rows["entity_id"], 1))["entity_id"].to_numpy())
        return rows

    after = ran(app, state).state

    assert sorted(contents(after)) == [2, 3]


def test_ending_what_does_not_live_fails_the_tick_by_the_processors_name(app, state):
    @app.processor(Label)
    def overreach(rows, tick):
        tick.despawn(np.int64(99))
        return rows

    with pytest.raises(TickFailed, match=r"overreach.*entity_not_found"):
        ran(app, state)


def test_making_what_is_not_registered_fails_the_tick(state):
    app = App()

    @app.processor(Label)
    def foreign(rows, tick):
        tick.spawn(Velocity(dx=1.0))
        return rows

    with pytest.raises(TickFailed, match=r"foreign.*Velocity"):
        ran(app, state)


def test_what_a_processor_raises_fails_the_tick_in_text_that_can_be_answered(app, state):
    @app.processor(Label)
    def babbles(rows, tick):
        raise LookupError("\ud800" * 10_000)

    with pytest.raises(TickFailed, match=r"babbles.*LookupError: \\ud800") as failed:
        ran(app, state)

    assert len(failed.value.found.encode()) < 1_000


def test_a_hook_that_fails_is_reported_and_the_others_are_told(app):
    told = []

    @app.hook("PreTick")
    def broken(fact):
        raise RuntimeError("no network")

    @app.hook("PreTick")
    async def fine(fact):
        told.append(fact)

    failures = asyncio.run(tell(app.hooks("PreTick"), FACTS))

    assert told == [FACTS]
    (failure,) = failures
    assert (failure.code, failure.detail) == ("runtime_error", "no network")
    assert failure.hook == "broken"
