"""Migration as the kernel decides it: who may reserve, who is at rest, and what is carried how."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due

from perdure.kernel.carry import Carrier, ImportRaw, Raw, ReadRaw
from perdure.kernel.create import CreateWorld, Describe
from perdure.kernel.errors import (
    Conflict,
    NewerSchema,
    NotEmpty,
    NotQuiescent,
    PerdureError,
    WorldMoved,
    WorldMoving,
)
from perdure.kernel.fence import TakeFence
from perdure.kernel.floor import EnterCatalog, Floor
from perdure.kernel.ids import Holder, RunId, Seq, StorageId, Tick, WorldId
from perdure.kernel.landing import CONSUMER, landing_head_key
from perdure.kernel.migration import (
    ActivateWorld,
    Advance,
    FindMigration,
    FreeWorld,
    PartWorld,
    Release,
    Reserve,
    StillWorld,
)
from perdure.kernel.places import WorldRef, landing_partition
from perdure.kernel.private import Retire
from perdure.kernel.records import Fence, head_key, name_key, world_key
from perdure.kernel.upkeep import Consumer, Schedule

pytestmark = pytest.mark.lifecycle

HERE = WORLD.storage
THERE = StorageId("elsewhere")
ENDS = {"from": "a", "to": "b"}


@pytest.fixture
def world():
    return World()


def reserve(world, role="source", migration="m", storage=HERE, **ends):
    return world.paper.ask(Reserve(storage, migration, role, ENDS | ends))


def unchanged(world, request, error):
    """Check that a request is refused and changes nothing."""
    before = dict(world.paper.stored)
    with pytest.raises(error) as refused:
        world.paper.ask(request)
    assert world.paper.stored == before
    return refused.value


@pytest.mark.parametrize(
    ("state", "error"), [("staged", WorldMoving), ("moving", WorldMoving), ("moved", WorldMoved)]
)
def test_storage_that_is_not_open_takes_no_world(world, state, error):
    world.paper.put(Floor(partition=WORLD.catalog, state=state, migration="m"))
    another = CreateWorld(WorldRef(HERE, WorldId("another")), "another", RunId("r"))

    unchanged(world, another, error)

    same = CreateWorld(WORLD, "harbour", RunId("other"))
    assert world.paper.ask(same).world_id == WORLD.world


def test_storage_of_a_newer_version_takes_no_world_and_is_not_entered(world):
    world.paper.put(Floor(partition=WORLD.catalog, features=("cubes",)))

    for request in (
        CreateWorld(WorldRef(HERE, WorldId("another")), "another", RunId("r")),
        EnterCatalog(HERE),
        Reserve(HERE, "m", "source", ENDS),
    ):
        assert "cubes" in str(unchanged(world, request, NewerSchema))


def test_only_a_storage_that_is_being_filled_is_closed_to_readers(world):
    world.paper.ask(EnterCatalog(HERE))
    for state in ("moving", "moved"):
        world.paper.put(Floor(partition=WORLD.catalog, state=state, migration="m"))
        world.paper.ask(EnterCatalog(HERE))

    world.paper.put(Floor(partition=WORLD.catalog, state="staged", migration="m"))

    unchanged(world, EnterCatalog(HERE), WorldMoving)


def test_reservation_is_one_migrations_and_repeats_itself(world):
    first = reserve(world)

    assert reserve(world) == first
    unchanged(world, Reserve(HERE, "rival", "source", ENDS), Conflict)
    unchanged(world, Reserve(HERE, "m", "source", {**ENDS, "to": "c"}), Conflict)


def test_destination_with_a_world_is_not_reserved(world):
    unchanged(world, Reserve(HERE, "m", "destination", ENDS), NotEmpty)


def test_release_undoes_a_reservation_until_the_copy_is_verified(world):
    reserve(world, "destination", storage=THERE)
    world.paper.ask(Release(THERE, "m", ENDS))
    assert world.paper.ask(FindMigration(THERE, "m")) is None
    reserve(world, "destination", storage=THERE)
    world.paper.ask(Advance(THERE, "m", "verified"))

    unchanged(world, Release(THERE, "m", ENDS), Conflict)


def test_release_needs_the_ends_that_were_reserved(world):
    reserve(world)

    unchanged(world, Release(HERE, "m", {**ENDS, "to": "c"}), Conflict)


def test_stage_that_was_passed_stays_passed(world):
    reserve(world, "destination", storage=THERE)
    further = world.paper.ask(Advance(THERE, "m", "tables"))

    assert world.paper.ask(Advance(THERE, "m", "objects")) == further
    unchanged(world, Advance(THERE, "unknown", "objects"), Conflict)


def test_whoever_slept_while_a_migration_was_given_up_does_not_take_the_next_of_its_id_on(world):
    reserve(world, "destination", storage=THERE)
    world.paper.ask(Advance(THERE, "m", "tables"))
    world.paper.ask(Release(THERE, "m", ENDS))
    reserve(world, "destination", storage=THERE)

    unchanged(world, Advance(THERE, "m", "verified", behind="tables"), Conflict)


def test_activation_opens_the_destination_and_marks_the_source_moved(world):
    reserve(world)
    reserve(world, "destination", storage=THERE)

    for storage in (HERE, THERE):
        world.paper.ask(Advance(storage, "m", "activated"))

    assert [floor.state for floor in world.paper.held_under("floor")] == ["moved", "open"]


# --- at rest ----------------------------------------------------------------------------------


def landed(world, tick):
    mark = Consumer(partition=WORLD.partition, name=CONSUMER, seq=Seq(1), tick=Tick(tick))
    world.paper.put(mark)


def closing(world):
    world.change(lambda head: replace(head, status="closing"))


def private(world):
    world.change(lambda head: replace(head, writer_mode="cleanup_only"))


def waiting(world):
    world.admit(due(tick=7))


def held(world):
    world.take()


def ahead(world):
    world.ticks(2)
    landed(world, 0)


@pytest.mark.parametrize(
    ("unrest", "why"),
    [
        (closing, "closing"),
        (private, "private"),
        (waiting, "1 open commands"),
        (held, "held by a writer"),
        (ahead, "landed up to 0"),
    ],
)
def test_world_that_is_not_at_rest_is_not_stilled(world, unrest, why):
    unrest(world)
    reserve(world)

    refused = unchanged(world, StillWorld(WORLD, "m"), NotQuiescent)

    assert why in str(refused)
    assert WORLD.world in str(refused)


def test_world_is_stilled_freed_and_parted_each_once(world):
    reserve(world)

    for _ in range(2):
        world.paper.ask(StillWorld(WORLD, "m"))
    unchanged(world, FreeWorld(WORLD, "rival"), Conflict)
    world.paper.ask(Release(HERE, "m", ENDS))
    for _ in range(2):
        world.paper.ask(FreeWorld(WORLD, "m"))
    reserve(world)
    world.paper.ask(StillWorld(WORLD, "m"))
    for _ in range(2):
        world.paper.ask(PartWorld(WORLD, "m", "b"))

    kinds = [entry.kind for entry in world.paper.held_under("log/")]
    assert kinds == ["created", "moving", "stayed", "moving", "moved"]
    assert world.info().status == "moved"
    with pytest.raises(WorldMoved):
        world.take()


def test_writer_that_died_long_ago_does_not_hold_a_world_back(world):
    world.take(lease_ms=1)
    world.paper.now += 1
    reserve(world)

    head = world.paper.ask(StillWorld(WORLD, "m"))

    assert (head.status, head.fence) == ("moving", Fence(epoch=1))


def test_mover_that_was_given_up_stills_nothing_any_more(world):
    reserve(world)
    world.paper.ask(Release(HERE, "m", ENDS))

    unchanged(world, StillWorld(WORLD, "m"), Conflict)


CARRIER = Carrier(HERE, THERE)
ELSEWHERE = WorldRef(THERE, WORLD.world)


def imported(*records):
    return ImportRaw(THERE, "m", ELSEWHERE.partition, records)


def test_import_writes_once_and_only_what_lacks(world):
    reserve(world, "destination", storage=THERE)
    records = tuple(
        Raw(partition=ELSEWHERE.partition, sort=f"key/{n}", spelled=b"{}") for n in range(3)
    )
    world.paper.ask(imported(records[0]))
    before = world.paper.stored[records[0].key]

    world.paper.ask(imported(*records))

    assert world.paper.stored[records[0].key] == before
    assert len(world.paper.held_under("key/")) == 3
    unchanged(world, imported(replace(records[0], spelled=b"[]")), Conflict)


@pytest.mark.parametrize("stage", ["verified", "activated", "complete"])
def test_mover_who_slept_imports_nothing_into_what_lives_or_soon_will(world, stage):
    reserve(world, "destination", storage=THERE)
    world.paper.ask(Advance(THERE, "m", stage))

    late = Raw(partition=ELSEWHERE.partition, sort="due/1", spelled=b"[]")

    unchanged(world, imported(late), Conflict)


# --- activated --------------------------------------------------------------------------------


def carried_over(world):
    """Carry the world's records by hand, and return its identity."""
    reserve(world)
    reserve(world, "destination", storage=THERE)
    world.paper.ask(StillWorld(WORLD, "m"))
    records = [CARRIER.carried(record) for record in world.paper.ask(ReadRaw(WORLD.partition))]
    world.paper.ask(imported(*records))
    return world.paper.held(world_key(WORLD))


def test_world_appears_at_once_with_its_status_and_a_wake(world):
    world.tick()
    landed(world, 0)
    epoch = world.head.fence.epoch
    world.paper.put(Schedule(partition=WORLD.partition, every_ms=1_000, next_at=1_000_005))
    identity = carried_over(world)
    with pytest.raises(PerdureError):
        world.paper.ask(Describe(ELSEWHERE))

    world.paper.ask(ActivateWorld(ELSEWHERE, identity))

    info = world.paper.ask(Describe(ELSEWHERE))
    grip = world.paper.ask(TakeFence(ELSEWHERE, Holder("bob"), 1_000))
    assert (info.status, info.name, info.run_id) == ("active", "harbour", "run")
    assert grip.epoch > epoch
    assert grip.head.wake_at == 1_000_005
    assert [hint.storage for hint in world.paper.held_under("0") if hint.storage == THERE]


def test_activation_repeated_changes_nothing_even_after_the_world_went_on(world):
    identity = carried_over(world)
    world.paper.ask(ActivateWorld(ELSEWHERE, identity))
    world.paper.ask(TakeFence(ELSEWHERE, Holder("bob"), 1_000))
    before = dict(world.paper.stored)

    world.paper.ask(ActivateWorld(ELSEWHERE, identity))

    assert world.paper.stored == before


def test_activation_meets_no_other_world_of_that_id_or_name(world):
    identity = carried_over(world)
    world.paper.ask(ActivateWorld(ELSEWHERE, identity))

    unchanged(world, ActivateWorld(ELSEWHERE, replace(identity, kind="other")), Conflict)
    other = WorldRef(THERE, WorldId("other"))
    world.paper.put(replace(world.head, partition=other.partition))
    unchanged(world, ActivateWorld(other, replace(identity, world=other.world)), Conflict)


@pytest.mark.parametrize("comes_first", [True, False])
def test_tombstone_claims_no_name_there_either(world, comes_first):
    tomb = WorldRef(HERE, WorldId("tomb"))
    world.paper.ask(Retire(tomb, "harbour", RunId("lost")))
    identity, lost = carried_over(world), world.paper.held(world_key(tomb))
    records = [CARRIER.carried(record) for record in world.paper.ask(ReadRaw(tomb.partition))]
    world.paper.ask(imported(*records))
    there = WorldRef(THERE, tomb.world)
    requests = [ActivateWorld(ELSEWHERE, identity), ActivateWorld(there, lost)]

    for request in reversed(requests) if comes_first else requests:
        world.paper.ask(request)

    assert world.paper.ask(Describe(there)).status == "destroyed"
    assert world.paper.held(name_key(ELSEWHERE.catalog, "harbour")).world == WORLD.world


def test_destroyed_world_stays_destroyed(world):
    world.change(lambda head: replace(head, status="destroyed"))
    identity = carried_over(world)

    world.paper.ask(ActivateWorld(ELSEWHERE, identity))

    assert world.paper.ask(Describe(ELSEWHERE)).status == "destroyed"
    assert world.paper.held(head_key(WORLD.partition)).status == "destroyed"
    assert world.paper.held(landing_head_key(landing_partition(HERE))) is None
