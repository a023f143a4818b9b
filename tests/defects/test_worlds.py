"""Defects that systems of this kind are known to have: lives of worlds without them."""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.harness import Place, fresh_app, harness
from tests.runtime.keeping import STORAGE, keeping
from tests.support.forking import STORES, rig
from tests.support.lifecycle import LEASE, ending, kinds, opening_on

from perdure import Spawn
from perdure.api.problems import status_of
from perdure.kernel.errors import (
    Conflict,
    FenceHeld,
    NotFound,
    StaleWriter,
    WorldClosing,
    WorldDestroyed,
)
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder, StorageId, Tick, Token, WorldId
from perdure.kernel.publish import Publish
from perdure.kernel.records import manifest_key
from perdure.kernel.view import Reads
from perdure.lake.audit import EventFilter
from perdure.lake.objects import LocalObjects
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.claimed import ClaimedObjects
from perdure.runtime.history import History, HistoryAsked
from perdure.runtime.project import Projection
from perdure.runtime.resume import resume
from perdure.runtime.trim import GRACE_MS, Trimming

pytestmark = pytest.mark.lifecycle


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.cloud)])
def opening(request, tmp_path):
    """What opens a harness on empty data, on each store that people use."""
    address = request.getfixturevalue("aws") if request.param == "dynamodb" else None
    return opening_on(request.param, tmp_path, address)


async def test_a_writer_that_was_fenced_out_of_a_closing_can_not_end_the_world(opening):
    """Where statuses are not fenced, whoever once had the fence destroys a living world."""
    begun, go_on = asyncio.Semaphore(0), [asyncio.Event(), asyncio.Event()]
    told = iter(go_on)
    app = fresh_app()

    @app.hook("OnDestroy")
    async def halts(_):
        begun.release()
        await next(told).wait()

    async with opening(app) as h:
        await h.worlds.create("harbour", world_id="w")
        slow = asyncio.create_task(ending(h, holder="slow"))
        await begun.acquire()
        h.clock.advance(LEASE + 1)
        rival = h.rival_authority("q")
        quick = asyncio.create_task(ending(h, holder="quick", authority=rival))
        await begun.acquire()

        go_on[0].set()
        with pytest.raises(StaleWriter):
            await slow
        between = await h.worlds.describe("w")
        go_on[1].set()
        done = await quick

        assert (between.status, between.epoch) == ("closing", done.info.epoch)
        assert await kinds(h) == ["created", "closing", "destroyed"]


async def test_a_tick_that_was_computed_before_the_end_is_not_published_after_it(opening):
    """Where a publication does not ask for the status, a destroyed world goes on."""
    computed, go_on = asyncio.Event(), asyncio.Event()

    class Holding:
        """Holds back the publication, which the tick has finished preparing."""

        def __init__(self, authority):
            self.inner = authority

        async def execute(self, request):
            if type(request).__name__ == "Publish":
                computed.set()
                await go_on.wait()
            return await self.inner.execute(request)

    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        await h.worlds.submit("w", [Spawn(Place(x=0, y=0))], batch_id="b")
        late = h.ticker("late", authority=Holding(h.rival_authority("l")))
        running = asyncio.create_task(h.run("w", 0, late))
        await computed.wait()
        done = await ending(h)
        go_on.set()

        with pytest.raises((WorldClosing, WorldDestroyed, StaleWriter)):
            await running
        key = manifest_key(h.worlds.ref("w").partition, Tick(0))
        manifest = (await h.authority.view(Reads(peeks=(key,)))).peek(key)
        info = await h.worlds.describe("w")
        status = await h.worlds.command("w", "b.0")

        assert (manifest, info) == (None, done.info)
        assert (info.status, info.published_tick) == ("destroyed", None)
        assert (status.status, status.code) == ("rejected", "world_destroyed")


@pytest.mark.parametrize("store", STORES)
async def test_a_fork_tells_published_and_next_tick_as_its_source_does(store, tmp_path, request):
    """Where one field means either, a fresh fork seems to be one tick behind or ahead."""
    async with rig(store, tmp_path, request) as h:
        await h.worlds.create("harbour", world_id="w")
        early = await h.fork("w", "early")
        await h.run("w", 4)
        late = await h.fork("w", "late")
        listed, _ = await h.worlds.discover()

        told = {each.world_id: (each.published_tick, each.next_tick) for each in listed}
        assert told == {"early": (None, 0), "late": (4, 5), "w": (4, 5)}
        assert [each for each in listed if each.world_id != "w"] == [early, late]


async def test_a_fork_whose_answer_was_lost_is_not_made_twice(opening):
    """Where the id is drawn inside, whoever asks again has two forks."""
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        made = await h.worlds.fork("w", "what if", world_id="child")
        await h.run("w", 2)

        again = await h.worlds.fork("w", "what if", world_id="child")
        listed, _ = await h.worlds.discover()

        assert again == made
        assert [each.world_id for each in listed] == ["child", "w"]


@pytest.mark.parametrize("skipped", [1, 2, 50])
async def test_no_writer_can_skip_a_tick(tmp_path, skipped):
    """Where contiguity is not checked, a writer in error leaves a gap for ever."""
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.run("w", 0)
    ref = h.worlds.ref("w")
    grip = await h.ticker().take(ref)
    before = dict(h.store._records)
    wrong = Publish(
        ref=ref,
        tick=Tick(1 + skipped),
        token=Token("wrong"),
        epoch=grip.epoch,
        holder=grip.holder,
        drained_seq=grip.head.seq,
    )

    with pytest.raises(StaleWriter):
        await h.authority.execute(wrong)

    assert h.store._records == before


async def test_a_fence_is_told_of_and_losing_it_has_a_name(opening):
    """Where a fence is stolen in silence, its loser meets an internal error."""
    async with opening() as h:
        await h.worlds.create("harbour", world_id="w")
        ann, bob, ref = h.ticker("ann"), h.ticker("bob"), h.worlds.ref("w")
        grip = await ann.take(ref)
        held = await h.worlds.describe("w")

        with pytest.raises(FenceHeld) as refused:
            await bob.take(ref)
        h.clock.advance(LEASE + 1)
        taken = await resume(bob, ref)
        with pytest.raises(StaleWriter) as lost:
            await ann.tick(ref, grip)

        assert (held.epoch, held.fence_held_until) == (grip.epoch, h.clock() - 1)
        assert (status_of(refused.value), status_of(lost.value)) == (409, 412)
        assert taken.epoch == grip.epoch + 1


@pytest.mark.parametrize(
    "asks",
    [
        lambda h: ending(h, "nowhere"),
        lambda h: resume(h.ticker(), h.worlds.ref("nowhere")),
        lambda h: h.worlds.fork("nowhere", "child", world_id="child"),
        lambda h: h.worlds.cancel("nowhere", "c"),
        lambda h: h.worlds.cancel_all("nowhere", "r"),
        lambda h: h.worlds.consumers.set("nowhere", "hook"),
        lambda h: h.run("nowhere", 0),
        lambda h: h.worlds.submit("nowhere", [Spawn(Place(x=0, y=0))]),
        lambda h: h.authority.execute(TakeFence(h.worlds.ref("nowhere"), Holder("ann"), LEASE)),
    ],
    ids=["destroy", "resume", "fork", "cancel", "cancel all", "consumer", "run", "admit", "fence"],
)
async def test_what_is_asked_of_a_world_that_never_was_is_refused_and_writes_nothing(
    tmp_path, asks
):
    """Where a status is set on whatever id is given, an error of typing goes unseen."""
    h = harness(tmp_path)

    with pytest.raises(NotFound):
        await asks(h)

    assert h.store._records == {}


async def test_two_machines_with_an_authority_each_do_not_share_one_place_for_data(tmp_path):
    """Where each keeps its authority at home, both fence alone and write into one lake."""
    objects = LocalObjects(tmp_path / "shared")
    places = []
    for name in ("one", "other"):
        machine = harness(tmp_path / name)
        places.append(
            ClaimedObjects(
                objects,
                machine.authority,
                StorageId("storage"),
                machine.rival_authority(name)._new_token,
            )
        )
    await places[0].put("segment/a", b"rows")
    before = await objects.names("")

    with pytest.raises(Conflict):
        await places[1].put("segment/b", b"rows of another")

    await places[0].put("segment/c", b"more rows")
    assert await objects.names("") == sorted([*before, "segment/c"])


async def test_history_of_some_ticks_is_the_events_of_those_ticks_and_no_others(tmp_path):
    """Where a filter is taken and ignored, a question about one hour is answered with a year."""
    async with keeping(tmp_path) as kept:
        h = kept.harness
        await kept.live(ticks=6, many=3)
        projection = Projection(h.authority, kept.lake, STORAGE)
        await projection.project([WorldId("w")], holder=Holder("p"), new_token=h.new_token)
        history = History(h.authority, kept.lake, STORAGE)

        async def told(**wanted):
            page = await history.read("w", HistoryAsked(wanted=EventFilter(**wanted)))
            return [
                (each["seq"], each["index"], each["tick"], each["kind"]) for each in page.events
            ]

        every = await told()
        some = await told(from_tick=2, to_tick=3)
        none = await told(from_tick=77)

        assert some == [each for each in every if each[2] in {2, 3}]
        assert 0 < len(some) < len(every)
        assert none == []


async def test_logs_and_segments_do_not_grow_for_ever_and_nothing_of_them_is_lost(tmp_path):
    """Where they are never let go of, the store of a small world is mostly its past."""
    async with keeping(
        tmp_path, wrap=lambda store, lake: ArchivedStore(store, lambda: lake)
    ) as kept:
        h = kept.harness
        await kept.live(ticks=80)
        log = await h.worlds.log("w", limit=1_000)
        states = [await kept.rows("Place", tick) for tick in (0, 40, 79)]
        await kept.land()
        projection = Projection(h.authority, kept.lake, STORAGE)
        await projection.project([WorldId("w")], holder=Holder("p"), new_token=h.new_token)
        h.clock.advance(GRACE_MS + 1)
        segments = len(await kept.objects.names("segment/"))

        trimming = Trimming(h.authority, h.objects, STORAGE, h.clock, block_entries=20)
        trimmed, _ = await trimming.trim([WorldId("w")], grace_ms=GRACE_MS)
        left = len(await kept.objects.names("segment/"))

        assert (left + trimmed.segments, trimmed.archived) == (segments, 80)
        assert left < segments // 2
        assert await h.worlds.log("w", limit=1_000) == log
        assert [await kept.rows("Place", tick) for tick in (0, 40, 79)] == states
        assert (await kept.verify()).findings == ()
