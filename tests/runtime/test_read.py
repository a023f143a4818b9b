"""Reading: the same answer wherever the rows lie, and never half of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.types import StringType
from tests.support.authority import FakeAuthority
from tests.support.worlds import (
    STORAGE,
    Flight,
    Position,
    Published,
    gone,
    position,
    signature_of,
)

from perdure.kernel.component import Component
from perdure.kernel.errors import (
    Corrupt,
    InvalidFilter,
    InvalidValue,
    NotFound,
    NotPublished,
    SchemaMismatch,
    UnknownComponent,
)
from perdure.kernel.ids import Holder, RunId, Tick, Token, WorldId
from perdure.kernel.records import Ancestor
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader

ONLY = (Position,)
BOTH = (Flight, Position)


class Place:
    def __init__(self, root) -> None:
        self.root = root
        self.authority = FakeAuthority()
        self.objects = LocalObjects(root / "objects")
        self.catalog = open_local(root)
        self.lake = Lake(self.catalog, "main")
        self._batches = count(1)

    def world(self, name: str = "w", **options: Any) -> Published:
        return Published(self.authority, self.objects, WorldId(name), **options)

    def land(self, *worlds: str) -> None:
        landing = Landing(self.authority, self.objects, self.lake, STORAGE)
        asyncio.run(
            landing.land(
                [WorldId(each) for each in worlds or ("w",)],
                holder=Holder(f"h{next(self._batches)}"),
                new_token=lambda: Token(f"b{next(self._batches)}"),
            )
        )

    @property
    def reader(self) -> Reader:
        return Reader(self.authority, self.objects, self.lake, STORAGE)

    def query(self, *components: Any, world: str = "w", **options: Any) -> pa.Table:
        return asyncio.run(self.reader.query(WorldId(world), components, **options))

    def latitudes(self, **options: Any) -> list[tuple[int, int, float]]:
        rows = self.query("Position", **options)
        columns = ("tick", "entity_id", "position__latitude")
        return [tuple(row[each] for each in columns) for row in rows.to_pylist()]


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.catalog.close()


def history(place: Place, *, landed_after: int | None = None, inline: bool = True) -> Published:
    """Six ticks: 1 moves every tick, 2 once, 3 leaves, 4 changes its archetype and back."""
    world = place.world(inline=inline)
    ua = {"flight__carrier": "UA", "flight__number": 7}
    ticks = [
        {ONLY: [position(2, 2.0), position(1, 1.0), position(3, 3.0), position(4, 4.0)]},
        {ONLY: [position(1, 1.1)]},
        {ONLY: [position(1, 1.2), gone(3), gone(4)], BOTH: [position(4, 4.2, **ua)]},
        {ONLY: [position(1, 1.3)]},
        {ONLY: [position(1, 1.4), position(4, 4.4)], BOTH: [gone(4)]},
        {ONLY: [position(1, 1.5)]},
    ]
    for number, changes in enumerate(ticks):
        world.publish(changes)
        if number == landed_after:
            place.land()
    return world


STATES = {
    0: [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)],
    1: [(1, 1.1), (2, 2.0), (3, 3.0), (4, 4.0)],
    2: [(1, 1.2), (2, 2.0), (4, 4.2)],
    3: [(1, 1.3), (2, 2.0), (4, 4.2)],
    4: [(1, 1.4), (2, 2.0), (4, 4.4)],
    5: [(1, 1.5), (2, 2.0), (4, 4.4)],
}


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

    assert len(place.objects.fetched) == 4
    assert place.objects.fetched[0].startswith("checkpoint/")


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
    assert counted == [(11, 9)]
    assert read.num_rows == 10
