"""Reading: the same answer wherever the rows lie, and never half of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.types import StringType
from tests.support.history import BOTH, ONLY, STATES, history
from tests.support.worlds import (
    STORAGE,
    Flight,
    Position,
    gone,
    position,
    signature_of,
)

from perdure.kernel.errors import (
    Corrupt,
    SchemaMismatch,
)
from perdure.kernel.ids import Tick, WorldId
from perdure.kernel.reading import FindSignatures
from perdure.lake.iceberg import Lake
from perdure.runtime import read
from perdure.runtime.read import Reader


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("landed_after", [None, 0, 2, 3, 5])
def test_the_state_at_every_tick_is_the_same_wherever_rows_lie(place, landed_after, inline):
    history(place, landed_after=landed_after, inline=inline)

    for tick, expected in STATES.items():
        assert place.latitudes(ticks=Tick(tick)) == [(tick, *each) for each in expected]
    assert place.latitudes() == [(5, *each) for each in STATES[5]]


def test_a_state_says_in_its_base_columns_of_which_tick_it_is(place):
    history(place, landed_after=3)

    rows = place.query("Position", ticks=Tick(4))

    base = rows.select(["world_id", "run_id", "tick", "is_active", "commit"]).to_pylist()
    assert {tuple(row.values()) for row in base} == {("w", "run-1", 4, True, "w-4")}


@pytest.mark.parametrize("landed_after", [None, 2, 5])
def test_a_range_gives_the_rows_its_ticks_wrote(place, landed_after):
    history(place, landed_after=landed_after)

    rows = place.query("Position", ticks=range(1, 4))

    assert [
        (row["tick"], row["entity_id"], row["is_active"], row["position__latitude"], row["commit"])
        for row in rows.to_pylist()
    ] == [
        (1, 1, True, 1.1, "w-1"),
        (2, 1, True, 1.2, "w-2"),
        (2, 3, False, None, "w-2"),
        (2, 4, True, 4.2, "w-2"),  # it left one table for another: the active row wins
        (3, 1, True, 1.3, "w-3"),
    ]
    assert place.query("Position", ticks=range(3, 3)).num_rows == 0


def test_columns_are_the_base_ones_and_those_asked_for_in_their_order(place):
    history(place, landed_after=2)

    rows = place.query("Position", Flight, ticks=Tick(3))

    assert rows.schema.names == [
        *("world_id", "run_id", "entity_id", "tick", "is_active", "commit"),
        *("position__latitude", "position__longitude", "flight__carrier", "flight__number"),
    ]
    assert rows.column("entity_id").to_pylist() == [4]
    assert rows.column("flight__carrier").to_pylist() == ["UA"]


@pytest.mark.parametrize("landed_after", [None, 3, 5])
@pytest.mark.parametrize("checkpoints", [(1,), (3,), (1, 4), (5,)])
def test_a_checkpoint_changes_no_answer(place, landed_after, checkpoints):
    world = place.world()
    models = {1: ONLY, 2: ONLY, 3: ONLY, 4: ONLY}
    states = {
        tick: {ONLY: [position(e, v) for e, v in STATES[tick] if models[e] is ONLY]}
        for tick in STATES
    }
    for tick, rows in STATES.items():
        before = dict(STATES.get(tick - 1, []))
        changed = [position(e, v) for e, v in rows if before.get(e) != v]
        left = [gone(e) for e in before if e not in dict(rows)]
        world.publish({ONLY: changed + left}, states[tick] if tick in checkpoints else None)
        if tick == landed_after:
            place.land()

    for tick, expected in STATES.items():
        assert place.latitudes(ticks=Tick(tick)) == [(tick, *each) for each in expected]


class Counting:
    """Counts what is fetched."""

    def __init__(self, inner) -> None:
        self._inner = inner
        self.fetched: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, name: str) -> bytes:
        self.fetched.append(name)
        return await self._inner.get(name)


def test_a_state_reads_its_checkpoint_and_the_ticks_after_it_only(place):
    world = place.world(inline=False)
    for tick in range(20):
        rows = {ONLY: [position(1, float(tick))]}
        world.publish(rows, rows if tick % 5 == 0 else None)
    place.objects = Counting(place.objects)

    assert place.latitudes(ticks=Tick(13)) == [(13, 1, 13.0)]

    assert len(set(place.objects.fetched)) == 4
    assert place.objects.fetched[0].startswith("checkpoint/")


class Unopened:
    """Tables that nobody may look at."""


def test_a_state_is_read_from_landed_segments_while_they_are_few(place):
    history(place, landed_after=5, inline=False)

    rows = place.reader(lake=Unopened()).query(WorldId("w"), ["Position"])

    assert asyncio.run(rows).equals(place.query("Position"))


def test_a_state_is_read_from_tables_where_segments_are_large_or_many(place, monkeypatch):
    history(place, landed_after=5, inline=False)
    place.objects = Counting(place.objects)

    by_bytes = replace(place.reader(), segment_bytes_max=100)
    few = asyncio.run(by_bytes.query(WorldId("w"), ["Position"]))
    monkeypatch.setattr(read, "SEGMENTS_READ_MAX", 3)
    many = asyncio.run(place.reader().query(WorldId("w"), ["Position"]))

    assert place.objects.fetched == []
    assert few.equals(many)
    assert few.equals(place.query("Position"))


def test_a_checkpoint_that_was_thinned_out_is_done_without(place):
    world = place.world(inline=False)
    for tick in range(12):
        rows = {ONLY: [position(1, float(tick)), *([position(2, 2.0)] if tick == 0 else [])]}
        state = {ONLY: [position(1, float(tick)), position(2, 2.0)]}
        world.publish(rows, state if tick in (2, 6, 10) else None)
    for manifest in world.manifests[4:]:
        for held in manifest.checkpoint or ():
            asyncio.run(place.objects.delete(held.segment))

    assert place.latitudes() == [(11, 1, 11.0), (11, 2, 2.0)]


def test_segments_that_go_after_landing_are_not_missed(place):
    world = history(place, landed_after=5, inline=False)
    for manifest in world.manifests:
        for held in manifest.tables:
            asyncio.run(place.objects.delete(held.segment))

    assert place.latitudes() == [(5, *each) for each in STATES[5]]


def test_segments_that_are_damaged_after_landing_are_not_missed(place):
    world = history(place, landed_after=5, inline=False)
    held = world.manifests[-1].tables[0].segment
    path = place.root / "objects" / held
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-20] + bytes(20))

    assert place.latitudes() == [(5, *each) for each in STATES[5]]


def test_a_segment_that_goes_while_it_is_read_makes_a_new_plan(place):
    """The rows land, and their segments are trimmed, between the plan and the reading."""
    world = history(place, inline=False)

    class Trimming(Counting):
        async def get(self, name: str) -> bytes:
            if not self.fetched:
                self.fetched.append(name)
                await asyncio.to_thread(place.land)
                for manifest in world.manifests:
                    for held in manifest.tables:
                        await place.objects.delete(held.segment)
            return await self._inner.get(name)

    reader = Reader(place.authority, Trimming(place.objects), place.lake, STORAGE)

    rows = asyncio.run(reader.query(WorldId("w"), ["Position"], ticks=Tick(5)))

    assert rows.column("position__latitude").to_pylist() == [1.5, 2.0, 4.4]


def test_a_segment_that_is_gone_without_having_landed_is_corruption(place):
    world = history(place, inline=False)
    asyncio.run(place.objects.delete(world.manifests[3].tables[0].segment))

    with pytest.raises(Corrupt):
        place.query("Position")


def test_a_tick_that_makes_a_new_table_while_a_query_begins_is_seen_whole_or_not_at_all(place):
    """Tables are looked up behind the tick that is read: it names none that is younger."""
    world = place.world()
    world.publish({ONLY: [position(1, 1.0)]})

    class Publishing:
        is_done = False

        async def execute(self, request):
            reply = await place.authority.execute(request)
            is_last = isinstance(request, FindSignatures) and not reply
            if is_last and not self.is_done:
                self.is_done = True
                ua = {"flight__carrier": "UA", "flight__number": 7}
                await asyncio.to_thread(
                    world.publish, {ONLY: [position(1, 1.1)], BOTH: [position(2, 2.1, **ua)]}
                )
            return reply

    reader = Reader(Publishing(), place.objects, place.lake, STORAGE)

    rows = asyncio.run(reader.query(WorldId("w"), ["Position"]))

    found = set(
        zip(*(rows.column(each).to_pylist() for each in ("tick", "entity_id")), strict=True)
    )
    assert found in ({(0, 1)}, {(1, 1), (1, 2)})


def test_rows_that_land_while_a_query_runs_are_seen_once(place):
    """The watermark is read first: what lands after it is taken from the segments alone."""
    history(place, landed_after=2)

    class LandingLake(Lake):
        def opened(self, signature):
            place.land()
            return super().opened(signature)

    reader = Reader(place.authority, place.objects, LandingLake(place.catalog, "main"), STORAGE)
    place.lake = Lake(place.catalog, "main")

    rows = asyncio.run(reader.query(WorldId("w"), [Position], ticks=range(6)))

    assert rows.num_rows == 12


def test_a_table_that_was_lost_is_not_an_empty_one(place):
    history(place, landed_after=5)
    place.catalog.drop_table(("main", signature_of(*ONLY).table))

    with pytest.raises(Corrupt):
        place.query("Position")


def test_a_table_that_is_not_its_signature_fails_the_read(place):
    history(place, landed_after=5)
    table = place.lake.opened(signature_of(*ONLY))
    with table.update_schema() as update:
        update.add_column("note", StringType())

    with pytest.raises(SchemaMismatch):
        place.query("Position")
