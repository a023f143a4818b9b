"""A whole storage moves: everything arrives, nothing twice, and the old place says where it went."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.emulator.harbour import Position, app
from tests.migrate.storages import SHIPS, filled, killed, opened, rows, tree

import perdure
from perdure.api.settings import local
from perdure.api.wiring import opened_authority
from perdure.api.wiring_migrate import given_up, migrated
from perdure.kernel.caller import LOCAL
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import (
    Conflict,
    InvalidId,
    NotEmpty,
    NotQuiescent,
    StoreUnavailable,
    WorldMoved,
    WorldMoving,
)
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder, Instant, WorldId
from perdure.kernel.migration import FreeWorld
from perdure.kernel.places import WAKE_SHARDS, WorldRef
from perdure.kernel.rest import Wakes
from perdure.lake.catalog import open_local

pytestmark = pytest.mark.lifecycle


def move(source, destination, migration="move", **options):
    return asyncio.run(migrated(local(source), local(destination), migration, **options))


class Stopped(BaseException):
    """Ends a migration at a step, as a death would."""


def stopping(at: str):
    """Return a progress that ends the migration when it comes to a step."""

    def tell(stage, done, total):
        if stage == at:
            raise Stopped

    return tell


async def told(root, world):
    async with opened(root) as storage:
        return await (await storage.world(world)).info()


def test_worlds_history_and_rows_arrive_as_they_were(source, tmp_path):
    destination = tmp_path / "destination"

    async def read(root):
        async with opened(root) as storage:
            harbour = await storage.world("harbour")
            log = [(entry.seq, entry.kind, entry.digest) for entry in await harbour.log()]
            return (
                log,
                await rows(storage, "harbour", "Position"),
                await rows(storage, "harbour", "Position", ticks=1),
                await rows(storage, "harbour", "Cargo", ticks=range(5)),
                (await harbour.command("ships.0")).status,
            )

    before = asyncio.run(read(source))

    receipt = move(source, destination)

    log, *rest = asyncio.run(read(destination))
    assert log[:-1] == before[0]
    assert log[-1][1] == "moving"
    assert rest == list(before[1:])
    assert receipt["tables"].keys() == {table for table in receipt["tables"] if table[:2] == "a_"}
    assert len(rest[0]) == SHIPS


def test_every_active_world_goes_on_under_a_higher_epoch(source, tmp_path):
    destination = tmp_path / "destination"
    epochs = {info.world_id: info.epoch for info in asyncio.run(listed(source))}

    move(source, destination)

    async def go_on():
        async with opened(destination) as storage:
            harbour = await storage.world("harbour")
            await harbour.submit([perdure.Spawn(Position(x=5.0, y=5.0))], batch_id="new")
            ran = await harbour.run(to_tick=6)
            await storage.land()
            info = await harbour.info()
            return ran.applied, info, len(await rows(storage, "harbour", "Position"))

    applied, info, ships = asyncio.run(go_on())
    assert (applied, info.published_tick, ships) == (1, 6, SHIPS + 1)
    assert info.epoch > epochs["harbour"]


async def listed(root):
    async with opened(root) as storage:
        return await storage.discover()


def test_command_ids_replay_at_the_destination_as_they_did_at_the_source(source, tmp_path):
    destination = tmp_path / "destination"
    ships = [perdure.Spawn(Position(x=n / 3, y=n / 7)) for n in range(SHIPS)]
    move(source, destination)

    async def again():
        async with opened(destination) as storage:
            return await (await storage.world("harbour")).submit(ships, batch_id="ships")

    replay = asyncio.run(again())

    assert replay.replayed
    assert [each.entity_id for each in replay.receipts] == list(range(1, SHIPS + 1))


def test_scheduled_world_is_found_by_its_wake_at_the_destination(source, tmp_path):
    destination = tmp_path / "destination"

    move(source, destination)

    assert asyncio.run(hinted(destination)) >= {"yard"}


async def hinted(root):

    async with opened_authority(local(root)) as authority:
        shards = [
            await authority.execute(Wakes(shard, Instant(10**14))) for shard in range(WAKE_SHARDS)
        ]
    return {hint.world for shard in shards for hint in shard}


def test_source_stays_readable_and_takes_nothing_more(source, tmp_path):
    move(source, tmp_path / "destination")

    async def visit():
        async with opened(source) as storage:
            harbour = await storage.world("harbour")
            ships = len(await rows(storage, "harbour", "Position"))
            with pytest.raises(WorldMoved):
                await harbour.submit([perdure.Spawn(Position(x=0.0, y=0.0))])
            with pytest.raises(WorldMoved):
                await harbour.run(to_tick=9)
            with pytest.raises(WorldMoved):
                await storage.create_world("another")
            last = (await harbour.log())[-1]
            return ships, (await harbour.info()).status, last.kind, last.facts["to"]

    ships, status, kind, to = asyncio.run(visit())
    assert (ships, status, kind) == (SHIPS, "moved", "moved")
    assert to == (tmp_path / "destination").as_uri()


def test_same_call_again_gives_the_same_receipt_and_changes_nothing(source, tmp_path):
    destination = tmp_path / "destination"
    receipt = move(source, destination)
    before = tree(source), tree(destination)

    again = move(source, destination)

    assert canonical(again) == canonical(receipt)
    assert (tree(source), tree(destination)) == before


def test_a_moved_storage_can_be_moved_on(source, tmp_path):
    move(source, tmp_path / "second", "one")

    receipt = move(tmp_path / "second", tmp_path / "third", "two")

    assert receipt["worlds"].keys() == {"harbour", "yard", "fresh"}
    assert receipt["worlds"]["harbour"]["epoch"] >= 3


@pytest.mark.parametrize("namespace", ["default", "team"])
def test_worlds_that_are_destroyed_or_private_and_other_namespaces_keep_what_they_are(
    source, tmp_path, namespace
):
    destination = local(tmp_path / "destination", namespace=namespace)

    asyncio.run(migrated(local(source), destination, "move"))

    async def found():
        uri = (tmp_path / "destination").as_uri()

        async with perdure.open(uri, app=app, namespace=namespace) as storage:
            return await rows(storage, "harbour", "Position")

    assert len(asyncio.run(found())) == SHIPS


# --- refusals ---------------------------------------------------------------------------------


async def with_open_command(root):
    async with opened(root) as storage:
        harbour = await storage.world("harbour")
        await harbour.submit([perdure.Spawn(Position(x=0.0, y=0.0))], tick=9)


async def with_unlanded_tick(root):
    async with opened(root) as storage:
        await (await storage.world("yard")).run(to_tick=1)


async def with_a_writer(root):

    async with opened_authority(local(root)) as authority:
        ref = WorldRef(local(root).storage, WorldId("fresh"))
        await authority.execute(TakeFence(ref, Holder("someone"), 600_000))


@pytest.mark.parametrize(
    ("unrest", "world", "why"),
    [
        (with_open_command, "harbour", "open commands"),
        (with_unlanded_tick, "yard", "landed up to 0"),
        (with_a_writer, "fresh", "held by a writer"),
    ],
)
def test_source_that_is_not_at_rest_is_refused_by_name_and_stays_as_it_was(
    source, tmp_path, unrest, world, why
):
    asyncio.run(unrest(source))
    before = tree(source)

    with pytest.raises(NotQuiescent, match=f"{world}.*{why}"):
        move(source, tmp_path / "destination")

    assert tree(source) == before
    assert not (tmp_path / "destination").exists()


def test_command_that_comes_in_while_worlds_are_stilled_frees_them_all(source, tmp_path):
    def tell(stage, done, total):
        if (stage, done) == ("stilling worlds", 1):
            with ThreadPoolExecutor() as pool:
                pool.submit(asyncio.run, with_open_command(source)).result()

    with pytest.raises(NotQuiescent, match="harbour"):
        move(source, tmp_path / "destination", progress=tell)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}
    assert asyncio.run(listed(tmp_path / "destination")) == []


def test_destination_with_a_world_is_refused_and_stays_as_it_was(source, tmp_path):
    destination = tmp_path / "destination"
    asyncio.run(made_with_a_world(destination))
    before = tree(source), tree(destination)

    with pytest.raises(NotEmpty, match="other"):
        move(source, destination)

    assert (tree(source), tree(destination)) == before


async def made_with_a_world(root):
    async with opened(root) as storage:
        await storage.create_world("other", world_id="other")


def test_destination_with_objects_of_somebody_is_refused(source, tmp_path):
    destination = tmp_path / "destination"
    (destination / "default" / "objects" / "segments").mkdir(parents=True)
    (destination / "default" / "objects" / "segments" / "one").write_bytes(b"x")

    with pytest.raises(NotEmpty):
        move(source, destination)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}


def test_storage_that_is_not_there_is_unavailable_and_nothing_is_made(tmp_path):
    with pytest.raises(StoreUnavailable):
        move(tmp_path / "nowhere", tmp_path / "destination")

    assert list(tmp_path.iterdir()) == []


def test_storage_is_not_moved_into_itself(source):
    with pytest.raises(Conflict):
        move(source, source)


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a" * 129, "a b"])
def test_migration_ids_of_another_form_are_refused(source, tmp_path, name):
    with pytest.raises(InvalidId):
        move(source, tmp_path / "destination", name)

    assert {info.status for info in asyncio.run(listed(source))} == {"active"}


def test_second_migration_is_refused_while_and_after_the_first_runs(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("copying records"))

    with pytest.raises(Conflict, match="move"):
        move(source, destination, "rival")
    with pytest.raises(Conflict, match="move"):
        move(source, tmp_path / "elsewhere", "rival")
    with pytest.raises(Conflict):
        move(source, tmp_path / "elsewhere", "move")

    move(source, destination)
    with pytest.raises(Conflict):
        move(source, tmp_path / "third", "rival")


# --- between the stages -----------------------------------------------------------------------


def test_nothing_is_seen_of_a_destination_before_it_is_whole(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("leaving the source"))
    shutil.rmtree(destination)
    shutil.rmtree(source)
    asyncio.run(filled(source))
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("activating worlds"))

    with pytest.raises(WorldMoving, match="migration move"):
        asyncio.run(listed(destination))


def test_stilled_source_is_read_and_takes_nothing(source, tmp_path):
    with pytest.raises(Stopped):
        move(source, tmp_path / "destination", progress=stopping("objects"))

    async def visit():
        async with opened(source) as storage:
            harbour = await storage.world("harbour")
            with pytest.raises(WorldMoving):
                await harbour.submit([perdure.Spawn(Position(x=0.0, y=0.0))])
            with pytest.raises(WorldMoving):
                await harbour.run(to_tick=9)
            with pytest.raises(WorldMoving):
                await storage.create_world("another")
            return len(await rows(storage, "harbour", "Position"))

    assert asyncio.run(visit()) == SHIPS


def test_given_up_migration_lets_the_source_go_on(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("copying rows"))

    asyncio.run(given_up(local(source), local(destination), "move"))

    async def go_on():
        async with opened(source) as storage:
            harbour = await storage.world("harbour")
            kinds = [entry.kind for entry in (await harbour.log())[-2:]]
            await harbour.run(to_tick=6)
            await storage.create_world("another")
            return kinds

    assert asyncio.run(go_on()) == ["moving", "stayed"]


def test_migration_that_may_be_alive_elsewhere_is_not_given_up(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("activated"))

    with pytest.raises(Conflict):
        asyncio.run(given_up(local(source), local(destination), "move"))

    assert asyncio.run(told(source, "harbour")).status == "moving"
    move(source, destination)


def test_source_that_changed_behind_the_movers_back_is_found_out(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("tables"))
    asyncio.run(tampered(source))

    with pytest.raises(Conflict, match="world yard"):
        move(source, destination)

    assert asyncio.run(told(source, "harbour")).status == "moving"


async def tampered(root):

    async with opened_authority(local(root)) as authority:
        ref = WorldRef(local(root).storage, WorldId("yard"))
        await authority.execute(FreeWorld(ref, "a mistake", LOCAL))


def test_copy_that_lost_a_row_is_found_out_and_never_activated(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("verified"))

    catalog = open_local(destination / "default")
    (name, *_) = sorted(catalog.list_tables("default"))
    table = catalog.load_table(name)
    table.delete("entity_id = 7 and tick = 0")
    catalog.close()

    with pytest.raises(Conflict, match="tables"):
        move(source, destination)

    with pytest.raises(WorldMoving):
        asyncio.run(listed(destination))


def test_copy_with_another_byte_in_an_object_is_found_out(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("verified"))
    (victim, *_) = (path for path in (destination / "default/objects").rglob("*") if path.is_file())
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")

    with pytest.raises(Conflict, match="objects"):
        move(source, destination)


# --- kills ------------------------------------------------------------------------------------


def check_killed(past, directory, stage, nth):
    source, destination = directory / f"{stage} {nth}", directory / f"{stage} {nth} moved"
    shutil.copytree(past, source)
    assert killed(local(source), local(destination), "move", stage, nth) == -9

    receipt = move(source, destination)

    assert receipt["worlds"].keys() == {"harbour", "yard", "fresh"}
    assert asyncio.run(ships_of(destination)) == SHIPS
    assert asyncio.run(told(source, "harbour")).status == "moved"


@pytest.mark.proof
@pytest.mark.parametrize(
    ("stage", "nth"), [("copying rows", 1), ("activating worlds", 2), ("leaving the source", 2)]
)
def test_killed_in_the_middle_the_same_call_ends_the_migration(past, tmp_path, stage, nth):
    check_killed(past, tmp_path, stage, nth)


@pytest.mark.proof
@pytest.mark.slow
def test_killed_at_any_stage_the_same_call_ends_the_migration(past, tmp_path):
    dry = tmp_path / "dry"
    shutil.copytree(past, dry)
    steps = Counter[str]()
    move(dry, tmp_path / "dry moved", progress=lambda stage, done, total: steps.update([stage]))
    assert len(steps) > 12

    for stage, times in steps.items():
        for nth in {1, times // 2 + 1}:
            check_killed(past, tmp_path, stage, nth)


async def ships_of(root):
    async with opened(root) as storage:
        return len(await rows(storage, "harbour", "Position"))
