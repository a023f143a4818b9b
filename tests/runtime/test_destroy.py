"""A world's end on every store: whoever dies in the middle of it, the next one ends it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.runtime.harness import Place, fresh_app
from tests.support.lifecycle import LEASE, Overwrite, ended, ending, kinds
from tests.support.steps import Died, SteppedStore, Steps

from perdure import Spawn
from perdure.authority.engine import Authority
from perdure.kernel.errors import (
    ConsumerBehind,
    FenceHeld,
    NotFound,
    StaleWriter,
    WorldClosing,
    WorldDestroyed,
    WrongApp,
)
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder, Seq
from perdure.kernel.landing import AUDIT
from perdure.kernel.records import head_key
from perdure.kernel.upkeep import Consumer, Required
from perdure.kernel.view import Decision, Reads
from perdure.runtime.run import run_ticks

pytestmark = pytest.mark.lifecycle


def told_app():
    """Return an application, and the list of worlds that its hook was told of."""
    app, told = fresh_app(), []
    app.hook("OnDestroy")(lambda ending: told.append(ending.world_id))
    return app, told


async def test_a_destroyed_world_is_history_that_nobody_adds_to(opening):
    app, told = told_app()
    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2))], batch_id="a")
        await h.run("w", to_tick=0)
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2))], batch_id="b")

        done = await ending(h)
        again = await ending(h)

        open_one = await h.worlds.command("w", "b.0")
        applied = await h.worlds.command("w", "a.0")
        replayed = await h.worlds.submit("w", [Spawn(Place(x=1, y=2))], batch_id="b")
        with pytest.raises(WorldDestroyed):
            await h.worlds.submit("w", [Spawn(Place(x=1, y=2))])
        with pytest.raises(WorldDestroyed):
            await h.run("w", to_tick=5, ticker=h.ticker("bob"))
        listed, _ = await h.worlds.discover()
        entries = await kinds(h)

    assert (done.info.status, done.info.published_tick, told) == ("destroyed", 0, ["w"])
    assert again.info == done.info
    assert (open_one.status, open_one.code) == ("rejected", "world_destroyed")
    assert (applied.status, replayed.replayed) == ("applied", True)
    assert [info.status for info in listed] == ["destroyed"]
    assert entries == ["created", "admitted", "published", "admitted", "closing", "destroyed"]


async def test_the_name_and_the_id_of_a_destroyed_world_stay_taken(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await ending(h)

        refused = []
        for name, world in (("harbour", "v"), ("harbour", "w"), ("other", "w")):
            with pytest.raises(Exception) as error:  # the code is looked at
                await h.worlds.create(name, world_id=world)
            refused.append(error.value.code)

    assert refused == ["name_taken", "world_destroyed", "world_destroyed"]


async def test_what_never_existed_is_not_found(opening):
    async with opening() as h:
        with pytest.raises(NotFound):
            await ending(h, "absent")


DEATHS = [
    (commit, after, 2 if (commit, after) == (2, False) else 1)
    for commit in (1, 2, 3)
    for after in (False, True)
]


@pytest.mark.parametrize(("commit", "after", "times"), DEATHS)
async def test_whoever_dies_at_any_commit_is_followed_by_one_who_ends_it(
    opening, commit, after, times
):
    app, told = told_app()
    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=1, y=2))], batch_id="b")
        dying = Authority(SteppedStore(h.store, Steps(commit, after=after)), h.clock, h.new_token)

        with pytest.raises(Died):
            await ending(h, authority=dying)
        h.clock.advance(LEASE)
        done = await ending(h, holder="next", authority=h.rival_authority("next"))
        status = await h.worlds.command("w", "b.0")
        entries = await kinds(h)

    assert (done.info.status, status.code) == ("destroyed", "world_destroyed")
    assert entries == ["created", "admitted", "closing", "destroyed"]
    assert told == ["w"] * times


async def test_two_who_destroy_at_once_tell_the_hooks_once(opening):
    app, told = told_app()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(_):
        begun.set()
        await go_on.wait()

    app.hook("OnDestroy")(slowly)
    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        first = asyncio.create_task(ending(h))
        await begun.wait()

        with pytest.raises(FenceHeld):
            await ending(h, holder="rob", authority=h.rival_authority("r"))
        go_on.set()
        done = await first
        again = await ending(h, holder="sue", authority=h.rival_authority("s"))

    assert (done.info.status, again.info.status, told) == ("destroyed", "destroyed", ["w"])


async def test_one_who_is_cancelled_while_telling_leaves_it_to_the_next_at_once(opening):
    app, told = told_app()
    begun = asyncio.Event()

    async def never_ends(_):
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()

    app.hook("OnDestroy")(never_ends)
    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        first = asyncio.create_task(ending(h))
        await begun.wait()

        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        between = await h.worlds.describe("w")
        done = await ending(h)

    assert (between.status, between.fence_held_until) == ("closing", None)
    assert (done.info.status, told) == ("destroyed", ["w", "w"])


async def test_a_hook_that_fails_is_reported_and_changes_nothing(opening):
    app, told = told_app()

    @app.hook("OnDestroy")
    def fails(_):
        raise RuntimeError("no")

    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        done = await ending(h)

    assert (done.info.status, told) == ("destroyed", ["w"])
    assert [(each.code, each.detail) for each in done.hook_failures] == [("runtime_error", "no")]


async def test_a_live_writer_does_not_hinder_it_and_cannot_publish_any_more(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        ann, ref = h.ticker("ann"), h.worlds.ref("w")
        grip = await ann.take(ref)

        done = await ending(h)
        with pytest.raises((WorldDestroyed, StaleWriter)):
            await ann.tick(ref, grip)
        await ann.release(ref, grip)
        entries = await kinds(h)

    assert (done.info.epoch, done.info.published_tick) == (grip.epoch + 1, None)
    assert entries == ["created", "closing", "destroyed"]


async def test_a_publication_that_is_under_way_when_the_world_closes_is_refused(opening):
    begun, go_on = asyncio.Event(), asyncio.Event()
    app = fresh_app()

    @app.hook("PreTick")
    async def halts(_):
        begun.set()
        await go_on.wait()

    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        run = asyncio.create_task(h.run("w", to_tick=0))
        await begun.wait()
        await ending(h, authority=h.rival_authority("r"))
        go_on.set()
        with pytest.raises((WorldClosing, WorldDestroyed)):
            await run
        info = await h.worlds.describe("w")

    assert (info.status, info.published_tick) == ("destroyed", None)


async def test_it_waits_for_required_consumers_and_the_same_call_goes_on(opening):
    app, told = told_app()
    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        ref = h.worlds.ref("w")
        await h.authority.execute(_Requires(ref, Seq(1)))

        with pytest.raises(ConsumerBehind):
            await ending(h)
        between, told_before = await h.worlds.describe("w"), list(told)
        with pytest.raises(WorldClosing):
            await h.worlds.submit("w", [Spawn(Place(x=1, y=2))])
        await h.authority.execute(_Requires(ref, Seq(2)))
        done = await ending(h)

    assert (between.status, told_before) == ("closing", [])
    assert (done.info.status, told) == ("destroyed", ["w"])


async def test_a_world_of_another_application_is_not_touched(opening):
    async with opening() as h:
        h.worlds._app = "harbour"
        await h.worlds.create("harbour", world_id="w")
        before = await h.worlds.describe("w")

        with pytest.raises(WrongApp):
            await ending(h)

        assert await h.worlds.describe("w") == before


async def test_admissions_beside_the_end_are_rejected_by_it_or_refused(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")

        async def admits(number):
            try:
                await h.worlds.submit("w", [Spawn(Place(x=1, y=2))], batch_id=f"b{number}")
            except (WorldClosing, WorldDestroyed):
                return None
            return f"b{number}.0"

        rival = h.ticker("eve", authority=h.rival_authority("r"))
        sent = asyncio.gather(*(admits(number) for number in range(12)))
        await ended(rival, h.worlds.ref("w"))
        admitted = [each for each in await sent if each is not None]
        states = [(await h.worlds.command("w", each)).code for each in admitted]
        entries = await h.worlds.log("w", limit=1_000)

    assert states == ["world_destroyed"] * len(admitted)
    assert [entry.kind for entry in entries[-2:]] == ["closing", "destroyed"]
    assert entries[-1].facts["rejected"] == len(admitted)


async def test_a_scheduled_world_that_is_destroyed_never_ticks_again(opening):
    async with opening() as h:
        await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
        await ending(h)

        ref = h.worlds.ref("w")
        seq = (await h.worlds.log("w"))[-1].seq
        await h.authority.execute(Overwrite(Consumer(partition=ref.partition, name=AUDIT, seq=seq)))
        h.clock.advance(600_000)
        due = await h.due(h.ticker("bob"))

        assert (due.ticked, due.failed, due.retired) == ((), (), ())
        assert await h.hints() == []


async def test_a_run_of_a_closed_world_leaves_nothing_behind(opening):
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await ending(h)
        ref = h.worlds.ref("w")
        before = await h.authority.view(Reads(keys=(head_key(ref.partition),)))

        with pytest.raises(WorldDestroyed):
            await run_ticks(h.ticker("bob"), ref, ticks=3, request="r", deadline=h.clock() + 10**6)
        with pytest.raises(WorldDestroyed):
            await h.authority.execute(TakeFence(ref, Holder("bob"), LEASE))

        after = await h.authority.view(Reads(keys=(head_key(ref.partition),)))
        assert after.stored == before.stored


class _Requires:
    """Make "audit" a required consumer that has read so far: what another part of the system does."""

    once = False

    def __init__(self, ref, seq):
        self.ref, self.seq = ref, seq

    @property
    def stream(self):
        return self.ref.partition

    def reads(self):
        return Reads(keys=(head_key(self.stream),))

    def decide(self, view, now):
        head = replace(view.get(head_key(self.stream)), required=1)
        names = Required(partition=self.stream, names=("audit",))
        mark = Consumer(partition=self.stream, name="audit", seq=self.seq)
        for record in (names, mark):
            view.get(record.key)
        return Decision(None, (head, names, mark))
