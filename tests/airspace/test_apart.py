"""The day through functions that are killed at random: every command once, as in the file."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from tests.airspace.test_killed import every_manifest
from tests.airspace.test_world import airborne_in_the_file
from tests.emulator.deployment import ROOT, bearer, deployed
from tests.support.apart import Murderous, processes_of

import perdure
from airspace.app import app
from airspace.client import HttpClient, Receipt
from airspace.course import land_all
from airspace.flights import Flight, real_day
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
    lands_every: int = 0
    """Strides from one landing to the next; 0 for one at the end."""


def batches(prefix, commands):
    """Small batches, so that there are many requests in which somebody can die."""
    parts = [tuple(commands[at : at + ROWS]) for at in range(0, len(commands), ROWS)]
    return [Batch(f"{prefix}-{number}", part) for number, part in enumerate(parts)]


def submitted(client, sent):
    """Submit all batches from several clients at once and return the receipts in order."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = clients.map(lambda each: client.submit(WORLD, each.id, each.commands), sent)
        return [receipt for receipts in answers for receipt in receipts]


def admitted(client: HttpClient, flights: Sequence[Flight]) -> tuple[list[Batch], list[Receipt]]:
    """Admit departures and arrivals and return what was promised for them."""
    spawns = batches("spawn", [spawn(each) for each in flights])
    receipts = submitted(client, spawns)
    pairs = zip(flights, [receipt.entity_id for receipt in receipts], strict=True)
    despawns = batches("despawn", [despawn(flight, id) for flight, id in pairs])
    return spawns + despawns, receipts + submitted(client, despawns)


def flown(client: HttpClient, day: Day) -> tuple[list[Receipt], list[Receipt]]:
    """Fly the day up to a tick and return what was promised for its commands, asked twice."""
    flights = [
        each for each in by_departure(real_day().flights) if each.departure_tick <= day.to_tick
    ]
    client.create_world(WORLD, "A short day")
    sent, receipts = admitted(client, flights)
    published = client.published_tick(WORLD)
    while published < day.to_tick:
        published = client.tick(WORLD, min(published + day.stride, day.to_tick))
        if day.lands_every and (published // day.stride) % day.lands_every == 0:
            client.land()
    return receipts, submitted(client, sent)


async def check_truth(
    root: Path,
    receipts: Sequence[Receipt],
    again: Sequence[Receipt],
    in_the_file: Callable[[int], list[int]],
) -> None:
    """Compare what is there with what was promised, and with the file."""
    kept = [(each.command_id, each.sequence, each.entity_id) for each in receipts]
    assert kept == [(each.command_id, each.sequence, each.entity_id) for each in again]
    sequences = {each.sequence for each in receipts}
    assert len(sequences) == len(receipts)
    assert {each.status for each in again} <= {"applied", "pending"}
    async with perdure.open(root.as_uri(), app=app) as storage:
        world = await storage.world(WORLD)
        info = await world.info()
        ticks = range(info.published_tick + 1)
        rows = await world.query("Position", ticks=ticks, where="is_active = true")
        manifests = await every_manifest(storage, world, info.published_tick)
    counts = Counter(rows["tick"].to_pylist())
    assert [counts[tick] for tick in ticks] == in_the_file(len(ticks))
    assert [each.tick for each in manifests] == list(ticks)
    settled = [sequence for each in manifests for sequence in ranges.members(each.settled)]
    assert len(settled) == len(set(settled))
    assert set(settled) <= sequences
    assert len(settled) + info.pending_commands == len(receipts)


# A writer killed in the midst of a tick is waited for as long as its fence holds: not here.
EARLY = Day(400, 150, amid={"api": 0.1}, before={"tick": 0.1, "land": 0.1}, hurry=10)
LONG = Day(
    1_000,
    25,
    amid={"api": 0.2, "tick": 0.1, "land": 0.2},
    before={"api": 0.1, "tick": 0.1, "land": 0.1},
    lands_every=8,
)


@pytest.mark.parametrize(
    "day",
    [
        pytest.param(EARLY, id="an-early-morning"),
        pytest.param(LONG, id="most-of-a-day", marks=pytest.mark.slow),
    ],
)
async def test_day_through_functions_that_are_killed_at_random(tmp_path, day):
    root, log = tmp_path / "root", tmp_path / "log"
    with deployed(root, "--isolate", "--app", "airspace.app:app", log=log) as running:
        transport = Murderous(running.process.pid, 4, amid=day.amid, before=day.before)
        with httpx.Client(
            base_url=running.http.base_url,
            headers=bearer(root, "admin"),
            timeout=60,
            transport=transport,
        ) as http:
            client = HttpClient(http, pause=lambda seconds: time.sleep(seconds / day.hurry))
            receipts, again = await asyncio.to_thread(flown, client, day)
            await asyncio.to_thread(land_all, client, watch=lambda *_: None)
        exit_code, *_ = running.stop(signal.SIGINT)

    assert exit_code == 0
    assert all(transport.lost[folder] for folder in day.amid), transport.lost
    assert all(transport.kills[folder] for folder in day.before), transport.kills
    await check_truth(root, receipts, again, airborne_in_the_file)


FROM, LEAD, LAST = 360, 20, 60
"""Minute of the day that is flown from, at this tick, and the tick that must be reached."""

QUEUE_SECONDS = 300


def hasty_template(directory: Path) -> Path:
    """The project's template with a queue that hands out again soon what was not answered for."""
    text = (ROOT / "template.yaml").read_text()
    for before, after in (
        ("CodeUri: functions/", f"CodeUri: {ROOT}/functions/"),
        ("Default: 720", "Default: 15"),
        ("Timeout: 120", "Timeout: 15"),
    ):
        assert before in text
        text = text.replace(before, after)
    (directory / "template.yaml").write_text(text)
    return directory / "template.yaml"


def shifted(flight: Flight) -> Flight:
    return replace(
        flight,
        departure_tick=flight.departure_tick - FROM + LEAD,
        arrival_tick=flight.arrival_tick - FROM + LEAD,
    )


def killed_with_a_message(emulator: int) -> None:
    """Kill the writer when it has been given a message: one that stands still is given one."""
    while not processes_of(emulator, "tick"):
        time.sleep(0.1)
    (process,) = processes_of(emulator, "tick")
    os.kill(process, signal.SIGSTOP)
    time.sleep(4)
    os.kill(process, signal.SIGKILL)


def watched(client: HttpClient, emulator: int) -> int:
    """Wait until the day is over; meanwhile kill whoever works for it."""
    lots = random.Random(4)
    until, published = time.monotonic() + QUEUE_SECONDS, -1
    while published < LAST:
        assert time.monotonic() < until, f"tick {published} in {QUEUE_SECONDS} s"
        for folder, chance in {"api": 0.1, "dispatch": 0.3, "tick": 0.1, "land": 0.3}.items():
            processes = processes_of(emulator, folder)
            if processes and lots.random() < chance:
                os.kill(lots.choice(processes), signal.SIGKILL)
        time.sleep(lots.uniform(0.5, 1.5))
        published = client.published_tick(WORLD)
    return published


@pytest.mark.slow
async def test_day_that_ticks_through_a_queue_whose_functions_are_killed(tmp_path):
    root, log, path = tmp_path / "root", tmp_path / "log", hasty_template(tmp_path)
    flights = [
        shifted(each)
        for each in by_departure(real_day().flights)
        if FROM <= each.departure_tick < FROM + 4 * LAST
    ]
    options = ("--isolate", "--app", "airspace.app:app", "--speed", "20", "--template", str(path))
    with deployed(root, *options, log=log) as running:
        emulator = running.process.pid
        client = HttpClient(running.http, pause=time.sleep)
        body = {"world_id": WORLD, "name": "A day", "every": "1s", "missed": "catch_up"}
        assert running.http.post("/v1/worlds", json=body).status_code == 201
        sent, receipts = await asyncio.to_thread(admitted, client, flights)
        await asyncio.to_thread(killed_with_a_message, emulator)
        await asyncio.to_thread(watched, client, emulator)
        again = await asyncio.to_thread(submitted, client, sent)
        exit_code, *_ = running.stop(signal.SIGINT)

    assert exit_code == 0
    assert "TickFunction failed over a message: Died(" in log.read_text()
    await check_truth(
        root,
        receipts,
        again,
        lambda ticks: [0] * LEAD + airborne_in_the_file(ticks + FROM - LEAD, FROM)[FROM:],
    )
