"""Between the stages, and after a death: nothing is seen too early, and nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from tests.emulator.harbour import Position
from tests.migrate.moving import Stopped, listed, move, stopping, told
from tests.migrate.storages import NOTES, SHIPS, killed, opened, rows
from tests.support.lifecycle import Overwrite

import perdure
from perdure.api.settings import local
from perdure.api.wiring import opened_authority
from perdure.api.wiring_lake_migrate import given_up
from perdure.kernel.errors import (
    Conflict,
    WorldMoving,
)
from perdure.kernel.ids import WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld
from perdure.lake.catalog import open_local

pytestmark = pytest.mark.lifecycle


def test_nothing_is_seen_of_a_destination_before_it_is_whole(source, tmp_path):
    destination = tmp_path / "destination"
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
            return kinds, (await storage.land()).rows

    kinds, landed = asyncio.run(go_on())
    assert kinds == ["moving", "stayed"]
    assert landed > 0


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
    """Turn back a world that stands still, as if nobody were moving it."""
    async with opened_authority(local(root)) as authority:
        ref = WorldRef(local(root).storage, WorldId("yard"))
        head = (await authority.execute(FindWorld(ref))).head
        await authority.execute(Overwrite(replace(head, status="active")))


def test_rival_gives_up_nothing_that_is_not_its_own(source, tmp_path):
    destination = tmp_path / "destination"
    with pytest.raises(Stopped):
        move(source, destination, progress=stopping("complete"))

    for to, name in [("destination", "rival"), ("elsewhere", "move"), ("elsewhere", "rival")]:
        with pytest.raises(Conflict):
            asyncio.run(given_up(local(source), local(tmp_path / to), name))

    assert asyncio.run(told(source, "harbour")).status == "moving"


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


def check_killed(past, directory, stage, nth):
    source, destination = directory / f"{stage} {nth}", directory / f"{stage} {nth} moved"
    shutil.copytree(past, source)
    assert killed(local(source), local(destination), "move", stage, nth) == -9

    receipt = move(source, destination)

    assert receipt["worlds"].keys() == {"harbour", "yard", "fresh"}
    assert receipt["verified_stores"]["notes"]["seq"] == NOTES
    assert asyncio.run(ships_of(destination)) == SHIPS
    assert asyncio.run(told(source, "harbour")).status == "moved"


@pytest.mark.proof
def test_killed_in_the_middle_the_same_call_ends_the_migration(past, tmp_path):
    check_killed(past, tmp_path, "activating worlds", 2)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.stores
@pytest.mark.parametrize(
    "stage", ["stilling stores", "activating stores", "hinting jobs", "leaving stores"]
)
def test_killed_among_document_stores_the_same_call_ends_the_migration(past, tmp_path, stage):
    check_killed(past, tmp_path, stage, 1)


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
