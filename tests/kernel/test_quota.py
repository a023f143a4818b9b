"""Quotas: what writes is paid for once, in its own commit; nothing else costs anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due

from perdure.kernel import limits
from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.cancel import Cancel, CancelAll
from perdure.kernel.create import CreateWorld
from perdure.kernel.errors import Conflict, QuotaExceeded, TooLarge
from perdure.kernel.ids import CommandId, Instant, RunId, StorageId, WorldId
from perdure.kernel.places import WorldRef, catalog_partition
from perdure.kernel.quota import Metered, metered, payment, quota_key

pytestmark = pytest.mark.lifecycle

WINDOW = 60_000


def caller(units=10, actor="ann", window_ms=WINDOW, cost=1):
    return Caller(actor, "gateway", Allowance(units, window_ms, cost))


class Payer:
    """Asks of a world on paper as somebody with a quota."""

    def __init__(self, world=None, **allowance):
        self.world = World() if world is None else world
        self.by = caller(**allowance)

    @property
    def paper(self):
        return self.world.paper

    @property
    def spent(self):
        held = self.paper.held(quota_key(WORLD.partition, self.by.actor))
        return 0 if held is None else held.spent

    def ask(self, request, **options):
        return self.paper.ask(metered(replace(request, by=self.by)), **options)

    def admit(self, count, batch=None, **sender):
        return self.ask(self.world.admission(*[due(2)] * count, batch=batch, **sender))


def test_each_command_of_a_batch_is_paid_for():
    ann = Payer()

    ann.admit(3)
    ann.admit(4)

    assert ann.spent == 7


def test_batch_within_what_is_left_is_admitted_and_one_beyond_it_is_not():
    ann = Payer()
    ann.admit(7)
    before = dict(ann.paper.stored)

    with pytest.raises(QuotaExceeded):
        ann.admit(4)
    refused = dict(ann.paper.stored)
    ann.admit(3)

    assert refused == before
    assert ann.spent == 10


def test_batch_sent_again_costs_nothing_even_when_all_is_spent():
    ann = Payer()
    first = ann.admit(10, batch="b").receipts()

    again = ann.admit(10, batch="b")

    assert again.replayed
    assert again.receipts() == first
    assert ann.spent == 10


def test_refused_batch_costs_nothing():
    ann = Payer()
    ann.admit(1, batch="b")

    with pytest.raises(Conflict):
        ann.admit(2, batch="b")

    assert ann.spent == 1


def test_batch_that_lost_a_race_is_paid_for_once():
    ann, bob = Payer(), None
    bob = Payer(ann.world, actor="bob")

    ann.ask(ann.world.admission(due(2), due(2)), rival=lambda: bob.admit(1))

    assert (ann.spent, bob.spent) == (2, 1)


def test_what_an_actor_spends_at_two_places_at_once_adds_up():
    ann = Payer(units=3)
    elsewhere = WorldRef(WORLD.storage, WorldId("elsewhere"))

    def rival():
        ann.ask(CreateWorld(elsewhere, "elsewhere", RunId("r")))

    ann.ask(ann.world.admission(due(2), due(2)), rival=rival)

    assert ann.spent == 3
    with pytest.raises(QuotaExceeded):
        ann.admit(1)


def test_batch_larger_than_the_whole_quota_is_too_large_and_no_waiting_helps():
    ann = Payer()

    with pytest.raises(TooLarge, match="whole quota of 10 units"):
        ann.admit(11)

    assert ann.spent == 0


def test_quotas_of_two_actors_are_apart():
    ann = Payer()
    bob = Payer(ann.world, actor="bob")
    ann.admit(10)

    bob.admit(10)

    assert (ann.spent, bob.spent) == (10, 10)


def test_cancelling_is_paid_for_and_cancelling_again_is_not():
    ann = Payer()
    ann.admit(3, batch="b")

    for _ in range(2):
        ann.ask(Cancel(WORLD, CommandId("b.1")))
        ann.ask(CancelAll(WORLD, "all"))

    assert ann.spent == 5


def test_creating_costs_what_the_allowance_says_and_creating_again_nothing():
    ann = Payer(units=100, cost=50)
    ref = WorldRef(WORLD.storage, WorldId("another"))

    for run in ("one", "two"):
        ann.ask(CreateWorld(ref, "another", RunId(run)))

    assert ann.spent == 50


@pytest.mark.parametrize("by", [Caller(), Caller("ann", "gateway"), Caller(None, "gateway")])
def test_caller_without_a_quota_leaves_no_record(by):
    world = World()

    world.paper.ask(metered(replace(world.admission(due()), by=by)))

    assert not [key for key in world.paper.stored if key.partition.startswith("q/")]
    assert payment(WORLD.storage, by) is None


def test_work_of_many_commits_is_paid_for_before_it_begins():
    ann = Payer(units=20, cost=10)

    ann.paper.ask(payment(WORLD.storage, ann.by))
    ann.paper.ask(payment(WORLD.storage, ann.by))

    assert ann.spent == 20
    with pytest.raises(QuotaExceeded):
        ann.paper.ask(payment(WORLD.storage, ann.by))


def test_next_window_begins_with_nothing_spent_and_leaves_one_record():
    ann = Payer()
    for window in range(5):
        ann.paper.now = Instant(WINDOW * (100 + window))
        ann.admit(10)

    held = [key for key in ann.paper.stored if key.partition.startswith("q/")]
    assert len(held) == 1
    assert ann.spent == 10


@pytest.mark.parametrize(
    ("into_the_window_ms", "retry_after_ms"), [(0, 60_000), (1, 59_999), (59_999, 1)]
)
def test_refusal_says_when_the_window_ends(into_the_window_ms, retry_after_ms):
    ann = Payer()
    ann.paper.now = Instant(WINDOW * 100 + into_the_window_ms)
    ann.admit(10)

    with pytest.raises(QuotaExceeded) as refused:
        ann.admit(1)

    assert refused.value.retry_after_ms == retry_after_ms


@pytest.mark.parametrize(
    ("first_ms", "then_ms", "verdict"),
    [
        # the second clock is behind, by less than a window: it begins no window again
        (WINDOW * 100, WINDOW * 100 - 1, "counted"),
        (WINDOW * 100 + 5, WINDOW * 99, "counted"),
        # the second is ahead, into the next window: that one has begun
        (WINDOW * 100 - 1, WINDOW * 100, "anew"),
        # the first was wrong by hours: its window is brought back, what it spent counts
        (WINDOW * 1_000, WINDOW * 100, "counted"),
    ],
)
def test_clocks_that_disagree_begin_no_window_twice(first_ms, then_ms, verdict):
    ann = Payer()
    ann.paper.now = Instant(first_ms)
    ann.admit(6)

    ann.paper.now = Instant(then_ms)
    ann.admit(1)

    assert ann.spent == {"counted": 7, "anew": 1}[verdict]


def test_clock_that_is_wrong_by_hours_keeps_nobody_waiting_for_hours():
    ann = Payer()
    ann.paper.now = Instant(WINDOW * 1_000)
    ann.admit(10)

    ann.paper.now = Instant(WINDOW * 100)
    with pytest.raises(QuotaExceeded) as refused:
        ann.admit(1)
    assert refused.value.retry_after_ms <= 2 * WINDOW


def test_clock_behind_goes_back_and_forth_and_the_quota_holds():
    ann = Payer()

    for turn in range(10):
        ann.paper.now = Instant(WINDOW * 100 - turn % 2)
        ann.admit(1)

    assert ann.spent == 10
    with pytest.raises(QuotaExceeded):
        ann.admit(1)


def test_largest_batch_with_a_quota_fits_a_commit():
    ann = Payer(units=limits.BATCH_COMMANDS_MAX)
    commands = [
        due(index + 1, command_id=f"c{index}" if index % 2 else None)
        for index in range(limits.BATCH_GROUPS_MAX * 2 // 3)
    ]

    ann.ask(ann.world.admission(*commands))

    assert ann.spent == len(commands)


def test_later_commit_of_a_request_that_is_paid_costs_nothing_and_still_says_who_asks():
    ann = Payer()
    request = replace(ann.world.admission(due()), by=ann.by.paid)

    ann.paper.ask(metered(request))

    assert ann.spent == 0
    assert request.by.facts == ann.by.facts == {"actor": "ann", "origin": "gateway"}


@pytest.mark.parametrize(
    ("stream", "same"),
    [
        (WORLD.partition, True),
        (WORLD.catalog, True),
        (WorldRef(WORLD.storage, WorldId("x")).partition, True),
        (WorldRef(StorageId("another"), WORLD.world).partition, False),
    ],
)
def test_streams_of_one_storage_share_the_quota_and_storages_do_not(stream, same):
    one = quota_key(catalog_partition(WORLD.storage), "ann")

    assert (quota_key(stream, "ann") == one) == same
    assert quota_key(stream, "bob") != one


def test_request_that_asks_nothing_of_a_quota_is_left_as_it_is():
    request = World().admission(due())

    assert metered(request) is request
    assert isinstance(metered(replace(request, by=caller())), Metered)
