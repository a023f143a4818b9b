"""Results: what a processor may return, and what fails its tick."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.lake.worldlings import (
    Label,
    Position,
    Velocity,
    contents,
)
from tests.runtime.computing import drift, put, ran, small_app, small_state

from perdure.kernel.component import table_id
from perdure.kernel.errors import TickFailed
from perdure.lake.changes import changes


@pytest.fixture
def app():
    return small_app()


@pytest.fixture
def state():
    return small_state()


def test_columns_in_another_order_or_of_a_type_that_converts_without_loss_are_taken(app, state):
    @app.processor(Label)
    def converted(rows, tick):
        rows = put(rows, "label__rank", pa.array([2], pa.int8()))
        rows = put(rows, "velocity__dx", pa.array([0.5], pa.float32()))
        rows = put(rows, "label__text", pa.array(["b"]).dictionary_encode())
        return rows.select(list(reversed(rows.schema.names)))

    after = contents(ran(app, state).state)[3]

    assert (after["label__rank"], after["velocity__dx"], after["label__text"]) == (2, 0.5, "b")


def test_rows_that_come_back_in_chunks_are_made_whole(app, state):
    @app.processor(Velocity)
    def chunked(rows, tick):
        return pa.concat_tables([rows.slice(0, 1), rows.slice(1)])

    after = ran(app, state).state

    assert contents(after) == contents(state)
    assert changes(state, after).rows == 0


def more_rows(rows, tick):
    return pa.concat_tables([rows, rows])


def fewer_rows(rows, tick):
    return rows.slice(1)


def other_order(rows, tick):
    return rows.take(list(reversed(range(rows.num_rows))))


def other_entities(rows, tick):
    return put(rows, "entity_id", pc.add(rows["entity_id"], 1))


def extra_column(rows, tick):
    return rows.append_column("speed", rows["velocity__dx"])


def lost_column(rows, tick):
    return rows.drop_columns(["velocity__dx"])


def doubled_column(rows, tick):
    return rows.append_column("velocity__dx", rows["velocity__dx"])


def text_for_number(rows, tick):
    return put(rows, "velocity__dx", pa.array(["1"] * rows.num_rows))


def number_that_overflows(rows, tick):
    return put(rows, "label__rank", pa.array([2.5]))


def null_in_a_required_field(rows, tick):
    return put(rows, "velocity__dx", pa.nulls(rows.num_rows, pa.float64()))


def not_a_number(rows, tick):
    return put(rows, "velocity__dx", pa.array([float("nan")] * rows.num_rows))


def nothing(rows, tick):
    return None


def breaks(rows, tick):
    return rows["no such column"]


@pytest.mark.parametrize(
    ("process", "component"),
    [
        (more_rows, Velocity),
        (fewer_rows, Velocity),
        (other_order, Velocity),
        (other_entities, Velocity),
        (extra_column, Velocity),
        (lost_column, Velocity),
        (doubled_column, Velocity),
        (text_for_number, Velocity),
        (number_that_overflows, Label),
        (null_in_a_required_field, Velocity),
        (not_a_number, Velocity),
        (nothing, Velocity),
        (breaks, Velocity),
    ],
)
def test_a_processor_that_breaks_the_rules_fails_the_tick_by_its_name(
    app, state, process, component
):
    app.processor(component)(process)
    before = contents(state)

    with pytest.raises(TickFailed, match=f"processor '{process.__name__}'"):
        ran(app, state)

    assert contents(state) == before


def test_an_interrupt_is_not_a_failed_tick(app, state):
    @app.processor(Position)
    def interrupted(rows, tick):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(app, state)


def test_a_null_is_taken_where_the_component_allows_it(app, state):
    @app.processor(Label)
    def forget(rows, tick):
        return put(rows, "label__text", pa.nulls(rows.num_rows))

    assert contents(ran(app, state).state)[3]["label__text"] is None


def test_columns_that_come_back_untouched_are_the_same_memory(app, state):
    app.processor(Position, Velocity)(drift)
    table = table_id([Position.component, Velocity.component])

    after = ran(app, state).state

    before_columns, after_columns = (
        {
            name: held.archetypes[table].array(name).buffers()[1].address
            for name in ("position__x", "velocity__dx")
        }
        for held in (state, after)
    )
    assert before_columns["velocity__dx"] == after_columns["velocity__dx"]
    assert before_columns["position__x"] != after_columns["position__x"]
