"""A commit that shows in part is never taken for a damage, and a damage never for such a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.harness import Clock, Place, no_pause
from tests.support.forking import Rig, drifting_app, wish
from tests.support.half_shown import HalfShown

from perdure import Spawn
from perdure.kernel.audit import FindAudited
from perdure.kernel.capabilities import Configure, FindCapabilities
from perdure.kernel.consumers import Acknowledge, SetConsumer
from perdure.kernel.create import Describe
from perdure.kernel.errors import Corrupt, CorruptLineage, NotFound, OutOfRange
from perdure.kernel.fork_source import FindSource
from perdure.kernel.forked import forked_key
from perdure.kernel.ids import Holder, Seq, Tick, Token, WorldId
from perdure.kernel.landing import (
    FinishIntent,
    IntentPart,
    OpenIntent,
    TakeLandingFence,
    intent_key,
    landing_head_key,
)
from perdure.kernel.limits import LOAD_KEYS_MAX
from perdure.kernel.lineage import FindAncestors
from perdure.kernel.log import log_key
from perdure.kernel.logfeed import LogFeed
from perdure.kernel.places import landing_partition
from perdure.kernel.reading import FindManifests, FindWorld
from perdure.kernel.records import batch_key, head_key, manifest_key, world_key
from perdure.kernel.trim import RecordArchive, RemoveArchived, archive_key, trim_key
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.fork import fork

pytestmark = pytest.mark.lifecycle

LEASE = 60_000
BATCH = Token("batch")


@pytest.fixture
def h(tmp_path: Any) -> Iterator[Rig]:
    """A world with three published ticks, on a store that can be told what not to show yet."""
    catalog = open_local(tmp_path / "lake")
    rig = Rig(
        HalfShown(),
        LocalObjects(tmp_path / "objects"),
        drifting_app(),
        Clock(),
        Lake(catalog, "main"),
    )
    asyncio.run(rig.harbour())
    yield rig
    catalog.close()


def manifest(h: Rig, tick: int, world: str = "w") -> Any:
    return manifest_key(h.worlds.ref(world).partition, Tick(tick))


def entry(h: Rig, seq: int, world: str = "w") -> Any:
    return log_key(h.worlds.ref(world).partition, Seq(seq))


@pytest.mark.parametrize("hidden", [[2], [0], [0, 1, 2]])
async def test_a_manifest_that_does_not_show_yet_is_read(h, hidden):
    h.store.hide(*(manifest(h, tick) for tick in hidden))
    find = FindManifests(h.worlds.ref("w").partition, Tick(0), Tick(2))

    found = await h.authority.execute(find)

    assert [each.tick for each in found] == [0, 1, 2]
    assert h.store.looks


async def test_more_manifests_than_one_snapshot_takes_may_be_lost(h):
    await h.run("w", LOAD_KEYS_MAX)
    h.store.lose(*(manifest(h, tick) for tick in range(LOAD_KEYS_MAX + 1)))
    find = FindManifests(h.worlds.ref("w").partition, Tick(0), Tick(LOAD_KEYS_MAX))

    with pytest.raises(Corrupt, match="tick 0 "):
        await h.authority.execute(find)


@pytest.mark.parametrize("lost", [0, 2])
async def test_a_manifest_that_is_lost_is_a_damage(h, lost):
    h.store.lose(manifest(h, lost))
    h.store.hide(manifest(h, 1))

    with pytest.raises(Corrupt, match=f"tick {lost} "):
        await h.authority.execute(FindManifests(h.worlds.ref("w").partition, Tick(0), Tick(2)))


async def test_rows_land_and_are_read_beside_the_commit_that_publishes_them(h):
    h.store.hide(manifest(h, 2))

    landed = await h.land("w")

    assert (landed.ticks, landed.failed) == (3, ())
    assert [x for _, x in await h.rows("w", 2)] == [3, 4, 5]


async def test_a_world_whose_manifest_is_lost_lands_nothing_and_is_named(h):
    h.store.lose(manifest(h, 2))

    landed = await h.land("w")

    ((world, error),) = landed.failed
    assert (world, error.code, landed.rows) == ("w", "corrupt", 0)


LOOKS_AT_A_WORLD = [
    FindWorld,
    FindAudited,
    FindCapabilities,
    FindSource,
    Describe,
]


@pytest.mark.parametrize("hidden", ["world", "head"])
@pytest.mark.parametrize("look", LOOKS_AT_A_WORLD, ids=range(5))
async def test_a_world_of_which_one_record_shows_is_found(h, look, hidden):
    ref = h.worlds.ref("w")
    h.store.hide(world_key(ref) if hidden == "world" else head_key(ref.partition))

    await h.authority.execute(look(ref))

    assert h.store.looks


@pytest.mark.parametrize("look", LOOKS_AT_A_WORLD, ids=range(5))
async def test_a_world_of_which_nothing_shows_is_not_there_and_costs_one_look(h, look):
    loads = h.store.loads

    with pytest.raises(NotFound):
        await h.authority.execute(look(h.worlds.ref("v")))

    assert h.store.loads == loads + 1


@pytest.mark.parametrize("lost", ["world", "head"])
async def test_a_world_of_which_one_record_is_lost_is_not_found(h, lost):
    ref = h.worlds.ref("w")
    h.store.lose(world_key(ref) if lost == "world" else head_key(ref.partition))

    with pytest.raises(NotFound):
        await h.authority.execute(FindWorld(ref))


async def test_a_choice_is_made_for_a_world_whose_record_does_not_show_yet(h):
    ref = h.worlds.ref("w")
    h.store.hide(world_key(ref))

    chosen = await h.authority.execute(Configure(ref, "hook", "remove", "a", "", ("a", "b")))

    assert chosen.configured == 1


async def test_a_fork_is_known_while_its_birth_shows_in_part(h):
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    child = h.worlds.ref("child")
    h.store.hide(forked_key(child.partition), world_key(child))

    status = await h.worlds.command("child", "late")

    assert status.status == "pending"
    assert h.store.looks


async def test_a_fork_that_has_lost_its_first_entry_is_a_damage(h):
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    h.store.lose(forked_key(h.worlds.ref("child").partition))

    with pytest.raises(CorruptLineage):
        await h.worlds.command("child", "late")


async def test_what_a_source_had_settled_is_known_in_its_fork_before_the_manifest_shows(h):
    await h.worlds.submit("w", [Spawn(Place(x=9, y=9), command_id="now")])
    await h.run("w", 3)
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    h.store.hide(manifest(h, 3))

    state = await h.state("now", "child")

    assert state == "applied"


async def test_a_lost_manifest_tells_no_command_that_it_was_cancelled(h):
    await h.worlds.submit("w", [Spawn(Place(x=9, y=9), command_id="now")])
    await h.run("w", 3)
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    h.store.lose(manifest(h, 3))

    with pytest.raises(Corrupt):
        await h.state("now", "child")


async def test_ancestors_are_found_whatever_shows_of_them(h):
    await fork(h.authority, wish("w", "child"), pause=no_pause)
    state = await h.authority.execute(FindWorld(h.worlds.ref("child")))
    h.store.hide(world_key(h.worlds.ref("w")))

    (found,) = await h.authority.execute(FindAncestors(state.world, state.published))

    assert found.world.world == "w"


async def test_a_command_is_told_while_its_admission_shows_in_part(h):
    ref = h.worlds.ref("w")
    held = h.held(batch_key(ref.partition, "ships"))
    h.store.hide(entry(h, held.seq))

    assert await h.state("ships.0", "w") == "applied"


async def test_a_command_whose_log_entry_is_lost_is_a_damage(h):
    held = h.held(batch_key(h.worlds.ref("w").partition, "ships"))
    h.store.lose(entry(h, held.seq))

    with pytest.raises(Corrupt):
        await h.state("ships.0", "w")


async def test_a_ledger_tells_what_a_manifest_says_that_does_not_show_yet(h):
    h.store.hide(manifest(h, 0), manifest(h, 2))

    commands, _ = await h.worlds.commands("w")

    assert [each.status for each in commands[:3]] == ["applied"] * 3
    assert h.store.looks


async def test_a_consumer_may_say_that_it_has_read_an_entry_that_shows_before_its_head(h):
    ref = h.worlds.ref("w")
    await h.authority.execute(SetConsumer(ref, "mail", required=False))
    h.store.hold(head_key(ref.partition))
    await h.worlds.submit("w", [Spawn(Place(x=1, y=1))])
    last = h.held(head_key(ref.partition)).seq
    assert (await h.worlds.log("w", last - 1))[0].seq == last

    told = await h.authority.execute(Acknowledge(ref, "mail", last))

    assert told.seq == last


async def test_no_consumer_has_read_beyond_the_log(h):
    ref = h.worlds.ref("w")
    await h.authority.execute(SetConsumer(ref, "mail", required=False))
    last = h.held(head_key(ref.partition)).seq

    with pytest.raises(OutOfRange):
        await h.authority.execute(Acknowledge(ref, "mail", Seq(last + 1)))


async def test_a_log_read_to_its_head_shows_what_a_feed_waits_for(h):
    ref = h.worlds.ref("w")
    h.store.hide(entry(h, 2))

    feed = await h.authority.execute(LogFeed(ref, Seq(0), 100))
    read = await h.authority.execute(LogFeed(ref, Seq(1), 100, to_head=True))

    assert [each.seq for each in feed] == [1]
    assert read[0].seq == 2


async def test_a_log_that_has_lost_an_entry_is_not_read_to_its_head(h):
    h.store.lose(entry(h, 2))

    with pytest.raises(Corrupt, match="log entry 2 "):
        await h.authority.execute(LogFeed(h.worlds.ref("w"), Seq(1), 100, to_head=True))


async def opened(h: Rig) -> tuple[Any, Any]:
    """Open an intent, and return what finishes it and where the landing lies."""
    grip = await h.authority.execute(TakeLandingFence(h.storage, Holder("ann"), LEASE))
    part = IntentPart(world=WorldId("w"), first=0, last=2, seq=Seq(9))
    intent = await h.authority.execute(OpenIntent(h.storage, grip.epoch, LEASE, BATCH, (part,), ()))
    return FinishIntent(h.storage, grip.epoch, LEASE, intent), landing_partition(h.storage)


async def test_an_open_intent_that_does_not_show_yet_is_handed_on(h):
    finish, landing = await opened(h)
    h.store.hide(intent_key(landing, BATCH))
    h.clock.advance(LEASE + 1)

    grip = await h.rival_authority("b").execute(TakeLandingFence(h.storage, Holder("bob"), LEASE))

    assert grip.intent == finish.intent


async def test_an_open_intent_that_is_lost_is_a_damage_and_nothing_else_is_opened(h):
    _, landing = await opened(h)
    h.store.lose(intent_key(landing, BATCH))
    h.clock.advance(LEASE + 1)
    before = dict(h.store._records)

    with pytest.raises(Corrupt, match="intent batch"):
        await h.authority.execute(TakeLandingFence(h.storage, Holder("bob"), LEASE))

    assert h.store._records == before


async def test_an_intent_that_was_finished_is_finished_before_its_head_shows_that(h):
    finish, landing = await opened(h)
    h.store.hold(landing_head_key(landing))
    await h.authority.execute(finish)

    await h.rival_authority("b").execute(finish)

    assert h.store.looks


async def archived(h: Rig) -> Any:
    """Name an archive of the first two log entries."""
    ref = h.worlds.ref("w")
    await h.authority.execute(RecordArchive(ref, Seq(1), Seq(2), "archive/x", "sha"))
    return ref


async def test_no_log_entry_leaves_before_its_archive_shows(h):
    ref = await archived(h)
    key = archive_key(ref.partition, Seq(2))
    h.store.hide(key)

    trim = await h.authority.execute(RemoveArchived(ref))

    assert trim.removed_through == 2
    assert h.held(entry(h, 1)) is None
    assert h.store.looks


async def test_no_log_entry_leaves_whose_archive_is_lost(h):
    ref = await archived(h)
    h.store.lose(archive_key(ref.partition, Seq(2)))

    with pytest.raises(Corrupt, match="archive of log entry 1 "):
        await h.authority.execute(RemoveArchived(ref))

    assert h.held(entry(h, 1)) is not None
    assert h.held(trim_key(ref.partition)).removed_through == 0
