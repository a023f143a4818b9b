"""Lineages: ancestors that end stay readable, and those that do not fit together are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.forking import rig, run_of

from perdure.kernel.errors import (
    CorruptLineage,
    NotPublished,
)
from perdure.kernel.ids import RunId, Tick, WorldId
from perdure.kernel.log import log_key
from perdure.kernel.records import Ancestor, head_key, world_key

pytestmark = pytest.mark.lifecycle


@pytest.fixture
def memory(tmp_path, request):
    """Open a rig on a store in memory."""
    return lambda **options: rig("memory", tmp_path, request, **options)


async def test_a_destroyed_ancestor_stays_readable_through_its_forks(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")
        expected = [await h.rows("w", tick) for tick in range(3)]
        head = h.held(head_key(h.worlds.ref("w").partition))
        h.plant(replace(head, status="destroyed"))

        await h.run("child", 5)
        again = await h.fork("w", "child")
        await h.fork("child", "grandchild")

        assert [await h.rows("child", tick) for tick in range(3)] == expected
        assert [await h.rows("grandchild", tick) for tick in range(3)] == expected
        assert len(await h.rows("grandchild")) == 6
        assert await h.state("ships.0", "grandchild") == "applied"
        assert await h.state("late", "child") == "applied"
        assert again.published_tick == 5


def cut(world):
    return replace(world, lineage=())


def circle(world):
    (first,) = world.lineage
    return replace(world, lineage=(replace(first, world=world.world),), parent=world.world)


def stranger(world):
    (first,) = world.lineage
    return replace(world, lineage=(replace(first, world=WorldId("v")),), parent=WorldId("v"))


def beyond(world):
    (first,) = world.lineage
    return replace(world, lineage=(replace(first, up_to=Tick(2_000)),))


def other_parent(world):
    return replace(world, parent=WorldId("v"))


def other_run(world):
    (first,) = world.lineage
    return replace(world, lineage=(replace(first, run=RunId("another")),))


def descending(world):
    (first,) = world.lineage
    elder = Ancestor(world=WorldId("v"), run=RunId("v"), up_to=Tick(3))
    return replace(world, lineage=(elder, first))


def more_ancestors(world):
    (first,) = world.lineage
    elder = Ancestor(world=WorldId("u"), run=run_of("u"), up_to=Tick(-1))
    return replace(world, lineage=(elder, first))


@pytest.mark.parametrize(
    "corrupted",
    [cut, circle, stranger, beyond, other_parent, other_run, descending, more_ancestors],
    ids=lambda each: each.__name__,
)
async def test_a_corrupt_lineage_is_refused_by_all_who_need_it_before_any_fence(memory, corrupted):
    async with memory() as h:
        await h.harbour()
        await h.worlds.create("elder", world_id="u")
        await h.fork("w", "child")
        await h.run("w", 3)
        h.plant(corrupted(h.held(world_key(h.worlds.ref("child")))))
        before = h.everything()

        for attempt in (
            lambda: h.run("child", 5),
            lambda: h.rows("child"),
            lambda: h.rows("child", 1),
            lambda: h.fork("child", "grandchild"),
        ):
            with pytest.raises(CorruptLineage):
                await attempt()

        assert h.everything() == before


async def test_an_ancestor_with_less_than_its_fork_says_is_corrupt(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")
        head = h.held(head_key(h.worlds.ref("w").partition))
        h.plant(replace(head, published=Tick(1)))

        with pytest.raises(CorruptLineage):
            await h.run("child", 5)


async def test_a_fork_that_lost_its_first_entry_tells_nothing_wrong_of_its_commands(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")
        del h.store._records[log_key(h.worlds.ref("child").partition, 1)]

        with pytest.raises(CorruptLineage):
            await h.worlds.command("child", "late")


async def test_reading_a_range_before_all_that_is_known_of_a_world_is_not_published(memory):
    async with memory() as h:
        await h.harbour()
        world = h.held(world_key(h.worlds.ref("w")))
        h.plant(replace(world, begins=Tick(2)))

        with pytest.raises(NotPublished):
            await h.rows("w", 1)

        assert len(await h.rows("w", 2)) == 3
