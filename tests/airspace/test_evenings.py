"""Two evenings of one morning: what a fork shares with its source, and what it has not."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest
from tests.airspace.test_world import on_store
from tests.support.stores import dynamodb_http

import perdure
from airspace.app import app
from airspace.closure import Closing
from airspace.evenings import compared
from airspace.evenings_picture import draw_evenings
from airspace.flights import Flight, airborne_by_tick, real_day, served
from airspace.twodays import FORK_ID, SOURCE_ID, TwoDays, run_both
from airspace.whatif import Outcome, lines_of, ran, who
from perdure.kernel.operations import parsed_commands
from perdure.runtime.storage import Storage

pytestmark = pytest.mark.lifecycle

DAWN = 300
"""Short days begin five hours late: nothing flies before."""

SHORT = Closing(airport="EWR", after_tick=60)
"""06:00, when the first have just left."""

LAST = 130

DAWN_ONLY = Closing(airport="EWR", after_tick=20)
"""05:20, when only the first has left."""


class Interrupted(Exception):
    """The process is told to stop."""


def morning(departing_by: int = LAST) -> list[Flight]:
    return [
        replace(each, departure_tick=each.departure_tick - DAWN, arrival_tick=each.arrival_tick - DAWN)
        for each in real_day().flights
        if each.departure_tick - DAWN <= departing_by
    ]  # fmt: skip


def unwatched(stage: str, done: int, total: int | None) -> None:
    """Watch nothing."""


async def both(storage: Storage, *, last_tick: int = LAST, watch=unwatched) -> TwoDays:
    return await run_both(
        storage, morning(last_tick), watch=watch, closing=SHORT, last_tick=last_tick
    )


@pytest.fixture(scope="module")
def morning_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage in which both mornings have run; to run them again changes nothing."""
    root = tmp_path_factory.mktemp("morning")

    async def run() -> None:
        async with perdure.open(root.as_uri(), app=app) as storage:
            await both(storage)

    asyncio.run(run())
    return root


async def test_until_the_fork_both_worlds_agree_row_by_row(morning_run):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        found = await compared(await both(storage), last_tick=LAST)

    assert found.is_same_before
    assert found.rows_before > 0
    assert found.source.until(SHORT.after_tick).num_rows == found.rows_before
    assert found.source.airborne()[:61] == found.fork.airborne()[:61]


async def test_after_the_fork_nothing_leaves_the_closed_airport_and_all_else_is_the_same(
    morning_run,
):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        two = await both(storage)
        found = await compared(two, last_tick=LAST)

    late = [each for each in found.fork.flights() if each.departure_tick > SHORT.after_tick]
    assert late
    assert all(each.origin != "EWR" for each in late)
    assert found.missing == {who(each) for each in two.grounded.flights}
    assert found.missing
    assert found.extra == frozenset()
    assert found.is_same_otherwise
    flown = [each for each in morning() if each not in two.grounded.flights]
    assert found.source.airborne()[: LAST + 1] == airborne_by_tick(morning(), ticks=LAST + 1)
    assert found.fork.airborne()[: LAST + 1] == airborne_by_tick(flown, ticks=LAST + 1)


async def test_inherited_commands_are_cancelled_in_the_fork_and_applied_in_the_source(morning_run):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        two = await both(storage)
        ids = [each.command_id for each in two.inherited]
        was = [await two.source.command(each) for each in ids]
        now = [await two.fork.command(each) for each in ids]

    assert ids
    assert {each.status for each in was} == {"applied"}
    assert {(each.status, each.code) for each in now} == {("rejected", "cancelled")}


async def test_only_the_fork_says_that_the_airport_is_closed(morning_run):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        found = await compared(await both(storage), last_tick=LAST)

    source, fork = found.signs
    assert source == []
    assert [(each["closed__airport"], each["closed__since_tick"]) for each in fork] == [("EWR", 61)]


async def test_run_again_it_changes_nothing(morning_run):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        first = await both(storage)
        logs = [await world.log(limit=1_000) for world in (first.source, first.fork)]

    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        second = await both(storage)
        again = [await world.log(limit=1_000) for world in (second.source, second.fork)]

    assert first.inherited == second.inherited
    assert [[each.digest for each in log] for log in again] == [
        [each.digest for each in log] for log in logs
    ]


@pytest.mark.parametrize("stop", [("as it was", 61), ("as it was", 81), ("what if", 101)])
async def test_stopped_anywhere_it_goes_on_to_the_same_two_evenings(morning_run, tmp_path, stop):
    def watch(stage: str, done: int, total: int | None) -> None:
        if (stage, done) == stop:
            raise Interrupted

    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        whole = await compared(await both(storage), last_tick=LAST)

    with pytest.raises(Interrupted):
        async with perdure.open(tmp_path.as_uri(), app=app) as storage:
            await both(storage, watch=watch)
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        torn = await compared(await both(storage), last_tick=LAST)

    assert torn.source.rows.equals(whole.source.rows)
    assert torn.fork.rows.equals(whole.fork.rows)


async def test_the_fence_of_a_writer_that_died_is_waited_for(tmp_path):
    waits: list[float] = []

    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        dead = await storage.create_world("The day as it was", world_id=SOURCE_ID)
        grip = await storage.ticker.take(storage.worlds.ref(dead.world_id))

        async def pause(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                await storage.ticker.release(storage.worlds.ref(dead.world_id), grip)

        async with perdure.open(tmp_path.as_uri(), app=app) as other:
            two = await run_both(
                other, morning(20), watch=unwatched, closing=DAWN_ONLY, last_tick=25, pause=pause
            )
            published = [(await world.info()).published_tick for world in (two.source, two.fork)]

    assert len(waits) == 3
    assert published == [25, 25]


async def test_a_fork_that_strays_is_found_out(tmp_path):
    shorter, stray = LAST - 30, LAST - 20
    async with perdure.open(tmp_path.as_uri(), app=app) as storage:
        two = await both(storage, last_tick=shorter)
        rows = await two.fork.query("Flight", ticks=shorter)
        commands = [
            {
                "operation": "update",
                "entity_id": rows["entity_id"][0].as_py(),
                "components": {"Flight": {"carrier": "ZZ", "number": 1, "tail": "N0"}},
            }
        ]
        await two.fork.submit(parsed_commands(commands))
        await two.source.run(to_tick=stray)
        await two.fork.run(to_tick=stray)
        found = await compared(two, last_tick=stray)

    assert [each.carrier for each in found.extra] == ["ZZ"]
    assert not found.is_same_otherwise
    assert found.is_same_before


async def test_time_travel_shows_one_moment_in_both_worlds(morning_run):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        two = await both(storage)
        at_the_fork = [
            (await world.query("Route", "Flight", ticks=60)).drop_columns(["world_id", "run_id", "commit"])
            for world in (two.source, two.fork)
        ]  # fmt: skip
        later = [await world.query("Route", ticks=LAST) for world in (two.source, two.fork)]

    assert at_the_fork[0].equals(at_the_fork[1])
    assert later[0].num_rows > later[1].num_rows
    held = later[1].filter(
        (pc.field("route__origin") == "EWR") & (pc.field("route__departure_tick") > 60)
    )
    assert held.num_rows == 0


async def test_both_evenings_are_drawn(morning_run, tmp_path):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        found = await compared(await both(storage), last_tick=LAST)

    draw_evenings(found, served(morning()), "EWR", tmp_path / "evenings.png", dpi=50)

    head = (tmp_path / "evenings.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == (650, 360)


async def test_the_report_tells_both_evenings_and_admits_what_differs(morning_run, tmp_path):
    async with perdure.open(morning_run.as_uri(), app=app) as storage:
        two = await both(storage)
        found = await compared(two, last_tick=LAST)

    told = Outcome(two, found, (Counter(applied=2), Counter(rejected=2)), 1.0, tmp_path, tmp_path)
    torn = replace(told, compared=replace(found, is_same_before=False, missing=frozenset()))

    lines = dict(lines_of(told))
    assert told.differences == []
    assert lines["until 01:00"] == f"{found.rows_before:,} rows, the same in both, row by row"
    assert "source 2 applied; fork 2 rejected" in lines["inherited commands"]
    assert torn.differences == [
        "the worlds differ before the fork",
        "not just the grounded are missing",
    ]
    assert "NOT the same in both" in dict(lines_of(torn))["until 01:00"]


@pytest.mark.cloud
@pytest.mark.slow
def test_on_dynamodb_it_is_the_same_fork(tmp_path, aws):
    last = 90

    async def story():
        async with dynamodb_http(aws) as opened, on_store(await opened(), tmp_path) as storage:
            two = await both(storage, last_tick=last)
            return two, await compared(two, last_tick=last)

    two, found = asyncio.run(story())

    assert (two.source.world_id, two.fork.world_id) == (SOURCE_ID, FORK_ID)
    assert found.is_same_before
    assert found.missing == {
        who(each) for each in two.grounded.flights if each.departure_tick <= last
    }
    assert found.is_same_otherwise


@pytest.mark.slow
def test_the_numbers_of_the_real_day_hold(tmp_path, quiet_console):
    outcome: Outcome = ran(tmp_path, quiet_console)

    found = outcome.compared
    assert outcome.differences == []
    assert found.rows_before == sum(airborne_by_tick(real_day().flights)[:721]) + sum(
        each.arrival_tick <= 720 for each in real_day().flights
    )
    assert len(found.missing) == 197
    assert (found.source.airborne()[1_155], found.fork.airborne()[1_155]) == (166, 107)
    assert [dict(each) for each in outcome.statuses] == [{"applied": 9}, {"rejected": 9}]
