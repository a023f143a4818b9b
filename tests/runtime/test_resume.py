"""Resuming: a world goes on anywhere, or is refused with its fence as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.harness import Fuel, Place, fresh_app, no_pause, tokens

from perdure import App, Component, Despawn, Spawn
from perdure.kernel.errors import FenceHeld, NotFound, StaleWriter
from perdure.kernel.ids import NO_TICK, Holder, RunId, WorldId
from perdure.kernel.records import Ancestor, Fence, head_key, world_key
from perdure.kernel.view import Decision, Reads
from perdure.runtime.resume import resume
from perdure.runtime.run import run_ticks
from perdure.runtime.tick import Means, Ticker

pytestmark = pytest.mark.lifecycle

LEASE = 60_000


class Drifted:
    """Where a class named Place with other fields lives."""

    class Place(Component):
        x: float
        y: float
        z: float = 0.0


class Changed:
    """Make records of a world others, as another version or a fault would."""

    once = False

    def __init__(self, ref, world=None, head=None):
        self.ref, self.world, self.head = ref, world or {}, head or {}

    @property
    def stream(self):
        return self.ref.partition

    def reads(self):
        return Reads(keys=(world_key(self.ref), head_key(self.stream)))

    def decide(self, view, now):
        identity, head = view.get(world_key(self.ref)), view.get(head_key(self.stream))
        return Decision(None, (replace(identity, **self.world), replace(head, **self.head)))


async def records(h, ref):
    reads = Reads(keys=(world_key(ref), head_key(ref.partition)))
    return (await h.authority.view(reads)).stored


async def test_a_process_that_shares_nothing_goes_on_where_the_last_one_stopped(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2)), Spawn(Fuel(litres=3))])
        await h.run("w", to_tick=2)
        bob = h.ticker("bob", authority=h.rival_authority("r"))

        info = await resume(bob, h.worlds.ref("w"))
        ran = await h.run("w", to_tick=3, ticker=bob)

    assert (info.epoch, info.published_tick, info.fence_held_until) == (2, 2, None)
    assert (ran.published_tick, ran.entities) == (3, 2)


async def test_the_writer_before_is_stale_and_may_write_again_afterwards(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        ref, ann = h.worlds.ref("w"), h.ticker("ann")
        grip = await ann.take(ref)
        h.clock.advance(LEASE)

        await resume(h.ticker("bob", authority=h.rival_authority("r")), ref)
        with pytest.raises(StaleWriter):
            await ann.tick(ref, grip)
        await h.run("w", to_tick=0, ticker=h.ticker("bob"))
        ran = await h.run("w", to_tick=1, ticker=ann)

    assert (ran.published_tick, ran.ticks) == (1, 1)


async def test_a_live_writer_keeps_its_fence(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        ref, ann = h.worlds.ref("w"), h.ticker("ann")
        grip = await ann.take(ref)
        before = await records(h, ref)

        with pytest.raises(FenceHeld):
            await resume(h.ticker("bob", authority=h.rival_authority("r")), ref)

        assert await records(h, ref) == before
        report, _ = await ann.tick(ref, grip)
        assert report.tick == 0


async def test_what_never_existed_is_not_found(opening):
    async with opening() as h:
        with pytest.raises(NotFound):
            await resume(h.ticker(), h.worlds.ref("absent"))


LOST = Ancestor(world=WorldId("lost"), run=RunId("lost"), up_to=NO_TICK)

REFUSALS = [
    ("world_destroyed", {}, {"status": "destroyed"}),
    ("world_closing", {}, {"status": "closing"}),
    ("world_moving", {}, {"status": "moving"}),
    ("world_moved", {}, {"status": "moved"}),
    ("not_resumable", {"writer_mode": "cleanup_only"}, {"writer_mode": "cleanup_only"}),
    ("unknown_writer_mode", {"writer_mode": "shared"}, {"writer_mode": "shared"}),
    ("unknown_writer_mode", {"writer_mode": "shared"}, {}),
    ("missing_run", {"run": RunId("")}, {}),
    ("missing_run", {"run": RunId("01890000-0000-4000-8000-000000000000")}, {}),
    ("missing_run", {"run": RunId("yesterday")}, {}),
    ("wrong_app", {"app": "another"}, {}),
    ("corrupt_lineage", {"parent": WorldId("lost"), "lineage": (LOST,)}, {}),
]


@pytest.mark.parametrize(("code", "world", "head"), REFUSALS, ids=range(len(REFUSALS)))
async def test_what_cannot_go_on_is_refused_before_its_fence_is_touched(opening, code, world, head):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2))])
        await h.run("w", to_tick=0)
        ref = h.worlds.ref("w")
        held = Fence(epoch=h.clock() % 7 + 1, holder=Holder("gone"))
        await h.authority.execute(Changed(ref, world, {"fence": held, **head}))
        before = await records(h, ref)

        codes = []
        for act in (resume(h.ticker("bob"), ref), h.run("w", 9, h.ticker("bob"))):
            with pytest.raises(Exception) as refused:  # the code is looked at
                await act
            codes.append(refused.value.code)

        assert codes == [code, code]
        assert await records(h, ref) == before


def app_of(*components):
    app = App("test")
    for component in components:
        app.component(component)
    return app


@pytest.mark.parametrize(
    ("app", "code"),
    [
        (app_of(Fuel), "unknown_component"),
        (app_of(Fuel, Drifted.Place), "drifted_component"),
        (app_of(Fuel, Drifted.Place, Place), None),
        (app_of(Place), None),
    ],
    ids=["unknown", "drifted", "both known", "only of the dead"],
)
async def test_living_entities_need_a_class_of_their_very_schema(opening, app, code):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2)), Spawn(Fuel(litres=3))])
        await h.worlds.submit("w", [Despawn(entity_id=2)], batch_id="b")
        await h.run("w", to_tick=1)
        ref = h.worlds.ref("w")
        before = await records(h, ref)
        bob = h.ticker("bob", app=app)

        if code is None:
            assert (await h.run("w", to_tick=2, ticker=bob)).published_tick == 2
            return
        with pytest.raises(Exception) as refused:  # the code is looked at
            await resume(bob, ref)

        assert refused.value.code == code
        assert await records(h, ref) == before


class Counting:
    """Counts what is asked of an authority, by kind."""

    def __init__(self, authority):
        self.authority, self.asked = authority, []

    async def execute(self, request):
        self.asked.append(type(request).__name__)
        return await self.authority.execute(request)


async def test_a_cold_tick_looks_the_world_up_once(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2))])
        await h.run("w", to_tick=0)
        counting = Counting(h.rival_authority("r"))
        means = Means(counting, h.objects, fresh_app(), h.clock, tokens("cold-"), no_pause)
        cold, ref = Ticker(means, Holder("cold")), h.worlds.ref("w")

        for tick in (1, 2):
            await run_ticks(cold, ref, to_tick=tick, deadline=h.clock() + 600_000)

    assert counting.asked.count("FindWorld") == 1
    assert counting.asked.count("FindManifests") == 1
