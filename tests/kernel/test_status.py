"""Status: what became of a command, in every state that a history can lead to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, Tag, World, due

from perdure.kernel.errors import Contended, Corrupt, NotFound
from perdure.kernel.ids import Sequence, Tick
from perdure.kernel.ledger import Ledger
from perdure.kernel.log import log_key
from perdure.kernel.operations import Spawn
from perdure.kernel.pages import page_key
from perdure.kernel.places import PageName
from perdure.kernel.records import batch_key, manifest_key


def told(status):
    return (status.status, status.tick, status.attempts, status.applied_tick, status.code)


def nothing(world):
    pass


def ticked(world):
    world.tick()


def ticked_often(world):
    world.ticks(40)


def rejected(world):
    world.ticks(2)
    world.tick(reject=[1])


def failed_once(world):
    world.ticks(2)
    world.tick(fail={1: 1})


def failed_twice(world):
    failed_once(world)
    world.tick(fail={1: 1})


def failed_thrice(world):
    failed_twice(world)
    world.tick()
    world.tick(fail={1: 1})


def applied_at_last(world):
    failed_twice(world)
    world.ticks(2)


def cancelled(world):
    world.cancel("b.0")


def cancelled_long_ago(world):
    world.cancel("b.0")
    world.ticks(200)


def cancelled_when_retried(world):
    failed_once(world)
    world.cancel("b.0")


def cancelled_all(world):
    world.cancel_all("r")


def cancelled_all_and_drained(world):
    world.cancel_all("r")
    world.ticks(5)


def cancelled_all_when_retried(world):
    failed_twice(world)
    world.cancel_all("r")
    world.ticks(5)


def left_behind(world):
    world.ticks(2)
    for _ in range(30):
        world.tick(leave=[1])


def applied_late(world):
    left_behind(world)
    world.ticks(50)


def destroyed(world):
    world.change(lambda head: replace(head, status="destroyed"))


def applied_then_destroyed(world):
    world.ticks(3)
    destroyed(world)


def retried_then_destroyed(world):
    failed_once(world)
    destroyed(world)


def pages_swept_after_destroying(world):
    for page in world.pages:
        del world.paper.stored[page.key]
    destroyed(world)


@pytest.mark.parametrize(
    ("history", "verdict"),
    [
        (nothing, ("pending", 2, 0, None, None)),
        (ticked, ("pending", 2, 0, None, None)),
        (ticked_often, ("applied", 2, 0, 2, None)),
        (rejected, ("rejected", 2, 0, None, "lookup_error")),
        (failed_once, ("retryable", 3, 1, None, None)),
        (failed_twice, ("retryable", 5, 2, None, None)),
        (failed_thrice, ("dead_letter", 2, 3, None, "boom")),
        (applied_at_last, ("applied", 2, 0, 5, None)),
        (cancelled, ("rejected", 2, 0, None, "cancelled")),
        (cancelled_long_ago, ("rejected", 2, 0, None, "cancelled")),
        (cancelled_when_retried, ("rejected", 2, 0, None, "cancelled")),
        (cancelled_all, ("rejected", 2, 0, None, "cancelled")),
        (cancelled_all_and_drained, ("rejected", 2, 0, None, "cancelled")),
        (cancelled_all_when_retried, ("rejected", 2, 0, None, "cancelled")),
        (left_behind, ("pending", 2, 0, None, None)),
        (applied_late, ("applied", 2, 0, 32, None)),
        (destroyed, ("rejected", 2, 0, None, "world_destroyed")),
        (applied_then_destroyed, ("applied", 2, 0, 2, None)),
        (retried_then_destroyed, ("rejected", 2, 0, None, "world_destroyed")),
        (pages_swept_after_destroying, ("rejected", 2, 0, None, "world_destroyed")),
    ],
)
@pytest.mark.parametrize("command", ["b.0", "mine"])
def test_status_is_derived_from_manifests_and_pages(history, verdict, command):
    world = World()
    world.admit(due(2, command_id="mine"), due(9), batch="b")

    history(world)

    status = world.status(command)
    assert told(status) == verdict
    assert (status.token is None) is (
        status.status in {"pending", "retryable"} or status.code in {"cancelled", "world_destroyed"}
    )
    assert world.paper.loads <= 8


def test_a_command_settled_long_after_it_was_due_is_found_in_few_loads():
    world = World()
    world.admit(due(0), batch="b")
    for _ in range(300):
        world.tick(leave=[1])
    world.ticks(1)

    status = world.status("b.0")

    assert (status.status, status.applied_tick) == ("applied", 300)
    assert world.paper.loads <= 10


def test_a_status_tells_what_the_command_was():
    world = World()
    world.admit(Spawn(Tag(), command_id="mine"), due(7, -2), batch="b")

    spawn, despawn = world.status("mine"), world.status("b.1")

    assert (spawn.operation, spawn.entity_id, spawn.sequence) == ("spawn", 1, 1)
    assert (despawn.operation, despawn.entity_id, despawn.sequence) == ("despawn", 1, 2)
    assert (despawn.command_id, despawn.tick, despawn.priority) == ("b.1", 7, -2)
    assert world.status("b.0").command_id == "mine"


@pytest.mark.parametrize(
    "command", ["mine", "b.1", "b.01", "c.0", "b", "b.-1", "b.99999999999999999999"]
)
def test_what_was_never_admitted_is_not_found(command):
    world = World()
    world.admit(due(), batch="b")

    with pytest.raises(NotFound):
        world.status(command)


def test_a_publish_seen_in_part_is_looked_at_again():
    world = World()
    world.admit(due(0), batch="b")
    before = world.head
    world.tick()
    world.paper.put(before)

    with pytest.raises(Contended):
        world.status("b.0")


def test_a_page_that_a_running_publish_still_shows_hides_no_settlement():
    world = World()
    world.admit(due(0), batch="b")
    (page,) = world.pages
    world.tick()
    world.paper.put(page)

    assert world.status("b.0").status == "applied"


def ledger(world, limit=100, after=(1, 0)):
    page = world.paper.ask(Ledger(WORLD, after, limit))
    return [(each.command_id, each.status) for each in page.commands], page.after


def test_the_ledger_lists_commands_in_the_order_of_their_admission():
    world = World()
    world.admit(due(0), due(0), due(0), due(9), batch="b")
    world.tick(reject=[1], fail={2: 1})
    world.admit(due(9, command_id="mine"), batch="c")
    world.cancel("b.3")

    commands, after = ledger(world)

    assert commands == [
        ("b.0", "rejected"),
        ("b.1", "retryable"),
        ("b.2", "applied"),
        ("b.3", "rejected"),
        ("mine", "pending"),
    ]
    assert after is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_pages_of_the_ledger_make_the_whole(limit):
    world = World()
    world.admit(due(0), due(0), due(9), batch="b")
    world.ticks(2)
    world.admit(due(9), batch="c")
    world.admit(due(9), due(8), batch="d")

    told_of, after = [], (1, 0)
    while after is not None:
        commands, after = ledger(world, limit, after)
        assert len(commands) <= limit
        told_of += commands

    assert [name for name, _ in told_of] == ["b.0", "b.1", "b.2", "c.0", "d.0", "d.1"]


def test_a_long_ledger_is_read_in_few_loads():
    world = World()
    for number in range(150):
        world.admit(due(number % 7), batch=f"b{number}")
    world.ticks(5)

    commands, _ = ledger(world, 1_000)

    assert len(commands) == 150
    assert world.paper.loads <= 12


def test_a_ledger_looks_through_so_much_and_says_where_to_go_on(monkeypatch):
    monkeypatch.setattr("perdure.kernel.ledger.LEDGER_ENTRIES_MAX", 50)
    world = World()
    world.ticks(120)
    world.admit(due(), batch="b")

    pages, after = [], (1, 0)
    while after is not None:
        commands, after = ledger(world, 10, after)
        pages.append(len(commands))

    assert pages == [0, 0, 1]


@pytest.mark.parametrize(
    "hidden",
    [log_key(WORLD.partition, 2), batch_key(WORLD.partition, "b")],
    ids=["log entry", "batch key"],
)
def test_a_ledger_does_not_skip_what_a_running_commit_hides(hidden):
    world = World()
    world.admit(due(), batch="b")
    del world.paper.stored[hidden]

    with pytest.raises(Contended):
        ledger(world)


def test_a_batch_of_ten_thousand_is_told_of_without_asking_for_each_of_them():
    world = World()
    world.admit(*[due(0)] * 10_000, batch="b")
    world.tick(reject=range(1, 10_001, 2))

    view, decision = world.paper.decided(Ledger(WORLD, (2, 0), 10_000))

    statuses = [each.status for each in decision.reply.commands]
    assert statuses == ["rejected", "applied"] * 5_000
    assert len(view.stored) < 10


def test_a_page_gone_and_no_manifest_of_its_tick_is_a_damage_once_no_commit_hides_it():
    world = World()
    world.admit(due(0), batch="b")
    world.tick()
    del world.paper.stored[manifest_key(WORLD.partition, Tick(0))]
    assert page_key(WORLD.partition, PageName(Tick(0), 0, Sequence(1))) not in world.paper.stored

    with pytest.raises(Corrupt):
        world.status("b.0")
