"""Consumers: watermarks that only rise, and a world that waits for whom it must."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due

from perdure.kernel import limits
from perdure.kernel.caller import Caller
from perdure.kernel.consumers import (
    OWN,
    Acknowledge,
    CheckConsumers,
    ListConsumers,
    RemoveConsumer,
    SetConsumer,
)
from perdure.kernel.create import Describe
from perdure.kernel.errors import (
    Conflict,
    ConsumerBehind,
    Contended,
    Invalid,
    InvalidId,
    NotFound,
    OutOfRange,
    TooLarge,
    WorldClosing,
    WorldDestroyed,
)
from perdure.kernel.ids import RunId, Seq, StorageId, Tick, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.records import Ancestor, manifest_key, world_key
from perdure.kernel.upkeep import Consumer, consumer_key, required_key

pytestmark = pytest.mark.lifecycle

NOWHERE = WorldRef(StorageId("storage"), WorldId("nowhere"))


def setting(name: str = "hook", *, required: bool = False, **more) -> SetConsumer:
    return SetConsumer(WORLD, name, required, **more).checked()


def acknowledging(seq: int, name: str = "hook") -> Acknowledge:
    return Acknowledge(WORLD, name, Seq(seq)).checked()


def told(world: World) -> dict[str, tuple[int, int, bool]]:
    found = world.paper.ask(ListConsumers(WORLD))
    return {each.name: (each.seq, each.lag, each.required) for each in found}


def refuses(world: World, request, kind) -> None:
    """Ask, be refused with this very kind, and find every record as it was."""
    before = dict(world.paper.stored)
    with pytest.raises(kind) as raised:
        world.paper.ask(request)
    assert type(raised.value) is kind
    assert world.paper.stored == before


def test_a_consumer_begins_at_the_beginning_and_is_told_of_with_the_world():
    world = World()
    world.admit(due())

    world.paper.ask(setting())
    world.paper.ask(acknowledging(2))

    info = world.paper.ask(Describe(WORLD, with_consumers=True))
    assert told(world) == {"hook": (2, 1, False)}
    assert [(each.name, each.seq, each.lag) for each in info.consumers] == [("hook", 2, 1)]
    assert world.info().consumers == ()


def test_registering_is_written_in_the_log_with_who_asked_and_again_changes_nothing():
    world = World()
    ann = Caller("ann", "gateway")

    world.paper.ask(setting(required=True, by=ann))
    before = dict(world.paper.stored)
    world.paper.ask(setting(required=True, by=ann))

    entry = world.paper.held_under("log/")[-1]
    assert entry.kind == "configured"
    assert entry.facts == {
        "consumer": "hook",
        "required": True,
        "actor": "ann",
        "origin": "gateway",
    }
    assert world.paper.stored == before


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", InvalidId),
        ("a/b", InvalidId),
        ("x" * (limits.CONSUMER_NAME_BYTES_MAX + 1), InvalidId),
        ("x" * limits.CONSUMER_NAME_BYTES_MAX, None),
    ],
)
def test_a_name_that_no_key_can_hold_is_refused(name, kind):
    if kind is None:
        assert setting(name).name == name
        return
    for asking in (lambda: setting(name), lambda: acknowledging(1, name)):
        with pytest.raises(kind):
            asking()


@pytest.mark.parametrize("own", sorted(OWN))
def test_the_storages_own_consumers_can_be_required_but_neither_moved_nor_removed(own):
    world = World()

    world.paper.ask(setting(own, required=True))

    assert world.paper.held(required_key(WORLD.partition)).names == (own,)
    assert world.paper.held(consumer_key(WORLD.partition, own)) is None
    for asking in (
        lambda: acknowledging(1, own),
        lambda: RemoveConsumer(WORLD, own).checked(),
    ):
        with pytest.raises(Invalid):
            asking()


def test_a_watermark_writes_its_own_record_alone_and_conditions_nothing_else():
    world = World()
    world.paper.ask(setting())

    view, decision = world.paper.decided(acknowledging(2))

    key = consumer_key(WORLD.partition, "hook")
    assert [write.key for write in decision.writes] == [key]
    assert list(view.named) == [key]


@pytest.mark.parametrize(
    ("seq", "verdict"),
    [(0, Conflict), (1, Conflict), (2, "same"), (3, "moved"), (4, OutOfRange)],
)
def test_a_watermark_only_rises_and_never_beyond_the_log(seq, verdict):
    world = World()
    world.paper.ask(setting())
    world.admit(due())
    world.paper.ask(acknowledging(2))
    assert world.head.seq == 3

    if isinstance(verdict, str):
        _, decision = world.paper.decided(acknowledging(seq))
        assert (decision.reply.seq, len(decision.writes)) == (seq, int(verdict == "moved"))
    else:
        refuses(world, acknowledging(seq), verdict)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (setting(), NotFound),
        (acknowledging(0), NotFound),
        (RemoveConsumer(WORLD, "hook"), NotFound),
        (ListConsumers(WORLD), NotFound),
        (CheckConsumers(WORLD), NotFound),
    ],
)
def test_a_world_that_is_not_there_has_no_consumers(request_, kind):
    world = World()

    refuses(world, replace(request_, ref=NOWHERE), kind)


def test_who_never_registered_cannot_acknowledge():
    refuses(World(), acknowledging(1), NotFound)


@pytest.mark.parametrize(
    ("status", "kind"), [("closing", WorldClosing), ("destroyed", WorldDestroyed)]
)
def test_a_world_at_its_end_takes_no_new_consumer_but_is_still_read(status, kind):
    world = World()
    world.paper.ask(setting())
    world.change(lambda head: replace(head, status=status))

    refuses(world, setting("late"), kind)
    world.paper.ask(acknowledging(2))

    assert told(world) == {"hook": (2, 0, False)}


def test_a_closing_world_can_be_freed_of_who_holds_it():
    world = World()
    world.paper.ask(setting(required=True))
    world.change(lambda head: replace(head, status="closing"))

    world.paper.ask(RemoveConsumer(WORLD, "hook").checked())

    assert (world.head.required, told(world)) == (0, {})
    assert world.paper.held(required_key(WORLD.partition)) is None


@pytest.mark.parametrize("name", ["hook", "audit", "landing"])
def test_a_closing_world_can_be_told_to_wait_no_longer_and_for_nobody_new(name):
    world = World()
    world.paper.ask(setting(name, required=True))
    world.change(lambda head: replace(head, status="closing"))
    refuses(world, setting(name, required=True), WorldClosing)
    refuses(world, setting("late", required=True), WorldClosing)

    world.paper.ask(setting(name))

    assert world.head.required == 0
    refuses(world, setting(name), WorldClosing)


def test_removing_what_is_not_there_changes_nothing():
    world = World()

    _, decision = world.paper.decided(RemoveConsumer(WORLD, "hook").checked())

    assert decision.writes == ()


def test_one_more_required_consumer_than_a_tick_can_look_at_is_refused():
    world = World()
    for number in range(limits.REQUIRED_CONSUMERS_MAX):
        world.paper.ask(setting(f"c{number}", required=True))

    refuses(world, setting("more", required=True), TooLarge)
    world.paper.ask(setting("more"))
    refuses(world, setting("more", required=True), TooLarge)

    assert world.head.required == limits.REQUIRED_CONSUMERS_MAX


def test_one_more_consumer_than_a_world_may_have_is_refused():
    world = World()
    for number in range(limits.CONSUMERS_MAX):
        world.paper.ask(setting(f"c{number}"))

    refuses(world, setting("more"), TooLarge)


# ---------------------------------------------------------------- the world that waits


def waiting() -> World:
    """A world with one published tick that its required consumer has not read."""
    world = World()
    world.paper.ask(setting(required=True))
    world.tick()
    return world


def test_the_first_tick_waits_for_nobody_and_the_second_for_the_required():
    world = waiting()
    seq = world.paper.held(manifest_key(WORLD.partition, Tick(0))).seq

    with pytest.raises(ConsumerBehind):
        world.take()
    world.paper.ask(acknowledging(seq - 1))
    with pytest.raises(ConsumerBehind):
        world.take()
    world.paper.ask(acknowledging(seq))
    world.tick()

    assert world.head.published == 1


def test_a_world_held_back_keeps_its_fence_and_epoch_untouched():
    world = waiting()
    before = dict(world.paper.stored)

    with pytest.raises(ConsumerBehind):
        world.take("bob")

    assert world.paper.stored == before


def test_who_holds_the_fence_already_cannot_publish_past_a_required_consumer():
    world = World()
    world.tick()
    grip = world.take()
    drained = world.drain()
    world.paper.ask(setting(required=True))

    refuses(world, world.publishing(drained, grip), ConsumerBehind)
    refuses(world, CheckConsumers(WORLD), ConsumerBehind)

    world.paper.ask(acknowledging(world.head.seq))
    world.paper.ask(world.publishing(drained, grip))
    assert world.head.published == 1


def test_a_consumer_made_required_between_decision_and_commit_holds_the_tick():
    world = World()
    world.tick()
    grip = world.take()
    publish = world.publishing(world.drain(), grip)

    with pytest.raises(ConsumerBehind):
        world.paper.ask(publish, rival=lambda: world.paper.ask(setting(required=True)))

    assert world.head.published == 0


@pytest.mark.parametrize(
    "let_go",
    [setting(required=False), RemoveConsumer(WORLD, "hook")],
    ids=["made optional", "removed"],
)
def test_who_is_required_no_longer_is_not_waited_for(let_go):
    world = waiting()

    world.paper.ask(let_go)
    world.tick()

    assert (world.head.required, world.head.published) == (0, 1)


def test_a_fork_waits_for_nobody_before_its_first_own_tick():
    world = World()
    world.paper.ask(setting(required=True))
    record = world.paper.held(world_key(WORLD))
    parent = Ancestor(world=WorldId("parent"), run=RunId("run"), up_to=Tick(7))
    world.paper.put(replace(record, lineage=(parent,)))
    world.change(lambda head: replace(head, published=Tick(7)))

    world.take()

    assert world.head.fence.epoch == 1


def test_a_manifest_that_is_not_visible_yet_lets_nobody_pass():
    world = waiting()
    del world.paper.stored[manifest_key(WORLD.partition, Tick(0))]

    refuses(world, CheckConsumers(WORLD), Contended)


def test_landing_lags_by_ticks_it_has_not_landed_and_by_nothing_else():
    world = World()
    world.tick()
    world.admit(due())
    landing = Consumer(partition=WORLD.partition, name="landing", seq=Seq(2), tick=Tick(0))

    world.paper.put(landing)
    rested = told(world)
    world.tick()

    assert (rested, told(world)) == ({"landing": (2, 0, False)}, {"landing": (2, 2, False)})


def test_a_world_without_required_consumers_reads_nothing_more():
    world = World()
    world.tick()

    _, taken = world.paper.decided(CheckConsumers(WORLD))

    assert (world.paper.loads, taken.writes) == (1, ())
