"""Cancelling: one command leaves its page, or everything open stands below a line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due

from perdure.kernel.cancel import Cancel
from perdure.kernel.errors import Conflict, Contended, NotCancellable, NotFound, PerdureError
from perdure.kernel.ids import CommandId
from perdure.kernel.records import cancelled_key, head_key, request_key
from perdure.kernel.run import StartRun


def opened(world):
    return [(entry.seq, entry.open) for page in world.pages for entry in page.entries]


@pytest.mark.parametrize(
    ("cancelled", "verdict"),
    [
        ([], [(2, None)]),
        (["b.0"], [(2, ((2, 4),))]),
        (["b.1"], [(2, ((1, 1), (3, 4)))]),
        (["b.3", "b.1"], [(2, ((1, 1), (3, 3)))]),
        (["b.0", "b.1", "b.2", "b.3"], []),
    ],
    ids=range(5),
)
def test_a_cancelled_command_leaves_its_page(cancelled, verdict):
    world = World()
    world.admit(*[due(2)] * 4, batch="b")

    for command in cancelled:
        world.cancel(command)

    assert opened(world) == verdict
    assert world.head.open_commands == 4 - len(cancelled)


def test_the_other_entries_of_the_page_stay():
    world = World()
    world.admit(due(2), batch="a")
    world.admit(due(2), batch="b")
    world.admit(due(2), batch="c")

    world.cancel("b.0")

    assert opened(world) == [(2, None), (4, None)]


def test_cancelling_again_changes_nothing_in_every_later_state():
    world = World()
    world.admit(due(2), due(2), batch="b")
    first = world.cancel("b.1")
    world.ticks(3)
    world.change(lambda head: replace(head, status="destroyed"))
    before = dict(world.paper.stored)

    again = world.cancel("b.1")

    assert first == again == 2
    assert world.paper.stored == before


def test_a_command_is_cancelled_under_its_own_id_or_under_its_batchs():
    world = World()
    world.admit(due(2, command_id="mine"), batch="b")

    assert world.cancel("mine") == 1
    assert world.cancel("b.0") == 1


def applied(world):
    world.ticks(1)


def rejected(world):
    world.tick(reject=[1])


def dead(world):
    world.tick(fail={1: 3})


def cancelled_all(world):
    world.cancel_all("r")


def destroyed(world):
    world.change(lambda head: replace(head, status="destroyed"))


def closing(world):
    world.change(lambda head: replace(head, status="closing"))


@pytest.mark.parametrize(
    ("before", "command", "verdict"),
    [
        (None, "b.0", "cancelled"),
        (None, "b.1", NotFound.code),
        (None, "b.00", NotFound.code),
        (None, "c.0", NotFound.code),
        (None, "mine", NotFound.code),
        (applied, "b.0", NotCancellable.code),
        (rejected, "b.0", NotCancellable.code),
        (dead, "b.0", NotCancellable.code),
        (cancelled_all, "b.0", NotCancellable.code),
        (destroyed, "b.0", "world_destroyed"),
        (closing, "b.0", "world_closing"),
    ],
    ids=range(11),
)
def test_only_an_open_command_is_cancelled(before, command, verdict):
    world = World()
    world.admit(due(0), batch="b")
    if before is not None:
        before(world)

    try:
        world.cancel(command)
        found = "cancelled"
    except PerdureError as error:
        found = error.code

    assert found == verdict


def test_a_command_that_is_to_be_tried_again_can_be_cancelled():
    world = World()
    world.admit(due(0), due(0), batch="b")
    world.tick(fail={2: 1})

    world.cancel("b.1")
    world.ticks(2)

    assert world.status("b.1").code == "cancelled"
    assert world.pages == []
    assert world.head.open_commands == 0


def test_a_rival_that_settles_the_command_wins():
    world = World()
    world.admit(due(0), batch="b")

    with pytest.raises(NotCancellable, match="applied"):
        world.paper.ask(Cancel(WORLD, CommandId("b.0")), rival=world.tick)


def test_a_command_whose_admission_shows_before_its_head_is_asked_for_again():
    world = World()
    key = head_key(WORLD.partition)
    before = world.paper.stored[key]
    world.admit(due(2), batch="b")
    admitted = dict(world.paper.stored)
    world.paper.stored[key] = before

    with pytest.raises(Contended):
        world.cancel("b.0")

    assert world.paper.stored == {**admitted, key: before}


def test_cancelling_leaves_a_mark_and_a_log_entry():
    world = World()
    world.admit(due(0), due(0), batch="b")

    world.cancel("b.1")

    assert world.paper.held(cancelled_key(WORLD.partition, 2)).sequence == 2
    *_, entry = world.paper.held_under("log/")
    assert (entry.kind, entry.facts) == ("cancelled", {"command": "b.1", "sequence": 2})


def test_cancelling_all_closes_everything_open_at_once():
    world = World()
    world.admit(due(0), due(5), batch="b")

    below = world.cancel_all("r")
    world.admit(due(0), batch="c")

    assert below == 3
    assert world.head.open_commands == 1
    assert [world.status(f"b.{n}").code for n in range(2)] == ["cancelled"] * 2
    assert world.status("c.0").status == "pending"


def test_cancelling_all_again_by_the_same_request_does_nothing():
    world = World()
    world.admit(due(0))
    first = world.cancel_all("r")
    world.admit(due(0))
    world.change(lambda head: replace(head, status="destroyed"))
    before = dict(world.paper.stored)

    again = world.cancel_all("r")

    assert again == first
    assert world.paper.stored == before


def test_another_request_cancels_what_came_since():
    world = World()
    world.admit(due(0))
    world.cancel_all("r")
    world.admit(due(0))

    assert world.cancel_all("s") == 3
    assert world.head.open_commands == 0


def test_a_request_id_of_something_else_is_a_conflict():
    world = World()
    world.paper.ask(StartRun(WORLD, "r", 3))

    with pytest.raises(Conflict):
        world.cancel_all("r")

    assert world.paper.held(request_key(WORLD.partition, "r")).reply == {"to_tick": 2}
