"""Destroying: one step after another, each of which may be the last one its process makes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due, later

from perdure.kernel.caller import Caller
from perdure.kernel.create import CreateWorld
from perdure.kernel.destroy import (
    BeginClosing,
    CheckClosingRead,
    FinishDestroy,
    LeaveClosing,
    MarkTold,
)
from perdure.kernel.errors import (
    ConsumerBehind,
    Contended,
    FenceHeld,
    Invalid,
    InvalidId,
    NotFound,
    NotQuiescent,
    StaleWriter,
    WorldClosing,
    WorldDestroyed,
    WorldMoved,
    WorldMoving,
)
from perdure.kernel.ids import Epoch, Holder, Instant, RunId, Seq, Tick, WorldId
from perdure.kernel.landing import AUDIT
from perdure.kernel.records import head_key
from perdure.kernel.rest import ReadAgenda, Rest
from perdure.kernel.upkeep import Consumer, Required

pytestmark = pytest.mark.lifecycle

LEASE = 60_000


def begin(holder="eve", **options):
    return BeginClosing(WORLD, Holder(holder), LEASE, **options)


def closing(**world):
    """Return a world that is closing, and the epoch of whoever closes it."""
    w = World(**world)
    return w, w.paper.ask(begin()).epoch


def destroyed(world):
    close = world.paper.ask(begin())
    world.paper.ask(MarkTold(WORLD, close.epoch))
    world.paper.ask(FinishDestroy(WORLD, close.epoch))


def kinds(world):
    return [entry.kind for entry in world.paper.held_under("log/")]


@pytest.mark.parametrize("mode", ["resumable", "cleanup_only"])
@pytest.mark.parametrize("holder", [None, "ann"])
def test_closing_takes_the_fence_whoever_holds_it(mode, holder):
    world = World()
    if holder:
        world.take(holder)
    world.change(lambda head: replace(head, writer_mode=mode))
    before = world.head.fence.epoch

    close = world.paper.ask(begin(by=Caller("ada", "gateway")))

    assert (close.status, close.epoch, close.told) == ("closing", before + 1, False)
    assert (world.head.status, world.head.fence.holder) == ("closing", "eve")
    entry = world.paper.held_under("log/")[-1]
    assert (entry.kind, entry.facts["actor"], entry.facts["epoch"]) == (
        "closing",
        "ada",
        before + 1,
    )


def test_from_the_closing_entry_on_nothing_is_admitted_published_or_taken():
    world = World()
    grip = world.take("ann")
    publish = world.publishing(world.drain(), grip)
    world.paper.ask(begin())
    before = dict(world.paper.stored)

    for request in (world.admission(due()), publish):
        with pytest.raises(WorldClosing):
            world.paper.ask(request)
    with pytest.raises(WorldClosing):
        world.take("bob")

    assert world.paper.stored == before


def test_an_admission_that_loses_to_the_closing_is_refused_and_writes_nothing():
    world = World()

    with pytest.raises(WorldClosing):
        world.paper.ask(world.admission(due()), rival=lambda: world.paper.ask(begin()))

    assert world.pages == []
    assert kinds(world) == ["created", "closing"]


def test_an_admission_that_wins_is_rejected_by_the_end():
    world = World()

    world.paper.ask(begin(), rival=lambda: world.admit(due(), batch="b"))
    destroyed(world)

    status = world.status("b.0")
    assert (status.status, status.code) == ("rejected", "world_destroyed")
    assert kinds(world) == ["created", "admitted", "closing", "destroyed"]


def test_a_publication_beside_the_closing_comes_before_it_or_not_at_all():
    first, second = World(), World()
    early, late = (each.publishing(each.drain(), each.take()) for each in (first, second))

    first.paper.ask(begin(), rival=lambda: first.paper.ask(early))
    with pytest.raises(WorldClosing):
        second.paper.ask(late, rival=lambda: second.paper.ask(begin()))

    assert kinds(first) == ["created", "published", "closing"]
    assert kinds(second) == ["created", "closing"]
    assert second.head.next_tick == 0


def test_the_last_entry_says_what_it_rejects_and_nothing_is_open_or_held_after_it():
    world = World()
    world.admit(due())
    world.cancel_all("all")
    world.admit(due(), due(tick=9))

    destroyed(world)

    last = world.paper.held_under("log/")[-1]
    assert (last.kind, last.seq, last.digest) == (
        "destroyed",
        world.head.seq,
        world.head.log_digest,
    )
    assert last.facts == {"cancelled_below": 2, "next_sequence": 4, "rejected": 2}
    assert world.head.fence == replace(world.head.fence, holder=None, until=0)
    info = world.info()
    assert (info.status, info.pending_commands, info.fence_held_until) == ("destroyed", 0, None)


def test_a_batch_of_a_destroyed_world_is_answered_as_before_and_a_new_one_refused():
    world = World()
    admission = world.admission(due(), batch="b")
    before = world.paper.ask(admission).receipts()
    destroyed(world)

    assert world.paper.ask(admission).receipts() == before
    with pytest.raises(WorldDestroyed):
        world.admit(due())


def test_destroying_what_is_destroyed_changes_nothing():
    world = World()
    destroyed(world)
    before = dict(world.paper.stored)

    again = world.paper.ask(begin("bob"))
    world.paper.ask(MarkTold(WORLD, again.epoch))
    world.paper.ask(FinishDestroy(WORLD, again.epoch))
    world.paper.ask(LeaveClosing(WORLD, again.epoch))

    assert again.is_over
    assert world.paper.stored == before


def test_what_never_existed_is_not_found():
    world = World()
    absent = replace(begin(), ref=replace(WORLD, world=WorldId("absent")))

    with pytest.raises(NotFound):
        world.paper.ask(absent)


@pytest.mark.parametrize(("status", "refusal"), [("moving", WorldMoving), ("moved", WorldMoved)])
def test_a_world_that_moves_is_not_destroyed_here(status, refusal):
    world = World()
    world.change(lambda head: replace(head, status=status))
    before = dict(world.paper.stored)

    with pytest.raises(refusal):
        world.paper.ask(begin())

    assert world.paper.stored == before


def test_only_one_closes_at_a_time_and_the_next_goes_on_when_its_lease_is_over():
    world, first = closing()
    before = dict(world.paper.stored)

    with pytest.raises(FenceHeld):
        world.paper.ask(begin("bob"))
    unchanged = world.paper.stored == before
    later(world, LEASE)
    second = world.paper.ask(begin("bob"))

    assert unchanged
    assert (second.epoch, second.told) == (first + 1, False)
    assert kinds(world) == ["created", "closing"]
    with pytest.raises(StaleWriter):
        world.paper.ask(MarkTold(WORLD, first))
    with pytest.raises(StaleWriter):
        world.paper.ask(FinishDestroy(WORLD, first))


def test_asking_again_with_the_same_name_keeps_the_epoch():
    world, epoch = closing()

    again = world.paper.ask(begin())

    assert again.epoch == epoch


def test_a_closing_that_is_let_go_can_be_gone_on_with_at_once():
    world, epoch = closing()
    world.paper.ask(MarkTold(WORLD, epoch))

    world.paper.ask(LeaveClosing(WORLD, epoch))
    world.paper.ask(LeaveClosing(WORLD, epoch))
    next_one = world.paper.ask(begin("bob"))

    assert (next_one.status, next_one.told) == ("closing", True)


def test_an_end_is_not_written_before_hooks_were_told():
    world, epoch = closing()
    before = dict(world.paper.stored)

    with pytest.raises(NotQuiescent):
        world.paper.ask(FinishDestroy(WORLD, epoch))

    assert world.paper.stored == before


def test_telling_is_written_down_once():
    world, epoch = closing()
    world.paper.ask(MarkTold(WORLD, epoch))
    before = dict(world.paper.stored)

    world.paper.ask(MarkTold(WORLD, epoch))

    assert world.paper.stored == before


@pytest.mark.parametrize(
    ("read", "refusal"),
    [({}, ConsumerBehind), ({"audit": 1}, ConsumerBehind), ({"audit": 2}, None)],
)
def test_a_world_stays_closing_until_its_required_consumers_have_read_the_closing_entry(
    read, refusal
):
    world = World()
    world.change(lambda head: replace(head, required=1))
    partition = WORLD.partition
    world.paper.put(Required(partition=partition, names=("audit",)))
    for name, seq in read.items():
        world.paper.put(Consumer(partition=partition, name=name, seq=Seq(seq)))
    epoch = world.paper.ask(begin()).epoch
    world.paper.ask(MarkTold(WORLD, epoch))
    before = dict(world.paper.stored)

    for request in (CheckClosingRead(WORLD), FinishDestroy(WORLD, epoch)):
        if refusal is None:
            world.paper.ask(request)
            continue
        with pytest.raises(refusal):
            world.paper.ask(request)
        assert world.paper.stored == before

    assert world.head.status == ("destroyed" if refusal is None else "closing")


@pytest.mark.parametrize(
    ("ticks", "landed", "refusal"),
    [(0, None, None), (1, None, ConsumerBehind), (2, 0, ConsumerBehind), (2, 1, None)],
)
def test_a_required_landing_has_read_all_there_is_when_every_tick_has_landed(
    ticks, landed, refusal
):
    world = World()
    partition = WORLD.partition
    for _ in range(ticks):
        world.tick()
    world.change(lambda head: replace(head, required=1))
    world.paper.put(Required(partition=partition, names=("landing",)))
    if landed is not None:
        mark = Consumer(partition=partition, name="landing", seq=Seq(2), tick=Tick(landed))
        world.paper.put(mark)
    epoch = world.paper.ask(begin()).epoch
    world.paper.ask(MarkTold(WORLD, epoch))

    for request in (CheckClosingRead(WORLD), FinishDestroy(WORLD, epoch)):
        if refusal is None:
            world.paper.ask(request)
            continue
        with pytest.raises(refusal):
            world.paper.ask(request)

    assert world.head.status == ("destroyed" if refusal is None else "closing")


def test_consumers_that_a_running_commit_hides_are_looked_for_again():
    world, epoch = closing()
    world.paper.ask(MarkTold(WORLD, epoch))
    world.change(lambda head: replace(head, required=1))

    with pytest.raises(Contended):
        world.paper.ask(FinishDestroy(WORLD, epoch))


def test_the_schedule_of_a_world_that_ends_is_quiet_and_no_hint_is_left():
    world = World()
    other = replace(WORLD, world=WorldId("clockwork"))
    paper = world.paper
    paper.ask(CreateWorld(other, "clockwork", RunId("run"), every_ms=60_000))
    close = paper.ask(replace(begin(), ref=other))
    paper.ask(MarkTold(other, close.epoch))
    paper.ask(FinishDestroy(other, close.epoch))
    seq = paper.held(head_key(other.partition)).seq
    paper.put(Consumer(partition=other.partition, name=AUDIT, seq=seq))
    paper.now = Instant(paper.now + 600_000)

    agenda = paper.ask(ReadAgenda(other))
    for hint in paper.held_under("0"):
        paper.ask(Rest(other, hint.sort))

    assert (agenda.tick_due, agenda.unlanded, agenda.abandoned) == (None, False, False)
    assert [hint for hint in paper.held_under("0") if hint.world == "clockwork"] == []


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (begin(holder=""), InvalidId),
        (begin(holder="x" * 37), InvalidId),
        (replace(begin(), lease_ms=0), Invalid),
        (replace(begin(), lease_ms=900_001), Invalid),
    ],
    ids=range(4),
)
def test_a_malformed_closing_is_refused(request_, refusal):
    with pytest.raises(refusal):
        request_.checked()


def test_marking_and_finishing_need_a_closing_world():
    world = World()
    before = dict(world.paper.stored)

    for request in (MarkTold(WORLD, Epoch(0)), FinishDestroy(WORLD, Epoch(0))):
        with pytest.raises(StaleWriter):
            world.paper.ask(request)

    assert world.paper.stored == before
