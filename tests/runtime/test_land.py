"""Landing: every published row in its table once, whoever died on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
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
    table_of,
)

from perdure.kernel.errors import Corrupt, FenceHeld, SchemaMismatch, StaleWriter, StoreUnavailable
from perdure.kernel.ids import Holder, Tick, Token, WorldId
from perdure.kernel.landing import (
    IntentPart,
    IntentTable,
    LandedTable,
    OpenIntent,
    TakeLandingFence,
    landed_table_key,
    landing_head_key,
)
from perdure.kernel.places import landing_partition
from perdure.lake import iceberg
from perdure.lake.catalog import LocalCatalog, open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.lake.segment import Origin
from perdure.runtime import land as land_module
from perdure.runtime.land import Bounds, Landed, Landing

BOTH = (Flight, Position)
ONLY = (Position,)


class Died(BaseException):
    """The process is gone."""


class Place:
    """A root with an authority, objects and a catalog, and landings that may die there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.authority = FakeAuthority()
        self.objects = LocalObjects(root / "objects")
        self.catalog = open_local(root)
        self._tokens = count(1)

    def world(self, name: str, **options: Any) -> Published:
        return Published(self.authority, self.objects, WorldId(name), **options)

    def land(self, *worlds: str, holder: str | None = None, **options: Any) -> Landed:
        landing = Landing(
            options.pop("authority", self.authority),
            options.pop("objects", self.objects),
            options.pop("lake", Lake(self.catalog, "main")),
            STORAGE,
        )
        return asyncio.run(
            landing.land(
                [WorldId(each) for each in worlds],
                holder=Holder(holder or f"holder-{next(self._tokens)}"),
                new_token=lambda: Token(f"batch-{next(self._tokens)}"),
                **options,
            )
        )

    def rows(self, *models: type) -> pa.Table:
        table = Lake(self.catalog, "main").opened(signature_of(*models))
        assert table is not None
        return table.scan().to_arrow()

    def keys(self, *models: type) -> Counter[tuple[str, int, int]]:
        columns = self.rows(*models).select(["world_id", "tick", "entity_id"]).to_pydict()
        return Counter(zip(*columns.values(), strict=True))


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.catalog.close()


def a_day(place: Place, name: str = "w", ticks: int = 5, **options: Any) -> Published:
    """A world with rows of two archetypes; tick 2 changes nothing."""
    world = place.world(name, **options)
    for tick in range(ticks):
        flying = [
            position(e, e + tick / 10, flight__carrier="UA", flight__number=e) for e in (3, 1, 2)
        ]
        changes = {BOTH: flying, ONLY: [position(9, float(tick))]}
        world.publish({} if tick == 2 else changes)
    return world


def expected(name: str, entities: tuple[int, ...], ticks: int = 5) -> Counter:
    return Counter((name, tick, e) for tick in range(ticks) if tick != 2 for e in entities)


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

    assert isinstance(place.authority.held(key), LandedTable)
    assert place.authority.held(key).rows == 12


class Steps:
    """Counts the steps of a process, and ends it before or after one of them."""

    def __init__(self, die_at: int | None = None, *, after: bool = False) -> None:
        self.taken = 0
        self._die_at = die_at
        self._after = after
        self._is_dead = False

    def take(self, step: Callable[[], Any]) -> Any:
        if self._is_dead:
            raise Died
        self.taken += 1
        if self.taken == self._die_at:
            self._is_dead = True
            if self._after:
                step()
            raise Died
        return step()


class DyingAuthority:
    def __init__(self, inner: FakeAuthority, steps: Steps) -> None:
        self._inner, self._steps = inner, steps

    async def execute(self, request):
        def step():
            coroutine = self._inner.execute(request)
            try:
                coroutine.send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("the fake never waits")

        return self._steps.take(step)


def dying_catalog(steps: Steps) -> type[LocalCatalog]:
    class DyingCatalog(LocalCatalog):
        def create_table(self, *arguments, **options):
            return steps.take(lambda: super(DyingCatalog, self).create_table(*arguments, **options))

        def commit_table(self, *arguments):
            return steps.take(lambda: super(DyingCatalog, self).commit_table(*arguments))

    return DyingCatalog


def steps_of_a_landing(place: Place, steps: Steps) -> None:
    catalog = open_local(place.root, dying_catalog(steps))
    try:
        place.land(
            "w",
            "v",
            holder="the dead",
            authority=DyingAuthority(place.authority, steps),
            lake=Lake(catalog, "main"),
            bounds=Bounds(ticks_max=3),
        )
    finally:
        catalog.close()


def count_of_steps(root: Path) -> int:
    place = Place(root)
    a_day(place, "w")
    a_day(place, "v")
    steps = Steps()
    steps_of_a_landing(place, steps)
    place.catalog.close()
    return steps.taken


@pytest.mark.proof
@pytest.mark.slow
def test_whoever_dies_at_any_step_rows_land_exactly_once(tmp_path):
    total = count_of_steps(tmp_path / "dry")
    assert total > 20

    for number in range(1, total + 1):
        for after in (False, True):
            place = Place(tmp_path / f"{number}-{after}")
            worlds = [a_day(place, "w"), a_day(place, "v")]
            with pytest.raises(Died):
                steps_of_a_landing(place, Steps(number, after=after))
            place.authority.now += land_module.LEASE_MS

            place.land("w", "v")

            assert place.keys(*BOTH) == expected("w", (1, 2, 3)) + expected("v", (1, 2, 3))
            assert place.keys(*ONLY) == expected("w", (9,)) + expected("v", (9,))
            assert [world.landed_tick() for world in worlds] == [4, 4]
            assert place.authority.held(landing_head_key(landing_partition(STORAGE))).intent is None
            place.catalog.close()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 12))
def test_a_successor_finishes_what_one_intent_left(place, number, after):
    world = a_day(place, "w")
    place.world("v")
    with pytest.raises(Died):
        steps_of_a_landing(place, Steps(number, after=after))
    place.authority.now += land_module.LEASE_MS

    place.land("w")

    assert place.keys(*BOTH) == expected("w", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,))
    assert world.landed_tick() == 4


def test_a_live_landing_is_not_disturbed(place):
    a_day(place)
    with pytest.raises(Died):
        steps_of_a_landing(place, Steps(4))

    with pytest.raises(FenceHeld):
        place.land("w")


def test_one_who_was_taken_over_in_the_middle_lands_nothing_twice(place):
    """The slow one opens its intent, loses its fence, and wakes up before its append."""
    worlds = [a_day(place, "w"), a_day(place, "v")]

    class Slow(LocalCatalog):
        rival: Callable[[], None] = staticmethod(lambda: None)

        def commit_table(self, *arguments):
            rival, Slow.rival = Slow.rival, staticmethod(lambda: None)
            rival()
            return super().commit_table(*arguments)

    def take_over() -> None:
        place.authority.now += land_module.LEASE_MS
        place.land("w", "v")

    Slow.rival = staticmethod(take_over)
    catalog = open_local(place.root, Slow)

    with pytest.raises(StaleWriter):
        place.land("w", "v", lake=Lake(catalog, "main"))

    catalog.close()
    assert place.keys(*BOTH) == expected("w", (1, 2, 3)) + expected("v", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,)) + expected("v", (9,))
    assert [world.landed_tick() for world in worlds] == [4, 4]


def test_two_landings_of_one_holder_cannot_both_open_the_same_ticks(place):
    a_day(place)
    landing = Landing(place.authority, place.objects, Lake(place.catalog, "main"), STORAGE)
    tokens = count(1)

    async def story() -> list[object]:
        lands = [
            landing.land(
                [WorldId("w")],
                holder=Holder("same"),
                new_token=lambda: Token(f"batch-{next(tokens)}"),
            )
            for _ in range(2)
        ]
        return await asyncio.gather(*lands, return_exceptions=True)

    outcomes = asyncio.run(story())

    assert any(isinstance(each, Landed) for each in outcomes)
    assert place.keys(*BOTH) == expected("w", (1, 2, 3))


class Loses(LocalCatalog):
    """Answers to commits are lost: some after they were applied, some before."""

    script: list[bool]

    def commit_table(self, *arguments):
        if not self.script:
            return super().commit_table(*arguments)
        if self.script.pop(0):
            super().commit_table(*arguments)
        raise ConnectionError("no answer")


@pytest.mark.parametrize("script", [[True], [False], [False, True], [False, False, False]])
def test_lost_answers_of_the_catalog_lead_to_a_look_never_to_a_second_copy(place, script):
    a_day(place)
    catalog = open_local(place.root, Loses)
    catalog.script = list(script)

    landed = place.land("w", lake=Lake(catalog, "main"))

    catalog.close()
    assert landed.rows == 16
    assert place.keys(*BOTH) == expected("w", (1, 2, 3))
    assert place.keys(*ONLY) == expected("w", (9,))


def test_a_catalog_that_never_takes_it_leaves_the_intent_for_the_next(place):
    world = a_day(place)
    catalog = open_local(place.root, Loses)
    catalog.script = [False] * 100

    with pytest.raises(StoreUnavailable):
        place.land("w", lake=Lake(catalog, "main"))
    catalog.close()
    assert world.landed_tick() == -1

    place.land("w")

    assert place.keys(*BOTH) == expected("w", (1, 2, 3))


def opened_intent(place: Place, world: Published, table: pa.Table) -> Token:
    """Open an intent for the world's last tick as a landing does that dies right after."""
    batch = Token("half done")

    async def story() -> None:
        take = TakeLandingFence(STORAGE, Holder("the dead"), land_module.LEASE_MS)
        grip = await place.authority.execute(take)
        last = world.manifests[-1]
        part = IntentPart(world=world.world, first=last.tick, last=last.tick, seq=last.seq)
        parent = iceberg.head_of(table)
        held = IntentTable(table=signature_of(*ONLY).table, parent=parent, rows=1)
        await place.authority.execute(
            OpenIntent(STORAGE, grip.epoch, land_module.LEASE_MS, batch, (part,), (held,))
        )

    asyncio.run(story())
    place.authority.now += land_module.LEASE_MS
    return batch


@pytest.mark.parametrize("has_landed", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_with_the_chain_of_snapshots_cut_the_rows_themselves_decide(place, has_landed, is_first):
    """An open intent meets a table whose history somebody expired."""
    lake = Lake(place.catalog, "main")
    world = a_day(place, ticks=0 if is_first else 5)
    place.land("w")
    last = world.publish({ONLY: [position(9, 5.0)]})
    batch = opened_intent(place, world, lake.created(signature_of(*ONLY)))
    rows = table_of(ONLY, [position(9, 5.0)], Origin(world.world, world.run, last.tick, last.token))
    rivals = table_of(ONLY, [position(1, 1.0)], Origin("x", "x", Tick(0), Token("x")))
    if has_landed:
        iceberg.append(lake.opened(signature_of(*ONLY)), rows, batch)
    for number in range(2):
        iceberg.append(lake.opened(signature_of(*ONLY)), rivals, f"rival {number}")
    table = lake.opened(signature_of(*ONLY))
    old = [each.snapshot_id for each in table.snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(old).commit()

    place.land("w")

    assert place.keys(*ONLY)["w", last.tick, 9] == 1
    assert world.landed_tick() == last.tick


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
