"""Admission: all or nothing, at most once, and the same receipt for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, Tag, World, due, later

from perdure.kernel import limits
from perdure.kernel.errors import (
    Conflict,
    Contended,
    NotFound,
    NotPermitted,
    WorldClosing,
    WorldDestroyed,
    WorldMoved,
    WorldMoving,
)
from perdure.kernel.ids import BatchId, CommandId, Holder, Instant, Sequence, WorldId
from perdure.kernel.operations import Spawn
from perdure.kernel.places import MINUTE_MS, PageName, WorldRef
from perdure.kernel.records import batch_key, command_key, head_key


def test_a_batch_is_one_commit_of_a_few_records():
    world = World()
    world.change(lambda head: replace(head, wake_at=None))
    world.paper.now = Instant(world.paper.now + 600_000)
    before = set(world.paper.stored)

    receipts = world.receipts(due(), Spawn(Tag()), due(tick=3), Spawn(Tag(), tick=3), batch="b")

    assert [(each.command_id, each.sequence, each.entity_id, each.tick) for each in receipts] == [
        ("b.0", 1, None, 0),
        ("b.1", 2, 1, 0),
        ("b.2", 3, None, 3),
        ("b.3", 4, 2, 3),
    ]
    new = sorted(key.sort.split("/")[0] for key in set(world.paper.stored) - before)
    assert new == [f"{(world.paper.now + 60_000) // MINUTE_MS:019d}", "due", "due", "key", "log"]
    assert (world.head.next_sequence, world.head.next_entity_id) == (5, 3)
    assert world.head.open_commands == 4


def test_ten_thousand_commands_of_one_tick_are_one_page_entry():
    world = World()

    world.admit(*[due()] * 10_000)

    (page,) = world.pages
    assert [entry.count for entry in page.entries] == [10_000]


LATER_STATES = {
    "at once": lambda world: None,
    "after ticks": lambda world: world.ticks(3),
    "after cancel all": lambda world: world.cancel_all("r"),
    "after more admissions": lambda world: world.admit(due(), Spawn(Tag())),
    "closing": lambda world: world.change(lambda head: replace(head, status="closing")),
    "destroyed": lambda world: world.change(lambda head: replace(head, status="destroyed")),
    "moved": lambda world: world.change(lambda head: replace(head, status="moved")),
}


@pytest.mark.parametrize("state", LATER_STATES)
@pytest.mark.parametrize("own", [False, True])
def test_a_replay_returns_the_same_receipts_in_every_later_state(state, own):
    world = World()
    world.admit(Spawn(Tag()))
    ids = ("mine", "yours", "hers") if own else (None,) * 3
    commands = [
        Spawn(Tag(), command_id=ids[0]),
        due(5, -1, command_id=ids[1]),
        Spawn(Tag(), tick=0, command_id=ids[2]),
    ]
    first = world.receipts(*commands, batch="b")
    LATER_STATES[state](world)
    before = dict(world.paper.stored)

    again = world.admit(*commands, batch="b")

    assert again.replayed
    assert again.receipts() == first
    assert world.paper.stored == before


@pytest.mark.parametrize("state", LATER_STATES)
def test_own_ids_in_another_batch_give_their_receipts_and_write_nothing(state):
    world = World()
    world.admit(Spawn(Tag()), due(3, command_id="other"))
    commands = [Spawn(Tag(), command_id="mine", tick=2), due(command_id="yours")]
    first = world.receipts(*commands, batch="b")
    LATER_STATES[state](world)
    before = dict(world.paper.stored)

    again = world.admit(*reversed(commands), batch="c")

    assert again.replayed
    assert again.receipts() == first[::-1]
    assert world.paper.stored == before


MINE, YOURS = due(command_id="mine"), due(command_id="yours")


@pytest.mark.parametrize(
    ("batch", "commands", "verdict"),
    [
        ("b", [MINE, YOURS], "known"),
        ("b", [MINE], Conflict),
        ("b", [YOURS, MINE], Conflict),
        ("b", [due()], Conflict),
        ("c", [MINE, YOURS], "known"),
        ("c", [MINE], "known"),
        ("c", [due(command_id="mine", tick=1)], Conflict),
        ("c", [MINE, due(command_id="new")], Conflict),
        ("c", [MINE, due()], Conflict),
        ("c", [due(command_id="new")], "new"),
    ],
)
def test_ids_met_again_are_all_known_or_all_new(batch, commands, verdict):
    world = World()
    world.admit(MINE, YOURS, batch="b")
    before = dict(world.paper.stored)

    if verdict is Conflict:
        with pytest.raises(Conflict):
            world.admit(*commands, batch=batch)
    else:
        assert world.admit(*commands, batch=batch).replayed is (verdict == "known")

    assert (world.paper.stored == before) is (verdict != "new")


def test_another_sender_is_other_content():
    world = World()
    world.admit(due(), batch="b", principal="ann")

    with pytest.raises(Conflict):
        world.admit(due(), batch="b", principal="bob")


def test_an_admission_seen_in_part_is_not_refused_for_its_own_commands():
    world = World()
    world.admit(MINE, YOURS, batch="b")
    del world.paper.stored[batch_key(WORLD.partition, BatchId("b"))]
    del world.paper.stored[command_key(WORLD.partition, "yours")]

    with pytest.raises(Contended):
        world.admit(MINE, YOURS, batch="b")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("closing", WorldClosing),
        ("moving", WorldMoving),
        ("moved", WorldMoved),
        ("destroyed", WorldDestroyed),
    ],
)
def test_only_an_active_world_admits(status, verdict):
    world = World()
    world.change(lambda head: replace(head, status=status))

    with pytest.raises(verdict):
        world.admit(due())


def test_a_world_that_is_not_there_admits_nothing():
    world = World()
    elsewhere = WorldRef(WORLD.storage, WorldId("elsewhere"))

    with pytest.raises(NotFound):
        world.paper.ask(replace(world.admission(due()), ref=elsewhere))


@pytest.mark.parametrize(
    ("holder", "verdict"),
    [(None, NotPermitted), ("bob", NotPermitted), ("ann", "admitted")],
)
def test_a_private_world_admits_from_the_holder_of_its_fence_only(holder, verdict):
    world = World()
    world.take("ann")
    world.change(lambda head: replace(head, writer_mode="cleanup_only"))
    request = replace(world.admission(due()), holder=holder and Holder(holder))

    if verdict is NotPermitted:
        with pytest.raises(NotPermitted):
            world.paper.ask(request)
    else:
        assert len(world.paper.ask(request).receipts()) == 1


def test_a_private_world_without_a_holder_admits_nobody():
    world = World()
    world.change(lambda head: replace(head, writer_mode="cleanup_only"))

    with pytest.raises(NotPermitted):
        world.admit(due())


def page_names(world):
    return [(page.name.tick, page.name.priority, page.name.first) for page in world.pages]


@pytest.mark.parametrize(
    ("batches", "verdict"),
    [
        ([[due(1)], [due(1)]], [(1, 0, 1)]),
        ([[due(1)], [due(2)], [due(1)]], [(1, 0, 1), (1, 0, 3), (2, 0, 2)]),
        ([[due(1), due(2)], [due(2)]], [(1, 0, 1), (2, 0, 2)]),
        ([[due(1), due(2), due(1)]], [(1, 0, 1), (2, 0, 2)]),
        ([[due(1)], [due(1, -1)]], [(1, -1, 2), (1, 0, 1)]),
        ([[due(1)], [due(2), due(1)]], [(1, 0, 1), (1, 0, 3), (2, 0, 2)]),
        ([[due()], [due(0)]], [(0, 0, 1)]),
    ],
    ids=range(7),
)
def test_an_entry_goes_to_the_last_page_used_if_it_is_due_there(batches, verdict):
    world = World()

    for batch in batches:
        world.admit(*batch)

    assert page_names(world) == verdict


def test_a_full_page_is_cut_and_the_next_one_begun():
    world = World()

    for _ in range(limits.PAGE_ENTRIES_MAX + 1):
        world.admit(due())

    assert [len(page.entries) for page in world.pages] == [limits.PAGE_ENTRIES_MAX, 1]
    assert world.head.last_page == PageName(0, 0, Sequence(limits.PAGE_ENTRIES_MAX + 1))


def test_a_last_page_that_is_gone_is_not_missed():
    world = World()
    world.receipts(due(1), batch="b")
    world.cancel("b.0")

    world.admit(due(1))

    assert page_names(world) == [(1, 0, 2)]


def test_a_tick_that_is_past_means_the_next_one():
    world = World()
    world.ticks(5)

    ticks = [each.tick for each in world.receipts(due(), due(4), due(5), due(6))]

    assert ticks == [5, 5, 5, 6]


def test_ids_are_reserved_in_order_and_never_reused():
    world = World()
    first = world.receipts(Spawn(Tag()), due(), Spawn(Tag()))
    world.cancel_all("r")
    world.ticks(2)

    second = world.receipts(Spawn(Tag()))

    assert [each.entity_id for each in (*first, *second)] == [1, None, 2, 3]


def test_a_rival_admission_in_between_takes_its_numbers_first():
    world = World()

    receipts = world.paper.ask(
        world.admission(Spawn(Tag()), batch="b"),
        rival=lambda: world.admit(Spawn(Tag()), Spawn(Tag())),
    ).receipts()

    assert [(each.sequence, each.entity_id) for each in receipts] == [(3, 3)]
    assert world.head.open_commands == 3


def test_a_rival_that_admits_the_same_batch_makes_it_a_replay():
    world = World()

    answer = world.paper.ask(
        world.admission(due(), batch="b"), rival=lambda: world.admit(due(), batch="b")
    )

    assert answer.replayed
    assert world.head.open_commands == 1


def test_a_rival_publish_in_between_moves_the_batch_to_the_next_tick():
    world = World()

    receipts = world.paper.ask(world.admission(due(0)), rival=world.tick).receipts()

    assert [each.tick for each in receipts] == [1]
    assert page_names(world) == [(1, 0, 1)]


def test_the_key_of_an_own_id_says_where_its_command_is():
    world = World()
    world.admit(due())

    world.admit(due(3), Spawn(Tag(), tick=3), Spawn(Tag(), tick=9, command_id="mine"), batch="b")

    key = world.paper.held(command_key(WORLD.partition, CommandId("mine")))
    assert (key.seq, key.index, key.sequence, key.entity_id) == (3, 2, 4, 2)
    assert (key.tick, key.priority, key.page) == (9, 0, PageName(9, 0, Sequence(4)))


def test_the_largest_admission_stays_within_a_commit():
    world = World()
    world.take()

    world.admit(*[due(tick, command_id=f"c{tick}") for tick in range(1, 46)])
    world.admit(*[due(tick) for tick in range(1, 91)])

    assert len(world.pages) == 45 + 90


def test_an_admission_wakes_its_world_within_a_minute_and_only_ever_earlier():
    world = World()
    world.admit(due())
    first = world.head.wake_at

    later(world, 30_000)
    world.admit(due())

    assert first == 1_060_000
    assert world.head.wake_at == first
    hints = [key for key in world.paper.stored if key.partition == WORLD.wake]
    assert len(hints) == 1


def test_a_commit_names_the_head():
    world = World()

    view, decision = world.paper.decided(world.admission(due(), batch="b"))

    assert head_key(WORLD.partition) in view.named
    assert batch_key(WORLD.partition, BatchId("b")) in view.named
    assert decision.writes
