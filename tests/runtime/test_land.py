"""Landing: every published row in its table once, whoever died on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import duckdb
import pytest
from pyiceberg.types import StringType
from tests.support.day import BOTH, ONLY, a_day, expected
from tests.support.worlds import (
    STORAGE,
    gone,
    position,
    signature_of,
)

from perdure.kernel.errors import Corrupt, SchemaMismatch
from perdure.kernel.ids import WorldId
from perdure.kernel.landing import (
    LandingTable,
    landed_table_key,
)
from perdure.kernel.places import landing_partition
from perdure.lake.expire import expire
from perdure.lake.iceberg import Lake
from perdure.runtime import land as land_module
from perdure.runtime.land import Bounds, Landed


@pytest.mark.parametrize("inline", [True, False])
def test_rows_of_many_worlds_and_ticks_land_in_one_file_per_table(place, inline):
    worlds = [a_day(place, name, inline=inline) for name in ("w", "v")]

    landed = place.land("w", "v")

    assert landed == Landed(
        rows=32,
        files=2,
        tables=frozenset(signature_of(*models).table for models in (BOTH, ONLY)),
        ticks=10,
        worlds=frozenset({WorldId("w"), WorldId("v")}),
    )
    assert place.keys(*BOTH) == expected("w", (1, 2, 3)) + expected("v", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,)) + expected("v", (9,))
    assert [world.landed_tick() for world in worlds] == [4, 4]
    order = place.rows(*BOTH).select(["world_id", "tick", "entity_id"]).to_pylist()
    assert order == sorted(order, key=lambda row: (row["world_id"], row["tick"], row["entity_id"]))


def test_values_and_base_columns_arrive_as_published(place):
    world = place.world("w")
    world.publish({ONLY: [position(7, 40.5, -73.25), gone(8)]})

    place.land("w")

    assert place.rows(*ONLY).to_pylist() == [
        {
            "world_id": "w",
            "run_id": "run-1",
            "entity_id": 7,
            "tick": 0,
            "is_active": True,
            "commit": "w-0",
            "position__latitude": 40.5,
            "position__longitude": -73.25,
        },
        {
            "world_id": "w",
            "run_id": "run-1",
            "entity_id": 8,
            "tick": 0,
            "is_active": False,
            "commit": "w-0",
            "position__latitude": None,
            "position__longitude": None,
        },
    ]


def test_a_landing_with_nothing_new_writes_no_file_and_no_mark(place):
    a_day(place)
    place.land("w")
    commits = place.authority.commits

    landed = place.land("w")

    assert landed == Landed()
    assert place.authority.commits == commits + 2  # the fence, taken and let go
    assert place.keys(*ONLY) == expected("w", (9,))


def test_what_is_published_later_lands_later(place):
    world = a_day(place)
    place.land("w")
    world.publish({ONLY: [position(9, 9.0)]})

    landed = place.land("w")

    assert (landed.rows, landed.ticks) == (1, 1)
    assert place.keys(*ONLY) == expected("w", (9,)) + Counter({("w", 5, 9): 1})


def test_ticks_without_rows_move_the_mark_and_make_no_table(place):
    world = place.world("w")
    for _ in range(3):
        world.publish()

    landed = place.land("w")

    assert (landed.ticks, landed.files, world.landed_tick()) == (3, 0, 2)


@pytest.mark.parametrize(
    "bounds",
    [Bounds(rows_max=5), Bounds(rows_max=1), Bounds(ticks_max=2), Bounds(worlds_max=1)],
)
def test_bounds_make_more_intents_and_the_same_rows(place, bounds):
    worlds = [a_day(place, name) for name in ("w", "v", "u")]

    landed = place.land("w", "v", "u", bounds=bounds)

    assert (landed.rows, landed.ticks) == (48, 15)
    assert sum(place.keys(*BOTH).values()) == 36
    assert set(place.keys(*BOTH).values()) == {1}
    assert [world.landed_tick() for world in worlds] == [4, 4, 4]


def test_a_hundred_worlds_land_within_the_limit_of_a_commit(place):
    names = [f"w{n}" for n in range(100)]
    for name in names:
        place.world(name).publish({ONLY: [position(1, 1.0)]})

    landed = place.land(*names)

    assert (landed.rows, landed.files, len(landed.worlds)) == (100, 2, 100)


def test_the_rows_landed_of_a_table_are_counted(place):
    a_day(place)
    place.land("w", bounds=Bounds(ticks_max=2))

    key = landed_table_key(landing_partition(STORAGE), signature_of(*BOTH).table)

    assert isinstance(place.authority.held(key), LandingTable)
    assert place.authority.held(key).rows == 12


def test_a_table_that_is_not_its_signature_takes_no_rows(place):
    world = a_day(place)
    place.land("w")
    table = Lake(place.catalog, "main").opened(signature_of(*ONLY))
    with table.update_schema() as update:
        update.add_column("note", StringType())
    world.publish({ONLY: [position(9, 5.0)]})

    with pytest.raises(SchemaMismatch):
        place.land("w")

    assert world.landed_tick() == 4


def test_a_segment_that_is_gone_before_it_landed_is_corruption(place):
    world = a_day(place, inline=False)
    asyncio.run(place.objects.delete(world.manifests[1].tables[0].segment))

    with pytest.raises(Corrupt):
        place.land("w")


def test_any_engine_reads_what_landed(place):
    a_day(place)
    place.land("w")
    airborne = place.rows(*BOTH)

    with duckdb.connect() as connection:
        connection.register("airborne", airborne)
        counts = connection.sql(
            "select tick, count(*) from airborne where is_active group by tick order by tick"
        ).fetchall()

    assert counts == [(0, 3), (1, 3), (3, 3), (4, 3)]


def test_a_table_that_is_landed_in_often_keeps_few_snapshots(place, monkeypatch):
    monkeypatch.setattr(land_module, "expire", partial(expire, above=6, kept=3))
    world = place.world("w")
    for tick in range(12):
        world.publish({ONLY: [position(1, float(tick))]})
        place.land("w")

    table = place.lake.opened(signature_of(*ONLY))

    assert len(table.snapshots()) <= 6
    assert place.keys(*ONLY) == Counter(("w", tick, 1) for tick in range(12))
