"""The day through functions that are killed at random: every command once, as in the file."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.airspace.test_killed import every_manifest
from tests.airspace.test_world import airborne_in_the_file
from tests.emulator.deployment import bearer, deployed
from tests.support.apart import Murderous

import perdure
from airspace.app import app
from airspace.client import HttpClient
from airspace.course import land_all
from airspace.flights import real_day
from airspace.replay import Batch, by_departure, despawn, spawn
from perdure.kernel import ranges

pytestmark = pytest.mark.cloud

WORLD = "day"
ROWS = 10
CLIENTS = 3


@dataclass(frozen=True)
class Day:
    """How far the day goes, and who is killed on the way."""

    to_tick: int
    stride: int
    amid: Mapping[str, float]
    before: Mapping[str, float]
    hurry: int = 1
    """How many times faster than asked a client asks again."""


def batches(prefix, commands):
    """Small batches, so that there are many requests in which somebody can die."""
    parts = [tuple(commands[at : at + ROWS]) for at in range(0, len(commands), ROWS)]
    return [Batch(f"{prefix}-{number}", part) for number, part in enumerate(parts)]


def submitted(client, sent):
    """Submit all batches from several clients at once and return the receipts in order."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = clients.map(lambda each: client.submit(WORLD, each.id, each.commands), sent)
        return [receipt for receipts in answers for receipt in receipts]


def flown(client: HttpClient, day: Day):
    """Fly the day up to a tick and return what was promised for its commands, asked twice."""
    flights = [
        each for each in by_departure(real_day().flights) if each.departure_tick <= day.to_tick
    ]
    client.create_world(WORLD, "A short day")
    spawns = batches("spawn", [spawn(each) for each in flights])
    receipts = submitted(client, spawns)
    pairs = zip(flights, [receipt.entity_id for receipt in receipts], strict=True)
    despawns = batches("despawn", [despawn(flight, id) for flight, id in pairs])
    receipts += submitted(client, despawns)
    published = client.published_tick(WORLD)
    while published < day.to_tick:
        published = client.tick(WORLD, min(published + day.stride, day.to_tick))
    return receipts, submitted(client, spawns + despawns)


async def check_truth(root: Path, to_tick: int, receipts, again) -> None:
    kept = [(each.command_id, each.sequence, each.entity_id) for each in receipts]
    assert kept == [(each.command_id, each.sequence, each.entity_id) for each in again]
    assert len({each.sequence for each in receipts}) == len(receipts)
    async with perdure.open(root.as_uri(), app=app) as storage:
        world = await storage.world(WORLD)
        info = await world.info()
        rows = await world.query("Position", ticks=range(to_tick + 1), where="is_active = true")
        manifests = await every_manifest(storage, world, to_tick)
    counts = [0] * (to_tick + 1)
    for tick in rows["tick"].to_pylist():
        counts[tick] += 1
    assert counts == airborne_in_the_file(to_tick + 1)
    settled = [sequence for each in manifests for sequence in ranges.members(each.settled)]
    assert len(settled) == len(set(settled))
    statuses = Counter(each.status for each in again)
    assert statuses == {"applied": len(settled), "pending": info.pending_commands}
    assert sum(statuses.values()) == len(receipts)
    assert [each.tick for each in manifests] == list(range(to_tick + 1))


# A writer killed in the midst of a tick is waited for as long as its fence holds: not here.
EARLY = Day(400, 150, amid={"api": 0.1}, before={"tick": 0.1, "land": 0.1}, hurry=10)
LONG = Day(
    1_000,
    25,
    amid={"api": 0.2, "tick": 0.1, "land": 0.2},
    before={"api": 0.1, "tick": 0.1, "land": 0.1},
)


@pytest.mark.parametrize(
    "day",
    [
        pytest.param(EARLY, id="an-early-morning"),
        pytest.param(LONG, id="most-of-a-day", marks=pytest.mark.slow),
    ],
)
async def test_day_through_functions_that_are_killed_at_random(tmp_path, day):
    root = tmp_path / "root"
    with deployed(root, "--isolate", "--app", "airspace.app:app") as running:
        transport = Murderous(running.process.pid, 4, amid=day.amid, before=day.before)
        with httpx.Client(
            base_url=running.http.base_url,
            headers=bearer(root, "admin"),
            timeout=60,
            transport=transport,
        ) as http:
            client = HttpClient(http, pause=lambda seconds: time.sleep(seconds / day.hurry))
            receipts, again = await asyncio.to_thread(flown, client, day)
            landed = await asyncio.to_thread(land_all, client, watch=lambda *_: None)
        exit_code, _, err = running.stop(signal.SIGINT)

    assert exit_code == 0, err
    assert landed.rows > 0
    assert all(transport.lost[folder] for folder in day.amid), (transport.kills, err)
    assert all(transport.kills[folder] for folder in day.before), transport.kills
    await check_truth(root, day.to_tick, receipts, again)
