"""Forks to another storage: a world that begins with the rows of one tick."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from tests.runtime.harness import Place, tokens
from tests.support.forking import STORES, rig, run_of

from perdure import Spawn
from perdure.authority.memory import Crashed, Fault, FaultPlan
from perdure.kernel.errors import Conflict, CorruptLineage, NotPublished, NotQuiescent
from perdure.kernel.ids import StorageId, Tick, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.records import world_key
from perdure.runtime.fork import Wish
from perdure.runtime.fork_elsewhere import fork_elsewhere

pytestmark = pytest.mark.lifecycle

ELSEWHERE = StorageId("elsewhere")


@pytest.fixture
def two(tmp_path, request):
    """Open two storages, each on a store of its own."""

    @contextlib.asynccontextmanager
    async def opened(kind="memory", **options):
        for name in ("here", "there"):
            (tmp_path / name).mkdir()
        async with (
            rig(kind, tmp_path / "here", request, **options) as here,
            rig(kind, tmp_path / "there", request, storage=ELSEWHERE, **options) as there,
        ):
            there.new_token = tokens("there-")
            yield here, there

    return opened


def wish(child="child", source="w", **options):
    refs = (WorldRef(StorageId("storage"), WorldId(source)), WorldRef(ELSEWHERE, WorldId(child)))
    return Wish(*refs, f"a {child}", run_of(child), **options)


def forked(here, there, **options):
    return fork_elsewhere(here.ticker().means, there.ticker().means, wish(**options))


@pytest.mark.parametrize("store", STORES)
async def test_a_fork_elsewhere_goes_on_as_its_source_does(two, store):
    async with two(store) as (here, there):
        await here.harbour()
        await here.run("w", 5)

        info = await forked(here, there)
        command = [Spawn(Place(x=9, y=9))]
        receipts = [
            (await h.worlds.submit(w, command)).receipts for h, w in ((here, "w"), (there, "child"))
        ]
        await here.run("w", 8)
        await there.run("child", 8)

        assert (info.parent_world_id, info.published_tick, info.entities) == ("w", 5, 7)
        assert receipts[0][0].entity_id == receipts[1][0].entity_id
        for tick in range(5, 9):
            assert await there.rows("child", tick) == await here.rows("w", tick)


async def test_its_first_rows_land_and_read_the_same(two):
    async with two() as (here, there):
        await here.harbour()
        await here.run("w", 5)
        await forked(here, there)
        await there.run("child", 6)
        before = [await there.rows("child", tick) for tick in (5, 6)]

        landed = await there.land("child")

        assert landed.ticks == 2
        assert [await there.rows("child", tick) for tick in (5, 6)] == before
        assert (await there.land("child")).ticks == 0


async def test_ticks_before_it_are_not_published_there(two):
    async with two() as (here, there):
        await here.harbour()
        await here.run("w", 5)
        await forked(here, there)

        for ticks in (4, range(4, 6)):
            with pytest.raises(NotPublished):
                await there.reader.query(WorldId("child"), ["Place"], ticks=ticks)


async def test_it_can_be_forked_in_its_turn(two):
    async with two() as (here, there):
        await here.harbour()
        await here.run("w", 5)
        await forked(here, there)
        await there.run("child", 6)

        await there.fork("child", "grandchild")
        await there.run("grandchild", 7)
        await here.run("w", 7)

        assert await there.rows("grandchild") == await here.rows("w")
        assert await there.rows("grandchild", 5) == await here.rows("w", 5)
        with pytest.raises(NotPublished):
            await there.rows("grandchild", 4)


async def test_open_commands_are_left_only_when_told(two):
    async with two() as (here, there):
        await here.harbour()

        with pytest.raises(NotQuiescent):
            await forked(here, there)
        nothing = there.everything()
        info = await forked(here, there, pending="drop")
        await there.run("child", 5)

        assert nothing == {}
        assert info.pending_commands == 0
        assert len(await there.rows("child")) == 3
        assert await here.state("late", "w") == "pending"


async def test_a_source_without_ticks_becomes_a_world_without_ticks(two):
    async with two() as (here, there):
        await here.worlds.create("harbour", world_id="w")

        info = await forked(here, there)
        await there.run("child", 0)

        assert info.published_tick is None
        assert (await there.worlds.describe("child")).published_tick == 0


async def test_the_same_id_is_the_same_fork_there(two):
    async with two() as (here, there):
        await here.harbour()
        await here.run("w", 5)
        first = await forked(here, there)
        await here.run("w", 6)
        before = there.everything()

        again = await forked(here, there)
        with pytest.raises(Conflict):
            await forked(here, there, at_tick=Tick(6))

        assert again == first
        assert there.everything() == before


async def test_a_source_of_the_same_id_in_another_storage_is_another_source(two):
    async with two() as (here, there):
        await here.harbour()
        await forked(here, there, pending="drop")
        await there.worlds.create("buoy", world_id="first")
        await there.harbour()
        before = there.everything()

        with pytest.raises(Conflict, match="as a fork of run"):
            await there.worlds.fork("w", "a child", world_id="child")

        assert there.everything() == before


@pytest.mark.parametrize("commit", [1, 2, 3])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
async def test_whoever_dies_on_the_way_leaves_nothing_that_can_be_seen(two, commit, fault):
    async with two() as (here, there):
        await here.harbour()
        await here.run("w", 5)
        worlds = there.store
        there.store.plan = FaultPlan(commits={commit: fault})

        with pytest.raises(Crashed):
            await forked(here, there)
        there.store = worlds.reopened()
        there.authority = there.rival_authority("next-")
        seen = [key.sort for key in there.everything() if not key.sort.startswith("signature/")]
        info = await forked(here, there)
        await there.run("child", 6)
        await here.run("w", 6)

        assert (seen == []) is not (commit == 3 and fault is Fault.CRASH_AFTER)
        assert info.published_tick == 5
        assert await there.rows("child") == await here.rows("w")


async def test_a_copy_in_the_same_storage_needs_no_ancestor(two):
    async with two() as (here, _):
        await here.harbour()
        await here.run("w", 5)
        asked = replace(wish(), child=WorldRef(StorageId("storage"), WorldId("child")))

        await fork_elsewhere(here.ticker().means, here.ticker().means, asked)
        await here.run("child", 6)
        await here.run("w", 6)

        assert here.held(world_key(here.worlds.ref("child"))).lineage == ()
        assert await here.rows("child") == await here.rows("w")


async def test_a_fork_elsewhere_that_lost_its_first_tick_is_corrupt(two):
    async with two() as (here, there):
        await here.harbour()
        await here.run("w", 5)
        await forked(here, there)
        ref = WorldRef(ELSEWHERE, WorldId("child"))
        there.plant(replace(there.held(world_key(ref)), begins=Tick(3)))

        with pytest.raises(CorruptLineage):
            await there.rows("child")
