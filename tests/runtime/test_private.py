"""Private worlds: there as long as the block that works in them, and evidence ever after."""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.harness import Place, fresh_app
from tests.support.lifecycle import (
    LEASE,
    Beats,
    GatedStore,
    ending,
    kinds,
    no_pause,
    private,
)
from tests.support.steps import Died, SteppedStore, Steps

import perdure
from perdure import App, Component, Spawn
from perdure.authority.engine import Authority, Patience
from perdure.kernel.errors import (
    NameTaken,
    NotPermitted,
    NotResumable,
    OutcomeUnknown,
    StoreUnavailable,
    WorldDestroyed,
)
from perdure.kernel.ids import Holder
from perdure.runtime.resume import resume

pytestmark = pytest.mark.lifecycle


class Sight(Component):
    x: float


def seen_app() -> App:
    app = App("evidence")
    app.component(Sight)
    return app


async def test_a_workflow_leaves_evidence_that_everybody_reads_and_nobody_changes(tmp_path):
    async with perdure.open(tmp_path.as_uri(), app=seen_app()) as storage:
        async with storage.private_world("evidence", world_id="p") as world:
            await world.submit([Spawn(Sight(x=4))])
            await world.run(to_tick=2)
            inside = await world.info()
            listed = {show: await storage.discover(show=show) for show in ("public", "live", "all")}
            outside = await storage.world("p")
            with pytest.raises(NotPermitted):
                await outside.submit([Spawn(Sight(x=5))])
            with pytest.raises(NotPermitted):
                await outside.set_consumer("hook", required=True)
            await world.set_consumer("hook", required=True)
            await world.remove_consumer("hook")
            with pytest.raises(NotPermitted):
                await outside.cancel_all("all")
            with pytest.raises(NotResumable):
                await outside.run(ticks=1)
        after = await storage.discover()

    async with perdure.open(tmp_path.as_uri(), app=seen_app()) as storage:
        world = await storage.world("p")
        rows = await world.query(Sight, ticks=2)
        with pytest.raises(WorldDestroyed):
            await storage.resume("p")
        landed = await storage.land()

    assert (inside.status, inside.writer_mode) == ("active", "cleanup_only")
    assert [len(listed[show]) for show in ("public", "live", "all")] == [0, 0, 1]
    assert [info.status for info in after] == ["destroyed"]
    assert rows["sight__x"].to_pylist() == [4.0]
    assert landed.rows == 1


async def test_nobody_but_its_holder_writes_it_on_any_store(opening):
    async with opening() as h, private(h) as grip:
        ref = h.worlds.ref("p")
        await h.worlds.submit("p", [Spawn(Place(x=1, y=2))], holder=grip.holder)
        await h.run("p", to_tick=1, ticker=grip.ticker)
        h.clock.advance(10 * LEASE)
        before = await h.worlds.describe("p")

        for holder in (None, Holder("bob")):
            with pytest.raises(NotPermitted):
                await h.worlds.submit("p", [Spawn(Place(x=1, y=2))], holder=holder)
        for act in (resume(h.ticker("bob"), ref), h.run("p", 5, h.ticker("bob"))):
            with pytest.raises(NotResumable):
                await act

        assert await h.worlds.describe("p") == before
        assert (before.published_tick, before.epoch) == (1, 1)


async def test_nobody_but_its_holder_cancels_in_it_or_makes_it_wait_on_any_store(opening):
    async with opening() as h, private(h) as grip:
        worlds, bob = h.worlds, Holder("bob")
        await worlds.submit("p", [Spawn(Place(x=1, y=2))] * 2, batch_id="b", holder=grip.holder)
        before = await worlds.describe("p")

        for act in (
            worlds.cancel("p", "b.0"),
            worlds.cancel_all("p", "r", holder=bob),
            worlds.consumers.set("p", "hook", required=True),
            worlds.consumers.set("p", "hook", holder=bob),
            worlds.consumers.remove("p", "hook"),
        ):
            with pytest.raises(NotPermitted):
                await act
        untouched = await worlds.describe("p")

        await worlds.cancel("p", "b.0", holder=grip.holder)
        await worlds.consumers.set("p", "hook", required=True, holder=grip.holder)
        await worlds.consumers.remove("p", "hook", holder=grip.holder)
        await worlds.cancel_all("p", "r", holder=grip.holder)

        assert untouched == before
        assert (await worlds.describe("p")).pending_commands == 0


async def test_what_the_block_raises_comes_out_and_the_world_is_retired(opening):
    async with opening() as h:
        with pytest.raises(LookupError, match="the workflow"):
            async with private(h):
                raise LookupError("the workflow")

        assert (await h.worlds.describe("p")).status == "destroyed"


async def test_a_cancelled_block_is_retired_and_stays_cancelled(opening):
    async with opening() as h:
        inside = asyncio.Event()

        async def works():
            async with private(h):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(works())
        await inside.wait()
        task.cancel()
        await asyncio.wait({task})

        assert task.cancelled()
        assert (await h.worlds.describe("p")).status == "destroyed"


async def test_cancelling_its_end_again_and_again_does_not_stop_it(opening):
    begun, go_on = asyncio.Event(), asyncio.Event()
    app = fresh_app()

    @app.hook("OnDestroy")
    async def halts(_):
        begun.set()
        await go_on.wait()

    async def works(h):
        async with private(h):
            pass

    async with opening(app) as h:
        task = asyncio.create_task(works(h))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait({task})

        assert task.cancelled()
        assert (await h.worlds.describe("p")).status == "destroyed"


async def test_cancelled_while_it_is_created_it_is_retired_whether_or_not_it_came_to_be(opening):
    async with opening() as h:
        store = GatedStore(h.store)
        authority = Authority(store, h.clock, h.new_token)

        async def works():
            async with private(h, authority=authority):
                raise AssertionError("nobody comes here")

        task = asyncio.create_task(works())
        await store.waiting.wait()
        task.cancel()
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.wait({task})

        assert task.cancelled()
        assert (await h.worlds.describe("p")).status == "destroyed"


class UnansweredStore:
    """Loses the first commit, or its answer; and the next ones too, if told to."""

    def __init__(self, store, *, arrives, times=1):
        self.inner, self.arrives, self.times, self.commits = store, arrives, times, 0

    async def load(self, reads):
        return await self.inner.load(reads)

    async def commit(self, commit):
        self.commits += 1
        if self.commits > self.times or self.arrives:
            await self.inner.commit(commit)
        if self.commits <= self.times:
            raise OutcomeUnknown(expected="an answer", found="none")

    async def close(self):
        """Leave the store open: it belongs to the others."""


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_creation_without_an_answer_is_retired_and_a_late_one_refused(opening, arrives):
    async with opening() as h:
        store = UnansweredStore(h.store, arrives=arrives)
        authority = Authority(store, h.clock, h.new_token, patience=Patience(1, 0))

        with pytest.raises(OutcomeUnknown):
            async with private(h, authority=authority, beats=no_pause):
                raise AssertionError("nobody comes here")
        info, entries = await h.worlds.describe("p"), await kinds(h, "p")
        with pytest.raises(WorldDestroyed):
            async with private(h):
                raise AssertionError("nobody comes here")

    assert info.status == "destroyed"
    assert entries == (["created", "destroyed"] if arrives else ["destroyed"])


async def test_a_name_that_is_taken_is_refused_and_the_other_world_left_alone(opening):
    async with opening() as h:
        await h.worlds.create("evidence", world_id="other")

        with pytest.raises(NameTaken):
            async with private(h):
                raise AssertionError("nobody comes here")

        assert [info.status for info in (await h.worlds.discover(show="all"))[0]] == ["active"]


async def test_several_failures_come_out_together(opening):
    async with opening() as h:
        store = UnansweredStore(h.store, arrives=False, times=0)
        authority = Authority(store, h.clock, h.new_token, patience=Patience(1, 0))

        async def works():
            async with private(h, authority=authority, beats=Unhurried()):
                store.commits, store.times = 0, 1_000
                raise LookupError("the workflow")

        with pytest.raises(ExceptionGroup) as raised:
            await works()

        kinds_raised = {type(each) for each in raised.value.exceptions}
        info = await h.worlds.describe("p")

    assert kinds_raised == {LookupError, OutcomeUnknown}
    assert info.status == "active"


class Unhurried:
    """Lets every pause end at once but that of the heartbeat."""

    async def __call__(self, seconds):
        if seconds > LEASE / 10_000:
            await asyncio.Event().wait()


async def test_its_lease_is_renewed_while_the_block_works(opening):
    async with opening() as h:
        beats = Beats()
        async with private(h, beats=beats):
            first = (await h.worlds.describe("p")).fence_held_until
            h.clock.advance(LEASE - 1)
            beats.beat()
            for _ in range(1_000):
                until = (await h.worlds.describe("p")).fence_held_until
                if until != first:
                    break
            swept = await h.due(h.ticker("sweeper"))

    assert until == first + LEASE - 1
    assert beats.asked[0] == LEASE / 4 / 1_000
    assert swept.retired == ()


@pytest.mark.parametrize("ticks", [0, 2])
async def test_a_world_whose_process_died_is_retired_by_the_schedule_and_stays_readable(
    opening, ticks
):
    async with opening() as h:
        block = private(h)
        grip = await block.__aenter__()
        await h.worlds.submit("p", [Spawn(Place(x=1, y=2))], batch_id="b", holder=grip.holder)
        if ticks:
            await h.run("p", to_tick=ticks - 1, ticker=grip.ticker)

        early = await h.due(h.ticker("sweeper"))
        h.clock.advance(2 * LEASE)
        late = await h.due(h.ticker("sweeper", authority=h.rival_authority("s")))
        again = await h.due(h.ticker("sweeper"))
        info, status = await h.worlds.describe("p"), await h.worlds.command("p", "b.0")
        await block.__aexit__(None, None, None)
        entries = await kinds(h, "p")

    assert (early.retired, again.retired) == ((), ())
    assert [ref.world for ref in late.retired] == ["p"]
    assert info.status == "destroyed"
    assert status.status == ("applied" if ticks else "rejected")
    assert entries[-2:] == ["closing", "destroyed"]
    assert entries.count("destroyed") == 1


@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_a_sweeper_that_dies_is_followed_by_another(opening, commit):
    async with opening() as h:
        block = private(h)
        await block.__aenter__()
        h.clock.advance(2 * LEASE)
        dying = Authority(SteppedStore(h.store, Steps(commit, after=True)), h.clock, h.new_token)

        with pytest.raises(Died):
            await h.due(h.ticker("first", authority=dying))
        h.clock.advance(2 * LEASE)
        await h.due(h.ticker("second", authority=h.rival_authority("s")))

        assert (await h.worlds.describe("p")).status == "destroyed"
        await block.__aexit__(None, None, None)


async def test_one_whom_somebody_else_destroyed_ends_quietly(opening):
    async with opening() as h:
        async with private(h) as grip:
            await ending(h, "p")
            with pytest.raises(WorldDestroyed):
                await h.worlds.submit("p", [Spawn(Place(x=1, y=2))], holder=grip.holder)

        assert (await kinds(h, "p")).count("destroyed") == 1


async def test_it_is_not_known_whether_it_was_created_when_the_store_is_away(opening):
    async with opening() as h:
        authority = Authority(_Away(), h.clock, h.new_token, patience=Patience(1, 0))

        with pytest.raises(ExceptionGroup) as raised:
            async with private(h, authority=authority, beats=no_pause):
                raise AssertionError("nobody comes here")

    assert {type(each) for each in raised.value.exceptions} == {StoreUnavailable}


class _Away:
    """A store that does not answer."""

    async def load(self, reads):
        raise StoreUnavailable(expected="an answer", found="none")

    commit = load

    async def close(self):
        """There is nothing to close."""
