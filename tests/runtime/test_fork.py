"""Forks: the same world from here on, whoever writes to its source meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from pydantic import field_validator
from tests.runtime.harness import Fuel, Place
from tests.support.forking import STORES, drifting_app, rig

from perdure import Component, Spawn, Update
from perdure.kernel.errors import NotCancellable, NotFound
from perdure.kernel.ids import IN_TICK_ENTITY_FIRST
from perdure.kernel.records import head_key
from perdure.kernel.rest import ReadAgenda
from perdure.kernel.upkeep import Required, consumer_key, required_key

pytestmark = pytest.mark.lifecycle


class Flaky(Component):
    """A component that cannot be made for now, when told so."""

    fails: ClassVar[bool] = False

    x: float

    @field_validator("x")
    @classmethod
    def checked(cls, x: float) -> float:
        if cls.fails:
            raise RuntimeError("not now")
        return x


@pytest.fixture
def memory(tmp_path, request):
    """Open a rig on a store in memory."""
    return lambda **options: rig("memory", tmp_path, request, **options)


@pytest.mark.parametrize("store", STORES)
async def test_a_forks_next_tick_is_its_sources_next_tick(store, tmp_path, request):
    async with rig(store, tmp_path, request) as h:
        await h.harbour()

        info = await h.fork("w", "child")
        await h.run("w", 6)
        await h.run("child", 6)

        assert (info.parent_world_id, info.published_tick, info.next_tick) == ("w", 2, 3)
        assert (info.entities, info.pending_commands, info.kind) == (3, 4, "port")
        for tick in range(7):
            assert await h.rows("child", tick) == await h.rows("w", tick)
        assert len(await h.rows("child", 6)) == 6
        assert await h.state("late", "child") == "applied"


async def test_a_fork_before_the_first_tick_takes_over_what_is_open(memory):
    async with memory() as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=1), command_id="ship")])

        info = await h.fork("w", "child")
        before = await h.state("ship", "child")
        await h.run("child", 0)

        assert (info.published_tick, before) == (None, "pending")
        assert await h.state("ship", "child") == "applied"
        assert await h.rows("child") == [(1, 2.0)]
        assert await h.state("ship", "w") == "pending"


@pytest.mark.parametrize("landed", [(), ("w",), ("w", "child")])
@pytest.mark.parametrize("store", STORES)
async def test_each_tick_is_read_from_whoever_published_it(store, tmp_path, request, landed):
    async with rig(store, tmp_path, request) as h:
        await h.harbour(ticks=2)
        await h.fork("w", "child")
        await h.run("child", 3)
        await h.run("w", 2)
        ship = Update(Place(x=-50, y=0), entity_id=1)
        await h.worlds.submit("w", [ship])
        await h.run("w", 3)
        if landed:
            await h.land(*landed)

        source = [await h.rows("w", tick) for tick in range(4)]
        child = [await h.rows("child", tick) for tick in range(4)]

        assert child[:3] == source[:3]
        assert source[3][0] == (1, -49.0)
        assert child[3][0] == (1, 4.0)


async def test_a_fork_lands_only_what_it_published_itself(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")
        fresh = await h.authority.execute(ReadAgenda(h.worlds.ref("child")))
        nothing = await h.land("child")

        await h.run("child", 4)
        landed = await h.land("child")

        assert not fresh.unlanded
        assert (nothing.ticks, landed.ticks) == (0, 2)


async def test_forks_of_forks_read_and_go_on_across_every_border(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "a")
        await h.run("a", 3)
        await h.fork("a", "b")
        await h.fork("b", "c")  # a fresh fork of a fresh fork: its parent's part is empty
        await h.run("c", 5)
        await h.run("w", 5)

        info = await h.worlds.describe("c")
        ticks = [await h.rows("c", tick) for tick in range(6)]

        assert ticks == [await h.rows("w", tick) for tick in range(6)]
        assert (info.parent_world_id, info.published_tick, info.entities) == ("b", 5, 7)
        assert await h.state("late", "c") == "applied"
        assert await h.state("late", "b") == "pending"


async def test_an_inherited_checkpoint_is_where_a_cold_writer_starts(memory):
    async with memory() as h:
        await h.harbour()
        await h.run("w", 70)
        inherited = h.held(head_key(h.worlds.ref("w").partition)).checkpoint
        await h.fork("w", "a")
        assert h.held(head_key(h.worlds.ref("a").partition)).checkpoint == inherited > 0
        await h.run("a", 72)
        await h.fork("a", "b")
        await h.run("b", 140)  # writes a checkpoint of its own on the way

        await h.run("b", 141, h.ticker("cold"))
        await h.run("w", 141)

        head = h.held(head_key(h.worlds.ref("b").partition))
        assert head.checkpoint > 72
        assert await h.rows("b") == await h.rows("w")
        assert await h.rows("b", 71) == await h.rows("w", 71)


async def test_an_inherited_command_is_told_by_the_fork_and_by_its_source_up_to_the_fork(memory):
    async with memory() as h:
        await h.harbour()
        await h.worlds.submit("w", [Update(Place(x=0, y=0), entity_id=99, command_id="vain")])
        await h.worlds.submit("w", [Spawn(Fuel(litres=1), tick=9, command_id="gone")])
        await h.worlds.submit("w", [Spawn(Fuel(litres=1), tick=9, command_id="kept")])
        await h.run("w", 3)
        await h.worlds.cancel("w", "gone")
        await h.fork("w", "child")
        await h.worlds.cancel("w", "kept")
        await h.worlds.submit("w", [Spawn(Fuel(litres=1), command_id="new")])
        await h.run("w", 9)

        told = {each: await h.state(each, "child") for each in ("ships.0", "vain", "late", "kept")}
        gone = await h.worlds.command("child", "gone")
        with pytest.raises(NotFound):
            await h.worlds.command("child", "new")
        await h.run("child", 9)

        assert told == {
            "ships.0": "applied",
            "vain": "rejected",
            "late": "pending",
            "kept": "pending",
        }
        assert (gone.status, gone.code) == ("rejected", "cancelled")
        assert await h.state("kept", "child") == "applied"
        assert await h.state("kept", "w") == "rejected"


async def test_cancelling_what_was_taken_over_leaves_the_source_alone(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")

        await h.worlds.cancel("child", "late")
        with pytest.raises(NotCancellable):
            await h.worlds.cancel("child", "ships.0")
        await h.run("child", 5)
        await h.run("w", 5)

        assert await h.state("late", "child") == "rejected"
        assert await h.state("late", "w") == "applied"
        assert len(await h.rows("child")) == len(await h.rows("w")) - 1


async def test_cancelling_all_in_a_fork_leaves_the_source_alone(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")

        await h.worlds.cancel_all("child", "stop")
        await h.run("child", 5)

        info = await h.worlds.describe("child")
        assert (info.pending_commands, info.entities) == (0, 3)
        assert await h.state("late", "child") == "rejected"
        assert await h.state("late", "w") == "pending"


async def test_what_was_cancelled_in_the_source_is_not_copied(memory):
    async with memory() as h:
        await h.harbour()
        await h.worlds.cancel_all("w", "stop")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=1), tick=3, command_id="after")])

        info = await h.fork("w", "child")
        await h.run("child", 3)
        await h.run("w", 3)

        assert info.pending_commands == 1
        assert await h.rows("child") == await h.rows("w")
        assert await h.state("late", "child") == "rejected"


async def test_a_fork_may_take_over_nothing(memory):
    async with memory() as h:
        await h.harbour()

        info = await h.fork("w", "child", pending="drop")
        await h.run("child", 5)

        assert info.pending_commands == 0
        assert (await h.worlds.command("child", "late")).code == "cancelled"
        assert await h.state("ships.0", "child") == "applied"
        assert len(await h.rows("child")) == 3


async def test_a_command_that_waits_for_another_try_keeps_its_attempts_in_the_fork(memory):
    app = drifting_app()
    app.component(Flaky)
    async with memory(app=app) as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Flaky(x=1), command_id="flaky"), Spawn(Place(x=0, y=0))])
        Flaky.fails = True
        try:
            await h.run("w", 0)
            await h.fork("w", "child")  # tried at tick 0 of three times
            await h.run("child", 3)
        finally:
            Flaky.fails = False
        await h.run("w", 3)

        child = await h.worlds.command("child", "flaky")
        source = await h.worlds.command("w", "flaky")

        assert (child.status, child.attempts) == ("dead_letter", 3)
        assert (source.status, source.applied_tick) == ("applied", 1)


async def test_commands_admitted_after_the_fork_are_each_worlds_own(memory):
    async with memory() as h:
        await h.harbour()
        await h.fork("w", "child")
        for world, x in (("w", 7), ("child", 8)):
            await h.worlds.submit(world, [Spawn(Place(x=x, y=0), command_id="own")], batch_id="own")

        await h.run("w", 3)
        await h.run("child", 3)
        listed, _ = await h.worlds.commands("child")

        assert set(await h.rows("w")) ^ set(await h.rows("child")) == {(8, 8.0), (8, 9.0)}
        assert [command.command_id for command in listed] == ["own"]


async def test_the_choice_of_required_consumers_goes_on_in_a_fork(memory):
    async with memory() as h:
        await h.harbour()
        head = h.held(head_key(h.worlds.ref("w").partition))
        h.plant(replace(head, required=1, configured=4))
        h.plant(Required(partition=head.partition, names=("billing",)))

        await h.fork("w", "child")

        child = h.worlds.ref("child").partition
        forked = h.held(head_key(child))
        assert (forked.required, forked.configured) == (1, 4)
        assert h.held(required_key(child)).names == ("billing",)


async def test_a_required_consumer_of_the_source_can_read_the_fork_at_once(memory):
    async with memory() as h:
        await h.harbour()
        await h.worlds.consumers.set("w", "billing", required=True)
        await h.worlds.consumers.set("w", "landing", required=True)
        await h.worlds.consumers.set("w", "idle", required=False)
        await h.fork("w", "child")
        told = {info.name: info.seq for info in (await h.worlds.describe("child")).consumers}

        await h.worlds.consumers.acknowledge("child", "billing", 1)

        assert told == {"billing": 0, "landing": 0}
        child = h.worlds.ref("child").partition
        assert h.held(consumer_key(child, "billing")).seq == 1
        assert h.held(consumer_key(child, "landing")) is None


async def test_entities_made_inside_a_tick_are_numbered_on(memory):
    app = drifting_app()

    @app.processor(Fuel)
    def divide(rows, tick):
        tick.spawn(Place(x=0, y=0))
        return rows

    async with memory(app=app) as h:
        await h.harbour()
        await h.worlds.submit("w", [Spawn(Fuel(litres=1))])
        await h.run("w", 3)
        await h.fork("w", "child")
        await h.run("child", 5)
        await h.run("w", 5)

        made = [entity for entity, _ in await h.rows("child") if entity >= IN_TICK_ENTITY_FIRST]
        assert made == [IN_TICK_ENTITY_FIRST + n for n in range(3)]
        assert await h.rows("child") == await h.rows("w")
