"""Runs: many ticks on request or by schedule, once however often they are asked for."""

from __future__ import annotations

import asyncio

from tests.runtime.harness import Place, harness, runs

from perdure import Spawn
from perdure.kernel.ids import Instant, Seq, StorageId
from perdure.kernel.landing import AUDIT
from perdure.kernel.upkeep import Consumer
from perdure.runtime.run import run_ticks
from perdure.runtime.worlds import Worlds


async def test_the_same_run_asked_for_twice_leads_to_the_same_tick(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    ref, deadline = h.worlds.ref("w"), Instant(h.clock.time + 600_000)

    first = await run_ticks(h.ticker(), ref, ticks=3, request="r", deadline=deadline)
    again = await run_ticks(h.ticker(), ref, ticks=3, request="r", deadline=deadline)

    assert (first.published_tick, again.published_tick, again.ticks) == (2, 2, 0)


async def test_runs_of_one_process_take_their_turns(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    ticker = h.ticker()

    ran = await asyncio.gather(*(h.run("w", tick, ticker) for tick in (5, 5, 7)))

    assert [each.published_tick for each in ran] == [5, 5, 7]
    assert sum(each.ticks for each in ran) == 8


async def test_worlds_of_another_storage_of_the_table_are_left_to_its_own_schedule(tmp_path):
    ours, other = harness(tmp_path), StorageId("other")
    neighbour = Worlds(
        ours.authority, other, ours.app.registry, new_token=ours.new_token, new_run=runs()
    )
    await neighbour.create("clockwork", world_id="w", every_ms=60_000)
    ours.clock.advance(60_000)

    mine = await ours.due(ours.ticker())
    own = await ours.due(ours.ticker("bob"), other)

    assert (mine.ticked, mine.failed) == ((), ())
    assert [report.tick for report in own.ticked] == [0]


async def test_a_scheduled_world_ticks_when_its_time_has_come_and_once(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("clockwork", world_id="w", every_ms=60_000)
    ticker = h.ticker()

    early = await h.due(ticker)
    h.clock.advance(60_000)
    first, again = await h.due(ticker), await h.due(ticker)
    h.clock.advance(600_000)
    late = await h.due(h.ticker("bob"))

    ticks = [[report.tick for report in each.ticked] for each in (early, first, again, late)]
    assert ticks == [[], [0], [], [1]]


async def test_a_world_with_nothing_to_do_leaves_no_hint(tmp_path):
    h = harness(tmp_path)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0), tick=1_000)])
    ref, everything = h.worlds.ref("w"), Seq(2)
    audit = Consumer(partition=ref.partition, name=AUDIT, seq=everything)
    h.clock.advance(120_000)

    await h.due(h.ticker())
    awake = await h.hints()
    await h.put(audit)
    h.clock.advance(120_000)
    await h.due(h.ticker())

    assert [hint.world for hint in awake] == ["w"]
    assert await h.hints() == []
