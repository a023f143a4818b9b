"""The drain: what is due, in order, within limits, and never half of what is visible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.worldly import WORLD, Tag, World, due

from perdure.kernel import limits
from perdure.kernel.drain import DrainDue
from perdure.kernel.errors import Contended, NotFound, StaleWriter
from perdure.kernel.ids import NO_TICK, Partition, Seq, Sequence, Tick, WorldId
from perdure.kernel.log import log_key
from perdure.kernel.operations import Spawn
from perdure.kernel.pages import Page, PageEntry, page_key
from perdure.kernel.places import PageName, WorldRef
from perdure.kernel.records import manifest_key


def order(drained):
    return [(each.tick, each.priority, each.sequence) for each in drained.commands]


def taken(drained):
    return [each.sequence for each in drained.commands]


@pytest.mark.parametrize(
    ("dues", "tick", "verdict"),
    [
        ([], 9, []),
        ([(0, 0), (0, 0)], 0, [(0, 0, 1), (0, 0, 2)]),
        ([(1, 0), (0, 0)], 0, [(0, 0, 2)]),
        ([(1, 0), (0, 0)], 1, [(0, 0, 2), (1, 0, 1)]),
        ([(0, 5), (0, -5), (0, 0)], 0, [(0, -5, 2), (0, 0, 3), (0, 5, 1)]),
        ([(2, -9), (1, 9)], 2, [(1, 9, 2), (2, -9, 1)]),
        ([(0, 0), (0, 1), (0, 0)], 0, [(0, 0, 1), (0, 0, 3), (0, 1, 2)]),
        ([(10, 0), (9, 0)], 9, [(9, 0, 2)]),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("together", [True, False])
def test_what_is_due_comes_by_tick_then_priority_then_sequence(dues, tick, verdict, together):
    world = World()
    commands = [due(*each) for each in dues]
    for batch in [commands] if together and commands else [[each] for each in commands]:
        world.admit(*batch)

    drained = world.drain(tick)

    assert order(drained) == verdict
    assert not drained.more


def test_a_drained_command_carries_what_was_admitted():
    world = World()
    world.admit(due(), Spawn(Tag(), command_id="mine", max_attempts=7))

    (_, spawn) = world.drain().commands

    assert (spawn.command.sequence, spawn.command.entity_id) == (2, 1)
    assert (spawn.command.operation["operation"], spawn.command.max_attempts) == ("spawn", 7)
    assert spawn.attempts == 0


def test_ten_thousand_commands_are_taken_and_the_rest_waits():
    world = World()
    world.admit(*[due(0)] * 10_000)
    world.admit(*[due(0)] * 5)

    drained = world.drain()

    assert taken(drained) == list(range(1, limits.DRAIN_COMMANDS_MAX + 1))
    assert drained.more
    world.tick()
    assert taken(world.drain()) == [10_001, 10_002, 10_003, 10_004, 10_005]


def test_sixty_pages_are_read_and_the_rest_waits():
    world = World()
    world.admit(*[due(0, priority) for priority in range(70)])

    first = world.drain()
    world.tick()
    second = world.drain()

    assert taken(first) == list(range(1, 61))
    assert first.more
    assert taken(second) == list(range(61, 71))
    assert not second.more


def test_commands_behind_the_first_unread_page_wait_for_it(monkeypatch):
    monkeypatch.setattr(limits, "DRAIN_PAGES_MAX", 2)
    world = World()
    world.admit(due(0, 0), due(0, 1), due(0, 2))
    world.paper.put(
        Page.of(
            WORLD.partition,
            PageName(Tick(0), 1, Sequence(1)),
            [PageEntry(seq=Seq(2), group=1, count=1, open=((2, 2),))],
        )
    )
    del world.paper.stored[page_key(WORLD.partition, PageName(Tick(0), 1, Sequence(2)))]
    world.paper.put(Page.of(WORLD.partition, PageName(Tick(0), 1, Sequence(2))))

    drained = world.drain()

    assert taken(drained) == [1]
    assert drained.more


def test_a_batch_is_cut_where_the_tick_is_full_and_where_the_first_unread_page_begins(monkeypatch):
    world = World()
    world.admit(due(0), due(0), due(0))
    world.paper.put(Page.of(WORLD.partition, PageName(Tick(0), 0, Sequence(2))))

    monkeypatch.setattr(limits, "DRAIN_COMMANDS_MAX", 2)
    full = world.drain()
    monkeypatch.setattr(limits, "DRAIN_PAGES_MAX", 1)
    cut = world.drain()

    assert (taken(full), full.more) == ([1, 2], True)
    assert (taken(cut), cut.more) == ([1], True)


def test_a_drain_never_takes_nothing_from_full_pages(monkeypatch):
    monkeypatch.setattr(limits, "DRAIN_PAGES_MAX", 1)
    world = World()
    world.admit(due(5), due(5), due(5))
    world.tick()
    for first, held in ((1, 3), (2, 1)):
        entry = PageEntry(seq=Seq(2), group=0, count=1, open=((held, held),))
        world.paper.put(Page.of(WORLD.partition, PageName(Tick(5), 0, Sequence(first)), [entry]))

    drained = world.drain(5)

    assert taken(drained) == [3]
    assert drained.more


def test_what_a_newer_head_admitted_is_left_alone():
    world = World()
    world.admit(due(0))
    known = world.head
    world.admit(due(0))
    world.admit(due(0, 1))
    world.paper.put(known)

    drained = world.drain()

    assert taken(drained) == [1]
    assert [len(entries) for _, entries in drained.pages] == [1, 0]


def test_what_stands_below_the_line_is_not_taken_but_its_pages_are():
    world = World()
    world.admit(due(0))
    world.cancel_all("r")
    world.admit(due(0))

    drained = world.drain()

    assert taken(drained) == [2]
    assert [len(entries) for _, entries in drained.pages] == [2]


def hide(world, key):
    del world.paper.stored[key]


def hide_page(world):
    hide(world, page_key(WORLD.partition, PageName(Tick(0), 0, Sequence(1))))


def hide_log(world):
    hide(world, log_key(WORLD.partition, Seq(2)))


def hide_another_log(world):
    hide(world, log_key(WORLD.partition, Seq(3)))


def show_twice(world):
    (page,) = (page for page in world.pages if page.name.tick == 0)
    world.paper.put(Page.of(WORLD.partition, PageName(Tick(0), 7, Sequence(1)), page.entries))


def show_twice_in_one_place(world):
    (page,) = (page for page in world.pages if page.name.tick == 0)
    world.paper.put(Page.of(WORLD.partition, PageName(Tick(0), 0, Sequence(9)), page.entries))


@pytest.mark.parametrize(
    "half",
    [hide_page, hide_log, hide_another_log, show_twice, show_twice_in_one_place],
)
def test_what_a_running_commit_shows_in_part_is_read_again(half):
    world = World()
    world.admit(due(0), due(0))
    world.admit(due(5))
    half(world)

    with pytest.raises(Contended):
        world.drain(0)


@pytest.mark.parametrize("how", ["one by one", "all", "after the head was read"])
def test_what_was_cancelled_is_not_missed(how):
    world = World()
    count = limits.LOAD_KEYS_MAX + (how != "after the head was read")
    world.admit(*[due(0)] * count, batch="b")
    head = world.head
    if how == "all":
        world.cancel_all("r")
    else:
        for index in range(count):
            world.cancel(f"b.{index}")
    if how == "after the head was read":
        world.paper.put(head)

    drained = world.drain()

    assert taken(drained) == []


def test_what_is_due_later_is_not_missed():
    world = World()
    world.admit(due(0), due(5))
    hide(world, page_key(WORLD.partition, PageName(Tick(5), 0, Sequence(2))))

    assert taken(world.drain(0)) == [1]


def test_what_was_settled_before_the_last_manifest_is_not_missed():
    world = World()
    world.admit(due(0))
    world.ticks(2)
    world.admit(due(2))

    assert taken(world.drain()) == [2]


def test_a_page_may_name_the_log_of_an_ancestor():
    world = World()
    world.admit(due(0), due(0))
    child = Partition("w/child/child")
    (page,) = world.pages
    world.paper.put(replace(world.head, partition=child, seq=Seq(0), last_page=None))
    inherited = [replace(entry, world=WORLD.partition) for entry in page.entries]
    world.paper.put(Page.of(child, page.name, inherited))

    class Child(WorldRef):
        partition = child

    drained = world.paper.ask(DrainDue(Child(WORLD.storage, WorldId("child")), Tick(0), Seq(0)))

    assert taken(drained) == [1, 2]


def test_a_world_that_is_not_there_has_nothing_to_drain():
    world = World()

    with pytest.raises(NotFound):
        world.paper.ask(DrainDue(WorldRef(WORLD.storage, WorldId("elsewhere")), Tick(0), Seq(0)))


@pytest.mark.parametrize("dues", [[], [0], [0, 0, 1, 5]])
def test_a_drain_of_what_came_since_the_tick_before_needs_one_load(dues):
    world = World()
    world.tick()
    for tick in dues:
        world.admit(due(tick), due(tick, 1))

    drained = world.drain(1)

    assert len(drained.commands) == 2 * sum(tick <= 1 for tick in dues)
    assert world.paper.loads == 1


def test_log_entries_that_their_range_does_not_show_yet_are_asked_for_by_name_at_once(monkeypatch):
    world = World()
    for _ in range(limits.ROUNDS_MAX):
        world.admit(due(5))
    load = world.paper.load

    def torn(reads):
        return load(replace(reads, ranges=tuple(r for r in reads.ranges if r.first < "log/")))

    monkeypatch.setattr(world.paper, "load", torn)

    assert taken(world.drain(5)) == list(range(1, limits.ROUNDS_MAX + 1))
    assert world.paper.loads == 2


def test_a_tick_that_another_has_published_is_drained_no_more():
    world = World()
    world.admit(due(0))
    world.tick()

    with pytest.raises(StaleWriter):
        world.drain(0)


def test_a_drain_needs_three_loads_however_much_there_is():
    world = World()
    world.tick()
    for tick in range(1, 50):
        world.admit(due(tick))

    drained = world.drain(60)

    assert len(drained.commands) == 49
    assert world.paper.loads <= 3


dues = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1)), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.lists(dues, min_size=1, max_size=4), st.integers(0, 3))
def test_a_drain_is_a_sort_of_what_is_due(batches, tick):
    world = World()
    for batch in batches:
        world.admit(*[due(*each) for each in batch])

    drained = world.drain(tick)

    admitted = [each for batch in batches for each in batch]
    wanted = sorted(
        (at, priority, sequence)
        for sequence, (at, priority) in enumerate(admitted, start=1)
        if at <= tick
    )
    assert order(drained) == wanted
    assert drained.head.published == NO_TICK
    assert manifest_key(WORLD.partition, Tick(0)) not in world.paper.stored


def test_what_was_admitted_while_a_tick_was_made_is_missed_by_the_next():
    world = World()
    grip = world.take()
    drained = world.drain()
    world.admit(due(0))
    world.paper.ask(world.publishing(drained, grip))
    hide(world, page_key(WORLD.partition, PageName(Tick(0), 0, Sequence(1))))

    with pytest.raises(Contended):
        world.drain()
