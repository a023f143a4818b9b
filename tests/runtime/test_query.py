"""Queries: what may be asked of a world, and what each question means."""

from __future__ import annotations

import duckdb
import pytest
from tests.support.history import ONLY, STATES, history
from tests.support.worlds import (
    Position,
    position,
    signature_of,
)

from perdure.kernel.component import Component
from perdure.kernel.errors import (
    InvalidFilter,
    InvalidValue,
    NotFound,
    NotPublished,
    UnknownComponent,
)
from perdure.kernel.ids import RunId, Tick, WorldId
from perdure.kernel.records import Ancestor


def test_entities_are_chosen_by_id_and_rows_limited_in_order(place):
    history(place, landed_after=2)

    assert place.latitudes(entity_ids=[4, 1, 99]) == [(5, 1, 1.5), (5, 4, 4.4)]
    assert place.latitudes(entity_ids=[]) == []
    assert place.latitudes(entity_ids=list(range(3, 500))) == [(5, 4, 4.4)]
    assert place.latitudes(limit=2) == [(5, 1, 1.5), (5, 2, 2.0)]
    assert place.latitudes(limit=0) == []
    assert place.latitudes(ticks=range(6), entity_ids=[1], limit=2) == [(0, 1, 1.0), (1, 1, 1.1)]


def test_a_filter_judges_the_state_not_what_was_before_it(place):
    history(place, landed_after=2)

    assert place.latitudes(where="position__latitude < 2") == [(5, 1, 1.5)]
    assert place.latitudes(where="Position.latitude = 1.1") == []
    assert place.latitudes(ticks=range(6), where="is_active = false and entity_id = 3") == [
        (2, 3, None)
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"world": "none"}, NotFound),
        ({"ticks": Tick(6)}, NotPublished),
        ({"ticks": range(2, 7)}, NotPublished),
        ({"ticks": Tick(-1)}, InvalidValue),
        ({"ticks": range(-2, 3)}, InvalidValue),
        ({"ticks": range(0, 4, 2)}, InvalidValue),
        ({"where": "altitude > 1"}, InvalidFilter),
        ({"limit": -1}, InvalidValue),
        ({"entity_ids": [2**63]}, InvalidValue),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_with_its_reason(place, options, error):
    history(place)

    with pytest.raises(error):
        place.query("Position", **options)


def test_a_world_that_published_nothing_has_no_state(place):
    history(place)
    place.world("new")

    with pytest.raises(NotPublished, match="none is yet"):
        place.query("Position", world="new")


class Velocity(Component):
    x: float


@pytest.mark.parametrize("names", [("Velocity",), ("Position", "Nothing"), ("Position@beef",)])
def test_a_name_no_table_knows_is_an_unknown_component(place, names):
    history(place)

    with pytest.raises(UnknownComponent):
        place.query(*names)


@pytest.mark.parametrize("names", [(), ("Position", "Position"), ("Position", Position)])
def test_no_component_or_one_twice_is_invalid(place, names):
    history(place)

    with pytest.raises(InvalidValue):
        place.query(*names)


def test_a_class_no_table_holds_has_no_rows(place):
    history(place)

    rows = place.query(Velocity)

    assert rows.num_rows == 0
    assert rows.schema.names[-1] == "velocity__x"


def test_two_schemas_of_one_name_are_told_apart_and_never_guessed(place):
    other = type("Position", (Component,), {"__annotations__": {"x": int}, "__module__": __name__})
    world = place.world()
    world.publish({ONLY: [position(1, 1.0)], (other,): [{"entity_id": 2, "position__x": 5}]})

    with pytest.raises(UnknownComponent, match="2 schemas"):
        place.query("Position")
    by_print = place.query(f"Position@{other.component.fingerprint}")
    by_class = place.query(Position)

    assert by_print.column("position__x").to_pylist() == [5]
    assert by_class.column("position__latitude").to_pylist() == [1.0]


@pytest.mark.parametrize("landed", [False, True])
def test_a_fork_reads_its_ancestors_ticks_up_to_the_fork_and_then_its_own(place, landed):
    history(place)
    child = place.world(
        "child",
        run=RunId("run-2"),
        lineage=(Ancestor(world=WorldId("w"), run=RunId("run-1"), up_to=Tick(3)),),
    )
    child.publish({ONLY: [position(1, 100.0)]})
    if landed:
        place.land("w", "child")

    assert place.latitudes(world="child") == [(4, 1, 100.0), (4, 2, 2.0), (4, 4, 4.2)]
    assert place.latitudes(world="child", ticks=Tick(2)) == [(2, *each) for each in STATES[2]]
    rows = place.query("Position", world="child", ticks=range(3, 5)).to_pylist()
    assert [(row["world_id"], row["tick"]) for row in rows] == [("w", 3), ("child", 4)]


def test_worlds_never_see_each_others_rows(place):
    history(place)
    place.world("v").publish({ONLY: [position(77, 7.0)]})
    place.land("w", "v")

    assert place.latitudes(world="v") == [(0, 77, 7.0)]
    assert place.latitudes() == [(5, *each) for each in STATES[5]]


def test_duckdb_counts_what_the_reader_counts(place):
    history(place, landed_after=5)
    table = place.lake.opened(signature_of(*ONLY))

    with duckdb.connect() as connection:
        table.scan().to_duckdb("rows", connection=connection)
        counted = connection.execute("select count(*), sum(is_active::int) from rows").fetchall()

    read = place.query(Position, ticks=range(6), where="is_active = true")
    assert counted == [(12, 10)]
    assert read.num_rows == 11  # with the one that entity 4 wrote to another table
