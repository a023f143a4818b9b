"""Schedules: which time a tick serves, and what becomes of times that went by."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.paper import Paper
from tests.support.worldly import WORLD, World

from perdure.kernel.create import CreateWorld
from perdure.kernel.errors import Invalid, StaleWriter, WorldClosing
from perdure.kernel.ids import Instant, RunId, StorageId, WorldId
from perdure.kernel.pace import Scheduled
from perdure.kernel.places import WorldRef, is_hint_of, wake_sort
from perdure.kernel.schedule import SKIP_AFTER_MS, SkipMissed, has_more, served, told
from perdure.kernel.upkeep import Schedule, schedule_key

pytestmark = pytest.mark.cloud

LATE = 1_000 + SKIP_AFTER_MS


def waiting(missed="coalesce", every_ms=1_000, skipped=0):
    """Return a schedule that waits for the time 1,000."""
    return Schedule(
        partition=WORLD.partition,
        every_ms=every_ms,
        next_at=Instant(1_000),
        missed=missed,
        skipped=skipped,
    )


@pytest.mark.parametrize(
    ("missed", "now", "verdict"),
    [
        ("coalesce", 900, (2_000, 0, False)),
        ("coalesce", 1_000, (2_000, 0, False)),
        ("coalesce", 1_999, (2_000, 0, False)),
        ("coalesce", 2_000, (3_000, 1, False)),
        ("coalesce", 9_500, (10_000, 8, False)),
        ("catch_up", 1_000, (2_000, 0, False)),
        ("catch_up", 1_999, (2_000, 0, False)),
        ("catch_up", 2_000, (2_000, 0, True)),
        ("catch_up", 9_500, (2_000, 0, True)),
        ("skip", 1_999, (2_000, 0, False)),
        ("skip", 9_500, (10_000, 8, False)),
    ],
)
def test_times_that_passed_fall_into_one_tick_or_get_one_each(missed, now, verdict):
    schedule = waiting(missed)

    following, said = served(schedule, Instant(now)), told(schedule, Instant(now))

    assert (following.next_at, said.missed, has_more(schedule, Instant(now))) == verdict
    assert (said.serves, said.policy, following.skipped) == (1_000, missed, 0)


@pytest.mark.parametrize(
    ("missed", "every_ms", "now", "verdict"),
    [
        ("skip", 1_000, LATE - 1, None),
        ("skip", 1_000, LATE, LATE + 1_000),
        ("skip", 1_000, LATE + 500, LATE + 1_000),
        ("skip", 600_000, 600_999, None),
        ("skip", 600_000, 601_000, 1_201_000),
        ("coalesce", 1_000, LATE, None),
        ("catch_up", 1_000, LATE, None),
    ],
)
def test_what_is_too_late_is_given_up_by_a_world_that_skips(missed, every_ms, now, verdict):
    world = World()
    world.paper.put(waiting(missed, every_ms))
    world.paper.now = Instant(now)

    following = world.paper.ask(SkipMissed(WORLD, Instant(1_000)))

    held = world.paper.held(schedule_key(WORLD.partition))
    assert following == verdict
    assert held.next_at == (1_000 if verdict is None else verdict)
    assert held.skipped == (0 if verdict is None else (verdict - 1_000) // every_ms)


def test_skipping_twice_is_skipping_once_and_the_next_manifest_tells_it():
    world = World()
    world.paper.put(waiting("skip"))
    world.paper.now = Instant(LATE)

    first = world.paper.ask(SkipMissed(WORLD, Instant(1_000)))
    again = world.paper.ask(SkipMissed(WORLD, Instant(1_000)))
    world.paper.now = first
    manifest = world.tick(serves=first).manifest

    times = (first - 1_000) // 1_000
    assert again is None
    assert manifest.scheduled == Scheduled(serves=first, policy="skip", missed=times)
    assert world.paper.held(schedule_key(WORLD.partition)).skipped == 0


def test_times_given_up_add_up_until_a_tick_tells_them():
    world = World()
    world.paper.put(waiting("skip"))
    world.paper.now = Instant(LATE)
    first = world.paper.ask(SkipMissed(WORLD, Instant(1_000)))
    world.paper.now = Instant(first + SKIP_AFTER_MS)
    second = world.paper.ask(SkipMissed(WORLD, first))
    world.paper.now = second

    manifest = world.tick(serves=second).manifest

    assert manifest.scheduled.missed == (second - 1_000) // 1_000


def test_a_world_that_ends_skips_nothing():
    world = World()
    world.paper.put(waiting("skip"))
    world.change(lambda head: replace(head, status="closing"))
    world.paper.now = Instant(LATE)

    with pytest.raises(WorldClosing):
        world.paper.ask(SkipMissed(WORLD, Instant(1_000)))

    assert world.paper.held(schedule_key(WORLD.partition)) == waiting("skip")


def test_a_manifest_says_which_time_its_tick_serves():
    world = World()
    world.paper.put(waiting("catch_up"))
    world.paper.now = Instant(3_500)

    manifests = [world.tick(serves=Instant(at)).manifest for at in (1_000, 2_000, 3_000)]

    assert [each.scheduled.serves for each in manifests] == [1_000, 2_000, 3_000]
    assert [each.scheduled.missed for each in manifests] == [0, 0, 0]
    with pytest.raises(StaleWriter):
        world.tick(serves=Instant(3_000))


@pytest.mark.parametrize(("every_ms", "ahead_ms"), [(30_000, 30_000), (600_000, 60_000)])
def test_the_hint_by_which_a_world_was_found_moves_with_the_publish(every_ms, ahead_ms):
    paper = Paper()
    paper.ask(CreateWorld(WORLD, "harbour", RunId("run"), every_ms=every_ms))
    world = World(paper)
    due = paper.held(schedule_key(WORLD.partition)).next_at
    paper.now = Instant(due + 5)
    (found,) = [each.sort for each in paper.held_under("0")]

    world.tick(serves=due, hint=found)

    assert world.head.wake_at in {due + ahead_ms, due + 5 + ahead_ms}
    assert [each.sort for each in paper.held_under("0")] == [wake_sort(world.head.wake_at, WORLD)]


def test_a_hint_is_known_by_the_world_it_names():
    other = WorldRef(StorageId("storage"), WorldId("other"))

    hint = wake_sort(Instant(600_000), WORLD)

    assert is_hint_of(hint, WORLD)
    assert not any(
        is_hint_of(each, WORLD) for each in (wake_sort(Instant(0), other), "", hint[19:])
    )


def test_a_tick_that_somebody_asked_for_serves_no_schedule():
    world = World()
    world.paper.put(waiting())

    published = world.tick()

    assert (published.manifest.scheduled, published.next_at) == (None, None)
    assert world.paper.held(schedule_key(WORLD.partition)) == waiting()


def test_a_world_keeps_what_it_was_told_to_do_about_missed_ticks():
    paper = Paper()

    info = paper.ask(
        CreateWorld(WORLD, "clock", RunId("run"), every_ms=5_000, missed="skip").checked()
    )

    assert (info.every_ms, info.missed) == (5_000, "skip")
    assert paper.held(schedule_key(WORLD.partition)).missed == "skip"


def test_a_policy_that_does_not_exist_is_refused():
    with pytest.raises(Invalid) as refused:
        CreateWorld(WORLD, "clock", RunId("run"), every_ms=5_000, missed="ignore").checked()

    assert "coalesce, catch_up, skip" in refused.value.expected
