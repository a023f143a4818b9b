"""Private worlds: held from the commit that makes them, written by one, retired for good."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.paper import Paper
from tests.support.worldly import WORLD, World, due, later

from perdure.kernel.cancel import Cancel, CancelAll
from perdure.kernel.capabilities import Configure
from perdure.kernel.consumers import SetConsumer
from perdure.kernel.create import CreateWorld
from perdure.kernel.destroy import BeginClosing
from perdure.kernel.errors import (
    Contended,
    FenceHeld,
    Invalid,
    InvalidId,
    NotPermitted,
    NotResumable,
    UnknownWriterMode,
    WorldDestroyed,
)
from perdure.kernel.fence import ReleaseFence, TakeFence
from perdure.kernel.ids import CommandId, Holder, RunId
from perdure.kernel.landing import AUDIT
from perdure.kernel.listing import SHOWS, is_shown
from perdure.kernel.private import Retire
from perdure.kernel.records import World as Identity
from perdure.kernel.records import head_key, world_key
from perdure.kernel.rest import ReadAgenda, Rest
from perdure.kernel.upkeep import Consumer

pytestmark = pytest.mark.lifecycle

LEASE = 60_000
CREATION = CreateWorld(
    WORLD,
    "evidence",
    RunId("run"),
    writer_mode="cleanup_only",
    holder=Holder("ann"),
    lease_ms=LEASE,
)
RETIRE = Retire(WORLD, "evidence", RunId("run"))


class Private(World):
    """A private world on paper."""

    def __post_init__(self):
        self.paper.ask(CREATION.checked())

    @property
    def hints(self):
        return self.paper.held_under("0")


def test_its_fence_is_held_in_the_very_commit_that_makes_it():
    paper = Paper()

    info = paper.ask(CREATION)

    head = paper.held(head_key(WORLD.partition))
    assert (info.status, info.writer_mode, info.epoch) == ("active", "cleanup_only", 1)
    assert (head.fence.holder, head.fence.until) == ("ann", paper.now + LEASE)
    assert info.fence_held_until == paper.now + LEASE


def test_creating_it_again_is_answered_to_its_holder_only():
    world = Private()
    before = dict(world.paper.stored)

    again = world.paper.ask(CREATION)
    for other in (replace(CREATION, holder=Holder("bob")), replace(CREATION, holder=None)):
        with pytest.raises(NotResumable):
            world.paper.ask(other)

    assert again.run_id == "run"
    assert world.paper.stored == before


@pytest.mark.parametrize("late", [0, LEASE - 1, LEASE, 100 * LEASE])
def test_nobody_else_ever_takes_its_fence(late):
    world = Private()
    later(world, late)
    before = dict(world.paper.stored)

    with pytest.raises(NotResumable):
        world.take("bob")

    assert world.paper.stored == before
    assert world.take("ann").epoch == 1


def test_its_holder_keeps_the_fence_after_a_tick_and_cannot_let_go():
    world = Private()
    grip = world.take("ann")
    later(world, 1_000)

    world.paper.ask(world.publishing(world.drain(), grip))
    world.paper.ask(ReleaseFence(WORLD, grip.epoch))

    assert (world.head.fence.holder, world.head.fence.epoch) == ("ann", 1)


def test_its_holder_keeps_it_while_a_required_consumer_is_behind():
    world = Private()
    world.paper.ask(SetConsumer(WORLD, "auditor", required=True, holder=Holder("ann")).checked())
    world.paper.ask(world.publishing(world.drain(), world.take("ann")))
    later(world, LEASE - 1)

    grip = world.take("ann")

    assert (grip.epoch, grip.until) == (1, world.paper.now + LEASE)
    assert world.paper.ask(ReadAgenda(WORLD)).abandoned is False


@pytest.mark.parametrize("holder", [None, "bob"])
def test_only_its_holder_cancels(holder):
    world = Private()
    admission = world.admission(due(), due(), batch="b")
    world.paper.ask(replace(admission, holder=Holder("ann")))
    before = dict(world.paper.stored)
    one = Cancel(WORLD, CommandId("b.0"), holder=holder and Holder(holder))
    every = CancelAll(WORLD, "all", holder=holder and Holder(holder))

    for request in (one, every):
        with pytest.raises(NotPermitted):
            world.paper.ask(request)

    assert world.paper.stored == before
    for request in (one, every):
        world.paper.ask(replace(request, holder=Holder("ann")))
    assert world.head.open_commands == 0


@pytest.mark.parametrize("holder", [None, "bob"])
def test_only_its_holder_admits(holder):
    world = Private()
    before = dict(world.paper.stored)

    with pytest.raises(NotPermitted):
        world.paper.ask(replace(world.admission(due()), holder=holder and Holder(holder)))

    assert world.paper.stored == before
    own = world.paper.ask(replace(world.admission(due()), holder=Holder("ann")))
    assert len(own.receipts()) == 1


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"holder": None}, InvalidId),
        ({"holder": Holder("x" * 37)}, InvalidId),
        ({"lease_ms": 0}, Invalid),
        ({"lease_ms": 900_001}, Invalid),
        ({"every_ms": 60_000}, Invalid),
        ({"writer_mode": "resumable"}, Invalid),
        ({"writer_mode": "shared"}, UnknownWriterMode),
    ],
    ids=range(7),
)
def test_a_malformed_creation_is_refused(change, refusal):
    with pytest.raises(refusal):
        replace(CREATION, **change).checked()


def test_a_mode_of_a_newer_version_is_read_and_refused_to_every_writer():
    world = World()
    world.admit(due(), batch="b")
    identity = world.paper.held(world_key(WORLD))
    world.paper.put(replace(identity, writer_mode="shared"))
    world.change(lambda head: replace(head, writer_mode="shared"))
    before = dict(world.paper.stored)

    requests = (
        TakeFence(WORLD, Holder("ann"), LEASE),
        world.admission(due()),
        Cancel(WORLD, CommandId("b.0")),
        CancelAll(WORLD, "all"),
        Configure(WORLD, "hook", "add", "log", app="", known=("log",)),
    )
    for request in requests:
        with pytest.raises(UnknownWriterMode):
            world.paper.ask(request)

    assert world.info().writer_mode == "shared"
    assert world.paper.stored == before


def test_its_lease_is_looked_at_when_it_ends_and_not_before():
    world = Private()
    first = [hint.at for hint in world.hints]
    later(world, LEASE // 2 + 1)
    renewed = world.take("ann").until

    later(world, LEASE // 2)
    alive = world.paper.ask(ReadAgenda(WORLD))
    world.paper.ask(Rest(WORLD, world.hints[0].sort))
    moved = [hint.at for hint in world.hints]
    later(world, LEASE)
    dead = world.paper.ask(ReadAgenda(WORLD))

    assert first == [world.head.fence.until - LEASE // 2 - 1]
    assert (alive.abandoned, moved, dead.abandoned) == (False, [renewed], True)


def test_a_hint_stays_until_an_abandoned_world_is_destroyed():
    world = Private()
    later(world, 2 * LEASE)

    world.paper.ask(Rest(WORLD, world.hints[0].sort))
    kept = len(world.hints)
    world.paper.ask(RETIRE)
    world.paper.put(Consumer(partition=WORLD.partition, name=AUDIT, seq=world.head.seq))
    later(world, 2 * LEASE)
    for hint in world.hints:
        world.paper.ask(Rest(WORLD, hint.sort))

    assert kept == 1
    assert world.hints == []


def test_a_sweeper_spares_a_world_whose_holder_came_back():
    world = Private()
    later(world, 2 * LEASE)
    sweep = BeginClosing(WORLD, Holder("sweeper"), LEASE, spares_held=True)

    with pytest.raises(FenceHeld):
        world.paper.ask(sweep, rival=lambda: world.take("ann"))

    assert world.head.status == "active"


def test_retiring_what_is_absent_leaves_a_tombstone_that_a_late_creation_finds():
    paper = Paper()

    retired = paper.ask(RETIRE)
    with pytest.raises(WorldDestroyed):
        paper.ask(CREATION)

    head = paper.held(head_key(WORLD.partition))
    assert (retired, head.status, head.fence.holder) == ("tombstone", "destroyed", None)
    assert isinstance(paper.held(world_key(WORLD)), Identity)
    assert paper.held_under("name/") == []
    assert [entry.kind for entry in paper.held_under("log/")] == ["destroyed"]


def test_a_creation_beside_a_retirement_loses_or_is_retired():
    first, second = Paper(), Paper()

    with pytest.raises(WorldDestroyed):
        first.ask(CREATION, rival=lambda: first.ask(RETIRE))
    won = second.ask(RETIRE, rival=lambda: second.ask(CREATION))

    assert won == "destroyed"
    for paper in (first, second):
        assert paper.held(head_key(WORLD.partition)).status == "destroyed"


def test_retiring_the_same_world_rejects_what_is_open_in_it():
    world = Private()
    world.paper.ask(replace(world.admission(due(), batch="b"), holder=Holder("ann")))

    retired = world.paper.ask(RETIRE)

    assert (retired, world.status("b.0").code) == ("destroyed", "world_destroyed")
    assert world.paper.held_under("log/")[-1].facts["rejected"] == 1


def test_retiring_twice_is_retiring_once():
    world = Private()
    world.paper.ask(RETIRE)
    before = dict(world.paper.stored)

    assert world.paper.ask(RETIRE) == "destroyed"
    assert world.paper.stored == before


@pytest.mark.parametrize(
    "other",
    [{"name": "other"}, {"run": RunId("other")}, {"kind": "port"}, {"app": "other"}],
    ids=["name", "run", "kind", "app"],
)
def test_another_world_of_that_id_is_not_touched(other):
    world = Private()
    before = dict(world.paper.stored)

    assert world.paper.ask(replace(RETIRE, **other)) == "untouched"
    assert world.paper.stored == before


def test_a_public_world_is_never_retired_so():
    world = World()
    before = dict(world.paper.stored)

    assert world.paper.ask(Retire(WORLD, "harbour", RunId("run"))) == "untouched"
    assert world.paper.stored == before


@pytest.mark.parametrize("hidden", [world_key(WORLD), head_key(WORLD.partition)])
def test_a_creation_seen_in_part_is_not_retired_yet(hidden):
    world = Private()
    del world.paper.stored[hidden]

    with pytest.raises(Contended):
        world.paper.ask(RETIRE)


@pytest.mark.parametrize(
    ("status", "mode", "shown"),
    [
        ("active", "resumable", {"public", "live", "all"}),
        ("moving", "resumable", {"public", "live", "all"}),
        ("closing", "resumable", {"all"}),
        ("destroyed", "resumable", {"public", "all"}),
        ("moved", "resumable", {"public", "all"}),
        ("active", "cleanup_only", {"all"}),
        ("closing", "cleanup_only", {"all"}),
        ("destroyed", "cleanup_only", {"public", "all"}),
        ("active", "shared", {"public", "all"}),
    ],
)
def test_lists_show_what_goes_on_and_what_is_history(status, mode, shown):
    info = replace(World().info(), status=status, writer_mode=mode)

    assert {show for show in SHOWS if is_shown(info, show)} == shown
