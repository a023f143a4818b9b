"""A whole storage moves: everything arrives, nothing twice, and the old place says where it went."""

from __future__ import annotations

import asyncio

import pytest
from tests.emulator.harbour import Position, app
from tests.migrate.moving import listed, move
from tests.migrate.storages import SHIPS, opened, rows, tree

import perdure
from perdure.api.settings import local
from perdure.api.wiring import opened_authority
from perdure.api.wiring_lake_migrate import migrated
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import (
    WorldMoved,
)
from perdure.kernel.ids import Instant
from perdure.kernel.places import WAKE_SHARDS
from perdure.kernel.rest import Wakes

pytestmark = pytest.mark.lifecycle


def test_worlds_history_and_rows_arrive_as_they_were(moved, source, destination):
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

    log, *rest = asyncio.run(read(destination))
    assert log[:-1] == before[0]
    assert log[-1][1] == "moving"
    assert rest == list(before[1:])
    assert {table for table in moved.receipt["tables"] if table[:2] != "a_"} == {"audit"}
    assert len(rest[0]) == SHIPS


def test_the_audit_goes_along_and_goes_on_where_it_was(source, destination):
    async def read(root):
        async with opened(root) as storage:
            page = await (await storage.world("yard")).history()
            return [event["event_id"] for event in page.events], page.through_seq

    events, through = asyncio.run(read(source))

    arrived = asyncio.run(read(destination))

    async def go_on():
        async with opened(destination) as storage:
            await storage.land()

    asyncio.run(go_on())
    after, later = asyncio.run(read(destination))

    assert arrived == (events, through)
    assert after[: len(events)] == events
    assert len(set(after)) == len(after) == len(events) + 1, "the migration itself is an event"
    assert later > through


def test_every_active_world_goes_on_under_a_higher_epoch(source, destination):
    epochs = {info.world_id: info.epoch for info in asyncio.run(listed(source))}

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


def test_command_ids_replay_at_the_destination_as_they_did_at_the_source(destination):
    ships = [perdure.Spawn(Position(x=n / 3, y=n / 7)) for n in range(SHIPS)]

    async def again():
        async with opened(destination) as storage:
            return await (await storage.world("harbour")).submit(ships, batch_id="ships")

    replay = asyncio.run(again())

    assert replay.replayed
    assert [each.entity_id for each in replay.receipts] == list(range(1, SHIPS + 1))


def test_scheduled_world_is_found_by_its_wake_at_the_destination(destination):
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
def test_namespace_of_the_destination_need_not_be_that_of_the_source(source, tmp_path, namespace):
    destination = local(tmp_path / "destination", namespace=namespace)

    asyncio.run(migrated(local(source), destination, "move"))

    async def found():
        uri = (tmp_path / "destination").as_uri()

        async with perdure.open(uri, app=app, namespace=namespace) as storage:
            return await rows(storage, "harbour", "Position")

    assert len(asyncio.run(found())) == SHIPS
