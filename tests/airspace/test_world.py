"""The real day as a world: what flies is what the file says, on each authority."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from contextlib import asynccontextmanager
from importlib import resources

import pytest
from tests.support.stores import dynamodb_http

import perdure
from airspace.app import app
from airspace.flights import real_day
from airspace.replay import despawn_batches, spawn_batches
from perdure.api.wiring import run_id
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.kernel.ids import Holder, StorageId
from perdure.kernel.operations import parsed_commands
from perdure.lake.catalog import open_local
from perdure.lake.iceberg import Lake
from perdure.lake.objects import LocalObjects
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.land import Landing
from perdure.runtime.read import Reader
from perdure.runtime.storage import Storage
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

TRUTH = {480: 93, 720: 130, 1080: 153, 1200: 158}
PEAK = 166


def airborne_in_the_file(ticks: int, departing_from: int = 0) -> list[int]:
    """Count from the bare CSV, through none of the example's own code."""
    data = resources.files("airspace") / "data"
    known = {row["faa"] for row in read(data / "airports.csv")}
    counts = [0] * ticks
    for row in read(data / "flights-2013-01-01.csv"):
        if not (row["dep_time"].isdigit() and row["air_time"].isdigit()):
            continue
        if {row["origin"], row["dest"]} <= known:
            start = int(row["dep_time"]) // 100 * 60 + int(row["dep_time"]) % 100
            if start >= departing_from:
                for tick in range(start, min(start + int(row["air_time"]), ticks)):
                    counts[tick] += 1
    return counts


def read(path) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(path.read_text()))


async def flown(storage: Storage, to_tick: int, departing_by: int = 1500) -> list[int]:
    """Admit the day, run it, land it, and count what is alive at each tick."""
    world = await storage.create_world("airspace", world_id="day")
    flights = [each for each in real_day().flights if each.departure_tick <= departing_by]
    entity_ids = []
    for batch in spawn_batches(flights):
        sent = await world.submit(parsed_commands(batch.commands), batch_id=batch.id)
        entity_ids += [receipt.entity_id for receipt in sent.receipts]
    for batch in despawn_batches(flights, entity_ids):
        await world.submit(parsed_commands(batch.commands), batch_id=batch.id)
    await world.run(to_tick=to_tick)
    await world.land()
    rows = await world.query("Position", ticks=range(to_tick + 1), where="is_active = true")
    counts = [0] * (to_tick + 1)
    for tick in rows["tick"].to_pylist():
        counts[tick] += 1
    return counts


async def test_the_whole_day_on_sqlite_flies_as_in_the_file(tmp_path):
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        counts = await flown(storage, 1499)
        day = await storage.world("day")
        info = await day.info()
        at_noon = await day.query("Position", "Route", ticks=720)

    assert {tick: counts[tick] for tick in TRUTH} == TRUTH
    assert max(counts) == PEAK
    assert counts == airborne_in_the_file(1500)
    assert at_noon.num_rows == TRUTH[720]
    assert (info.published_tick, info.entities, info.pending_commands) == (1499, 19, 19)


@pytest.mark.cloud
@pytest.mark.slow  # a day in small goes through DynamoDB in test_apart
@pytest.mark.parametrize("to_tick", [360, 480])
def test_the_morning_on_dynamodb_flies_as_in_the_file(tmp_path, aws, to_tick):
    async def story() -> list[int]:
        async with dynamodb_http(aws) as opened, on_store(await opened(), tmp_path) as storage:
            return await flown(storage, to_tick, departing_by=to_tick)

    counts = asyncio.run(story())

    expected = airborne_in_the_file(to_tick + 1)
    assert counts == expected
    assert max(expected) > 0
    assert TRUTH[480] == airborne_in_the_file(481)[480]


@asynccontextmanager
async def on_store(store, directory):
    """Open a storage with its authority on a store, and its lake in a directory."""
    app.load()
    authority = Authority(store, system.now, system.new_token)
    name, objects = StorageId("cloud"), LocalObjects(directory / "objects")
    catalog = open_local(directory / "lake")
    lake = Lake(catalog, "default")
    worlds = Worlds(
        authority,
        name,
        app.registry,
        new_token=system.new_token,
        new_run=lambda: run_id(system.now(), system.new_token()),
    )
    means = Means(authority, objects, app, system.now, system.new_token)
    try:
        yield Storage(
            worlds,
            Ticker(means, Holder(system.new_token())),
            Reader(authority, objects, lake, name),
            Landing(authority, objects, lake, name),
            system.now,
            system.new_token,
            DocumentStores(
                StoreMeans(authority, system.now, system.new_token, asyncio.sleep), name
            ),
        )
    finally:
        catalog.close()
        await authority.close()
