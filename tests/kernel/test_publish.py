"""Publishing: the one commit that shows a tick, and what may stand against it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.paper import Paper
from tests.support.worldly import WORLD, World, due, later, opened

from perdure.kernel import limits
from perdure.kernel.create import CreateWorld
from perdure.kernel.errors import Contended, DrainStale, SchemaMismatch, StaleWriter, WorldClosing
from perdure.kernel.fence import ReleaseFence
from perdure.kernel.ids import Instant, RunId, TableId, Tick
from perdure.kernel.places import MINUTE_MS
from perdure.kernel.publish import RegisterSignature
from perdure.kernel.records import Signature, manifest_key
from perdure.kernel.schedule import served
from perdure.kernel.upkeep import Schedule, schedule_key


def test_a_published_tick_settles_what_it_drained():
    world = World()
    world.admit(due(0), due(0), due(1))

    published = world.tick(entities=4)

    manifest, head = published.manifest, published.head
    assert (manifest.tick, manifest.settled, manifest.outcomes) == (0, ((1, 2),), ())
    assert (head.published, head.open_commands, head.next_tick) == (0, 1, 1)
    assert opened(world) == {(1, 0): [(2, None, 0)]}
    assert world.paper.held(manifest_key(WORLD.partition, Tick(0))) == manifest
    assert world.head == head


def test_ticks_begin_at_nought_and_each_is_chained_to_the_one_before():
    world = World()

    manifests = [world.tick().manifest for _ in range(3)]

    assert [each.tick for each in manifests] == [0, 1, 2]
    assert [each.previous for each in manifests] == ["", *(m.digest for m in manifests[:2])]
    assert world.head.manifest_digest == manifests[2].digest


def test_publishing_again_under_the_same_token_answers_the_same():
    world = World()
    world.admit(due(0))
    request = world.publishing(world.drain(), world.take(), token="mine")
    first = world.paper.ask(request)
    world.ticks(2)
    world.change(lambda head: replace(head, status="destroyed"))
    before = dict(world.paper.stored)

    again = world.paper.ask(request)

    assert again.manifest == first.manifest
    assert world.paper.stored == before


def other_token(world, request):
    world.paper.ask(replace(request, token="rival"))


def taken_over(world, request):
    later(world, 10**9)
    world.take("bob")


def tick_of_another(world, request):
    world.paper.ask(ReleaseFence(WORLD, request.epoch))
    world.tick()


def below(world, request):
    world.cancel_all("r")


def one_cancelled(world, request):
    world.cancel("b.1")


def page_cancelled(world, request):
    for command in ("b.0", "b.1", "b.2"):
        world.cancel(command)


def closing(world, request):
    world.change(lambda head: replace(head, status="closing"))


def half_seen(world, request):
    world.change(lambda head: replace(head, published=request.tick))


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        (other_token, StaleWriter),
        (taken_over, StaleWriter),
        (tick_of_another, StaleWriter),
        (below, DrainStale),
        (one_cancelled, DrainStale),
        (page_cancelled, DrainStale),
        (closing, WorldClosing),
        (half_seen, Contended),
    ],
)
@pytest.mark.parametrize("when", ["before", "between"])
def test_what_stands_against_a_publish(before, verdict, when):
    world = World()
    world.admit(*[due(0)] * 3, batch="b")
    request = world.publishing(world.drain(), world.take())

    if when == "before":
        before(world, request)
    with pytest.raises(verdict):
        world.paper.ask(request, rival=lambda: when == "between" and before(world, request))

    assert world.pages == [] if before in {other_token, tick_of_another, page_cancelled} else True
    assert world.head.open_commands in {0, 2, 3}


def test_a_retried_command_that_was_cancelled_makes_the_drain_stale():
    world = World()
    world.admit(due(0), due(0), batch="b")
    request = world.publishing(world.drain(), world.take(), fail={1: 1})
    world.cancel("b.0")

    with pytest.raises(DrainStale):
        world.paper.ask(request)


def test_what_was_left_may_be_cancelled_meanwhile():
    world = World()
    world.admit(due(0), due(0), due(0), batch="b")
    request = world.publishing(world.drain(), world.take(), leave=[2, 3])
    world.cancel("b.1")

    world.paper.ask(request)

    assert opened(world) == {(0, 0): [(2, ((3, 3),), 0)]}
    assert world.head.open_commands == 1


def test_an_admission_in_between_stays_open_and_changes_nothing_else():
    world = World()
    world.admit(due(0))
    request = world.publishing(world.drain(), world.take())

    published = world.paper.ask(request, rival=lambda: world.admit(due(0), due(0, 1)))

    assert published.manifest.settled == ((1, 1),)
    assert opened(world) == {(0, 0): [(3, None, 0)], (0, 1): [(3, None, 0)]}
    assert published.head.open_commands == 2
    world.tick()
    assert world.pages == []
    assert world.head.open_commands == 0


def test_what_stands_below_the_line_leaves_its_page_and_is_listed():
    world = World()
    world.admit(due(0), due(3), batch="b")
    world.cancel_all("r")
    world.admit(due(0))

    manifests = [world.tick().manifest for _ in range(4)]

    assert [each.cancelled for each in manifests] == [((1, 1),), (), (), ((2, 2),)]
    assert [each.settled for each in manifests] == [((3, 3),), (), (), ()]
    assert world.pages == []
    assert world.head.open_commands == 0


def test_pages_that_hold_only_what_was_cancelled_never_block_a_drain(monkeypatch):
    monkeypatch.setattr(limits, "DRAIN_PAGES_MAX", 2)
    world = World()
    world.admit(*[due(0, priority) for priority in range(6)])
    world.cancel_all("r")
    world.admit(due(0, 9))

    settled = [world.tick().manifest.settled for _ in range(4)]

    assert settled == [(), (), (), ((7, 7),)]


def test_the_fence_is_let_go_or_held_on():
    world = World()

    released = world.tick().head.fence
    held = world.tick(lease_ms=5_000).head.fence

    assert (released.epoch, released.holder) == (1, None)
    assert (held.epoch, held.holder) == (2, "ann")
    assert held.until == world.paper.now + 60_000
    later(world, 58_000)
    kept = world.paper.ask(world.publishing(world.drain(), world.take(), lease_ms=5_000)).head.fence
    assert kept.until == world.paper.now + 60_000


def test_a_checkpoint_is_remembered():
    world = World()

    world.tick()
    world.tick(checkpoint=())
    world.tick()

    assert world.head.checkpoint == 1


def scheduled(every_ms=90_000):
    paper = Paper()
    paper.ask(CreateWorld(WORLD, "harbour", RunId("run"), every_ms=every_ms))
    return World(paper)


def test_a_tick_serves_one_time_of_its_schedule():
    world = scheduled()
    serves = world.paper.held(schedule_key(WORLD.partition)).next_at
    later(world, 90_000)

    world.tick(serves=serves)

    assert world.paper.held(schedule_key(WORLD.partition)).next_at == serves + 90_000
    with pytest.raises(StaleWriter):
        world.tick(serves=serves)


def test_a_world_without_a_schedule_serves_none():
    with pytest.raises(StaleWriter):
        World().tick(serves=Instant(1))


@pytest.mark.parametrize(
    ("now", "verdict"),
    [(900, 2_000), (1_000, 2_000), (1_999, 2_000), (2_000, 3_000), (9_500, 10_000)],
)
def test_ticks_that_were_missed_fall_into_one(now, verdict):
    schedule = Schedule(partition=WORLD.partition, every_ms=1_000, next_at=Instant(1_000))

    assert served(schedule, Instant(now)).next_at == verdict


def test_a_publish_wakes_its_readers_within_a_minute():
    world = World()

    world.tick()

    assert world.head.wake_at == world.paper.now + 60_000
    hints = [key.sort for key in world.paper.stored if key.partition == WORLD.wake]
    assert [int(sort.split("/")[0]) for sort in hints] == [world.head.wake_at // MINUTE_MS]


def signature(*columns):
    return Signature(
        partition=WORLD.catalog,
        table=TableId("a_1c_x"),
        components=("Position",),
        columns=columns,
        fingerprint="f",
    )


def test_a_table_is_written_down_once_and_never_as_another():
    paper = Paper()
    held = signature(("position__x", "float64", False))

    paper.ask(RegisterSignature(held))
    paper.ask(RegisterSignature(held))

    with pytest.raises(SchemaMismatch):
        paper.ask(RegisterSignature(signature(("position__x", "int64", False))))
    assert paper.held(held.key) == held


@pytest.mark.parametrize("ahead", [1, 2, 1_000])
def test_a_tick_that_leaves_one_out_is_refused_and_writes_nothing(ahead):
    world = World()
    world.ticks(2)
    request = world.publishing(world.drain(), world.take())
    skipping = replace(request, tick=request.tick + ahead)
    before = dict(world.paper.stored)

    with pytest.raises(StaleWriter, match="tick 2 next"):
        world.paper.ask(skipping)

    assert world.paper.stored == before
    assert world.paper.ask(request).manifest.tick == 2
