"""Settlement: what becomes of each command that a tick drained."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.support.worldly import World, due, opened

from perdure.kernel import limits, ranges
from perdure.kernel.ids import Seq
from perdure.kernel.publish import checked_outcomes
from perdure.kernel.records import Outcome


def test_a_command_that_failed_for_now_gets_a_page_of_a_later_tick():
    world = World()
    world.admit(*[due(0)] * 3, batch="b")

    manifest = world.tick(fail={2: 1}).manifest

    (outcome,) = manifest.outcomes
    assert (outcome.sequence, outcome.status, outcome.attempts) == (2, "retryable", 1)
    assert (outcome.again.tick, outcome.again.first) == (1, 2)
    assert manifest.settled == ((1, 1), (3, 3))
    assert opened(world) == {(1, 0): [(2, ((2, 2),), 1)]}
    assert world.head.open_commands == 1


def test_a_retried_command_never_joins_a_page_that_is_there():
    world = World()
    world.admit(due(0), due(1))

    world.tick(fail={1: 1})

    assert [page.name.first for page in world.pages if page.name.tick == 1] == [1, 2]


def test_it_waits_one_two_four_ticks_and_no_more_than_the_limit():
    world = World()
    world.admit(due(0, max_attempts=10))
    failed_at = []

    while world.head.open_commands:
        if world.drain().commands:
            failed_at.append(world.head.next_tick)
        world.tick(fail={1: 1})

    waits = [after - before for before, after in pairwise(failed_at)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert world.status("batch-1.0").status == "dead_letter"
    assert world.status("batch-1.0").attempts == 10


def test_commands_of_one_batch_that_failed_together_are_settled_together():
    world = World()
    world.admit(*[due(0)] * 5)
    world.tick(fail={2: 1, 4: 1})

    published = world.tick()

    assert published.manifest.settled == ((2, 2), (4, 4))
    assert world.pages == []


def test_commands_that_failed_with_other_costs_meet_in_one_page_and_stay_apart():
    world = World()
    world.admit(*[due(0, max_attempts=100)] * 4)
    world.tick(fail={1: 7, 2: 8, 3: 9, 4: 8})

    (page,) = world.pages
    world.ticks(63)
    published = world.tick(fail={2: 1, 1: 2})

    assert [(entry.open, entry.attempts) for entry in page.entries] == [
        (((1, 1),), 7),
        (((2, 2), (4, 4)), 8),
        (((3, 3),), 9),
    ]
    assert published.manifest.settled == ((3, 4),)
    assert opened(world) == {(128, 0): [(2, ((1, 2),), 9)]}


@pytest.mark.parametrize(
    ("attempts", "cost", "verdict"),
    [(None, 1, "retryable"), (None, 3, "dead_letter"), (1, 1, "dead_letter"), (5, 4, "retryable")],
)
def test_attempts_used_up_are_a_dead_letter(attempts, cost, verdict):
    world = World()
    world.admit(due(0, max_attempts=attempts))

    manifest = world.tick(fail={1: cost}).manifest

    (outcome,) = manifest.outcomes
    assert (outcome.status, outcome.attempts) == (verdict, cost)
    assert (manifest.settled == ((1, 1),)) is (verdict == "dead_letter")
    assert world.head.open_commands == (verdict == "retryable")


def test_a_rejected_command_is_done_with():
    world = World()
    world.admit(*[due(0)] * 3)

    manifest = world.tick(reject=[2]).manifest

    assert [(each.sequence, each.status, each.code) for each in manifest.outcomes] == [
        (2, "rejected", "lookup_error")
    ]
    assert manifest.settled == ((1, 3),)
    assert world.head.open_commands == 0


def test_a_publish_never_writes_more_records_than_a_commit_holds():
    world = World()
    world.admit(*[due(0, priority) for priority in range(60)])

    first = world.tick(fail=dict.fromkeys(range(1, 61), 1))

    assert len(first.manifest.outcomes) == limits.DRAIN_RECORDS_MAX - 60
    assert sorted(opened(world)) == sorted(
        [(1, priority) for priority in range(30)] + [(0, priority) for priority in range(30, 60)]
    )
    assert world.head.open_commands == 60
    second = world.tick(fail=dict.fromkeys(range(31, 61), 1))
    assert [each.sequence for each in second.manifest.outcomes] == list(range(31, 61))
    assert ranges.size(second.manifest.settled) == 30


@pytest.mark.parametrize(
    ("count", "length", "verdict"),
    [(1, 1_000, 300), (6_000, 1_000, 300), (7_000, 1_000, 0), (3, 10, 10)],
)
def test_details_are_cut_before_codes(count, length, verdict):
    outcomes = [
        Outcome(sequence=n, status="rejected", code="boom", detail="x" * length)
        for n in range(count)
    ]

    held = checked_outcomes(outcomes)

    assert {len(each.detail) for each in held} == {verdict}
    assert {each.code for each in held} == {"boom"}


def test_fragmented_drains_are_settled_in_little_more_than_their_size():
    world = World()
    for _ in range(20):
        world.admit(*[due(0, n % 2) for n in range(200)])

    manifest = world.tick(reject=range(1, 4_001, 3)).manifest

    assert manifest.settled == ((1, 4_000),)
    assert manifest.seq == Seq(22)
