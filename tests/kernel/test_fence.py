"""The fence: who may take it, what that says of the writers before, and who killed them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due, later

from perdure.kernel import limits
from perdure.kernel.errors import (
    FenceHeld,
    PerdureError,
    StaleWriter,
    Stalled,
    WorldClosing,
    WorldDestroyed,
    WorldMoved,
)
from perdure.kernel.fence import NameProbe, ReleaseFence, TakeFence
from perdure.kernel.ids import Holder
from perdure.kernel.records import Probe

LEASE = 60_000


def released(world, grip):
    world.paper.ask(ReleaseFence(WORLD, grip.epoch))


def died(world, holder):
    """Take the fence and let its lease run out."""
    grip = world.take(holder)
    later(world, LEASE + 60_000 * 2**11)
    return grip


@pytest.mark.parametrize(
    ("passed", "holder", "verdict"),
    [
        (0, "ann", (1, 0, "kept")),
        (29_000, "ann", (1, 0, "kept")),
        (31_000, "ann", (1, 31_000, "renewed")),
        (59_999, "ann", (1, 59_999, "renewed")),
        (200_000, "ann", (1, 200_000, "renewed")),
        (0, "bob", FenceHeld),
        (59_999, "bob", FenceHeld),
        (60_000, "bob", (2, 60_000, "taken")),
    ],
)
def test_a_fence_is_kept_renewed_or_taken_when_it_has_run_out(passed, holder, verdict):
    world = World()
    world.take("ann")
    before = world.head
    start = world.paper.now
    later(world, passed)

    if verdict is FenceHeld:
        with pytest.raises(FenceHeld):
            world.take(holder)
        assert world.head == before
        return
    grip = world.take(holder)

    epoch, since, how = verdict
    assert (grip.epoch, grip.until) == (epoch, start + since + LEASE)
    assert (world.head == before) is (how == "kept")
    assert world.head.fence.until == grip.until


def test_a_released_fence_is_taken_at_once_and_counts_no_death():
    world = World()
    released(world, world.take("ann"))

    grip = world.take("bob")

    assert grip.epoch == 2
    assert world.head.drain.starts == 0


def test_the_same_holder_that_let_go_gets_a_new_epoch():
    world = World()
    released(world, world.take("ann"))

    assert world.take("ann").epoch == 2


def test_letting_go_twice_or_too_late_does_nothing():
    world = World()
    first = world.take("ann")
    released(world, first)
    released(world, first)
    world.take("bob")

    released(world, first)

    assert world.head.fence.holder == "bob"


def test_a_lease_of_a_wrong_clock_counts_as_run_out():
    world = World()
    world.take("ann")
    far = world.paper.now + limits.LEASE_MS_MAX

    world.change(lambda head: replace(head, fence=replace(head.fence, until=far)))
    with pytest.raises(FenceHeld):
        world.take("bob")
    world.change(lambda head: replace(head, fence=replace(head.fence, until=far + 1)))

    assert world.take("bob").epoch == 2


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("closing", WorldClosing), ("destroyed", WorldDestroyed), ("moved", WorldMoved)],
)
def test_only_an_active_worlds_fence_is_taken(status, verdict):
    world = World()
    world.change(lambda head: replace(head, status=status))

    with pytest.raises(verdict):
        world.take()


@pytest.mark.parametrize(
    ("holder", "lease_ms", "verdict"),
    [
        ("x" * 36, 900_000, "ok"),
        ("x" * 37, 1, "invalid_id"),
        ("", 1, "invalid_id"),
        ("a/b", 1, "invalid_id"),
        ("\ud800", 1, "invalid_id"),
        ("x", 0, "invalid"),
        ("x", 900_001, "invalid"),
    ],
)
def test_holder_and_lease_are_checked(holder, lease_ms, verdict):
    try:
        TakeFence(WORLD, Holder(holder), lease_ms).checked()
        found = "ok"
    except PerdureError as error:
        found = error.code

    assert found == verdict


def test_taking_over_counts_the_deaths_of_one_tick_once_per_holder():
    world = World()
    died(world, "ann")
    died(world, "ann")
    died(world, "bob")

    grip = world.take("cid")

    assert grip.head.drain.starts == 2
    assert not grip.careful


def test_publishing_forgets_the_deaths():
    world = World()
    died(world, "ann")
    died(world, "bob")
    grip = world.take("ann")
    assert grip.head.drain.starts == 2

    world.paper.ask(world.publishing(world.drain(), grip))

    assert world.head.drain.starts == 0


def test_deaths_of_another_tick_do_not_count():
    world = World()
    died(world, "ann")
    world.take("bob")
    world.change(lambda head: replace(head, published=5))
    later(world, 10**9)

    grip = world.take("cid")

    assert (grip.head.drain.tick, grip.head.drain.starts) == (6, 1)


def killed(world, *probes):
    """Let one writer after another die; each names what it was about to do, or nothing."""
    for number, probe in enumerate(probes):
        grip = died(world, f"w{number}")
        if probe is not None:
            world.paper.ask(NameProbe(WORLD, grip.epoch, probe))
    return world.take("last")


def apply(first, last):
    return Probe(stage="apply", first=first, last=last)


COMPUTE = Probe(stage="compute")


@pytest.mark.parametrize(
    ("probes", "verdict"),
    [
        ([None] * 2, (False, ())),
        ([None] * 3, (True, ())),
        ([None] * 3 + [apply(1, 100)], (True, ())),
        ([None] * 3 + [apply(1, 100), apply(7, 7)], (True, ((7, 5),))),
        ([None] * 3 + [COMPUTE], (True, ())),
        ([None] * 3 + [apply(7, 7), COMPUTE], (True, ((7, 4),))),
        ([None] * 3 + [apply(7, 7), None], (True, ((7, 4),))),
        ([None] * 3 + [apply(7, 7), apply(9, 9)], (True, ((7, 4), (9, 5)))),
        ([None] * 3 + [apply(7, 7), apply(9, 9), apply(7, 7)], (True, ((9, 5), (7, 6)))),
    ],
    ids=range(9),
)
def test_from_the_third_death_on_the_last_thing_named_is_the_culprit(probes, verdict):
    world = World()

    grip = killed(world, *probes)

    assert (grip.careful, grip.head.drain.culprits) == verdict
    assert grip.head.drain.starts == len(probes)


def test_a_suspected_group_is_remembered_for_the_next_writer():
    world = World()

    grip = killed(world, None, None, None, apply(1, 100), None)

    assert grip.head.drain.probe == apply(1, 100)


def test_what_a_writer_named_and_survived_is_not_blamed_on_the_next_death():
    world = World()
    grip = killed(world, None, None, None)
    world.paper.ask(NameProbe(WORLD, grip.epoch, apply(7, 7)))
    released(world, grip)
    died(world, "unlucky")

    grip = world.take("next")

    assert grip.head.drain.culprits == ()


def test_few_culprits_are_remembered_so_that_the_head_stays_small():
    world = World()

    grip = killed(world, *[apply(n, n) for n in range(20)])

    assert [sequence for sequence, _ in grip.head.drain.culprits] == [16, 17, 18, 19]


def test_naming_the_same_thing_again_writes_nothing():
    world = World()
    grip = world.take()
    world.paper.ask(NameProbe(WORLD, grip.epoch, COMPUTE))
    before = dict(world.paper.stored)

    world.paper.ask(NameProbe(WORLD, grip.epoch, COMPUTE))

    assert world.paper.stored == before


def test_a_writer_that_lost_its_fence_names_nothing():
    world = World()
    grip = died(world, "ann")
    world.take("bob")

    with pytest.raises(StaleWriter):
        world.paper.ask(NameProbe(WORLD, grip.epoch, COMPUTE))


@pytest.mark.parametrize(
    ("deaths", "waited", "verdict"),
    [
        (5, 0, "taken"),
        (6, 0, "taken"),
        (7, 59_999, Stalled),
        (7, 60_000, "taken"),
        (8, 119_999, Stalled),
        (8, 120_000, "taken"),
        (40, 60_000 * 2**10 - 1, Stalled),
        (40, 60_000 * 2**10, "taken"),
    ],
)
def test_a_stalled_world_is_tried_again_ever_more_rarely(deaths, waited, verdict):
    world = World()
    for number in range(deaths):
        last = died(world, f"w{number}")
    world.paper.now = last.until + waited

    if verdict is Stalled:
        with pytest.raises(Stalled):
            world.take("next")
    else:
        assert world.take("next").head.drain.starts == deaths


def test_a_stalled_world_says_so_until_it_ticks():
    world = World()
    for number in range(7):
        died(world, f"w{number}")
    describe = world.info

    assert describe().stalled
    world.tick(reject=[])
    assert not describe().stalled


def test_of_two_that_take_a_free_fence_one_wins():
    world = World()
    request = TakeFence(WORLD, Holder("ann"), LEASE)

    with pytest.raises(FenceHeld):
        world.paper.ask(request, rival=lambda: world.take("bob"))

    assert world.head.fence.holder == "bob"
    assert world.head.fence.epoch == 1


def test_admissions_do_not_care_about_the_fence():
    world = World()
    world.take("ann")

    world.admit(due())

    assert world.head.fence.holder == "ann"


@pytest.mark.parametrize(("stage", "verdict"), [("apply", "taken"), ("compute", "stalled")])
def test_only_deaths_that_teach_nothing_stall_a_world(stage, verdict):
    world = World()
    for number in range(limits.STALLED_FROM_STARTS + 1):
        last = died(world, f"w{number}")
    probe = Probe(stage=stage, first=1, last=100)
    world.change(lambda head: replace(head, drain=replace(head.drain, probe=probe)))
    world.paper.now = last.until

    if verdict == "stalled":
        with pytest.raises(Stalled):
            world.take("next")
    else:
        assert world.take("next").head.drain.probe == probe
