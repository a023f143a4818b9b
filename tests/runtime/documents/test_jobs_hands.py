"""Jobs between hands: claims, finishes that fail, and jobs that are found by their hints."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.documents import REF
from tests.support.jobs import NOTE
from tests.support.running_jobs import (
    CLOSE_MS,
    LEASE_MS,
    NAME,
    STORE,
    Args,
    MovedClock,
    app_with,
    counts,
    process,
    settled,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.commit import TakeOwner
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import UnknownJob
from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import Conflict, FenceHeld, NotFound, StaleWriter
from perdure.kernel.ids import Holder, Instant
from perdure.runtime.app import App

pytestmark = pytest.mark.stores


# finishes


async def test_a_finish_waits_for_who_holds_the_owner_that_it_writes_to():
    async def finish(ending):
        return [CreateDocument(NOTE, "none", base(1, "counted"))]

    one = await process(app=app_with(counts, finish=finish))
    await one.start()
    authority = one.jobs.crew.means.authority
    await authority.execute(TakeOwner(REF, NOTE.owner, Holder("desk"), 200_000))

    for _ in range(8):
        assert (await one.run()).state == "waits"
        one.clock.at = (await one.told()).due_at
    held = await one.told()
    one.clock.at += 200_000

    assert (held.phase, held.finish_failures) == ("finishing", 0)
    assert held.finish_error.code == "owner_held"
    assert (await one.run()).state == "ended"


# claims


def test_a_claim_is_kept_alive_while_its_job_runs():
    async def works(run):
        await asyncio.Event().wait()

    async def story():
        store, clock = MemoryStore(), MovedClock()
        one = await process(store, app=app_with(works), clock=clock)
        other = await process(store, app=app_with(works), clock=clock, prefix="q")
        await one.start()
        running = one.running(budget_ms=600_000)
        await clock.go(5 * LEASE_MS)
        with pytest.raises(FenceHeld):
            await other.run()
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(story())


def test_a_run_that_was_overtaken_is_ended_and_writes_nothing():
    seen = []

    async def works(run):
        seen.append(run)
        await asyncio.Event().wait()

    async def story():
        store, clock = MemoryStore(), MovedClock()
        one = await process(store, app=app_with(works), clock=clock)
        other = await process(store, app=app_with(counts), clock=clock, prefix="q")
        await one.start()
        running = one.running()
        await settled()
        clock.at += LEASE_MS  # the process was frozen
        await other.run()
        await clock.go(1_000)
        with pytest.raises(StaleWriter):
            await running
        with pytest.raises(StaleWriter):
            await seen[0].change(lambda state: setattr(state, "read", 1))
        assert (await one.told()).outcome == Done({"count": 1})

    asyncio.run(story())


# finish


def test_a_finish_that_fails_is_called_again_when_its_pause_is_over():
    calls = []

    async def finish(ending):
        calls.append(ending.failures)
        if len(calls) < 3:
            raise RuntimeError("not yet")

    async def story():
        one = await process(app=app_with(counts, finish=finish))
        await one.start()
        first = await one.run()
        early = await one.run()
        await one.clock.go(1_000)
        second = await one.run()
        await one.clock.go(2_000)
        third = await one.run()
        assert [each.state for each in (first, early, second, third)] == [
            "waits",
            "waits",
            "waits",
            "ended",
        ]
        assert first.due_at == early.due_at

    asyncio.run(story())

    assert calls == [0, 1, 2]


def test_a_finish_whose_writes_are_refused_has_failed():
    async def finish(ending):
        return [
            CreateDocument(NOTE, "none", base(1, {})),
            CreateDocument(NOTE, "none", base(1, {})),
        ]

    async def story():
        one = await process(app=app_with(counts, finish=finish))
        await one.start()
        states = []
        for _ in range(5):
            states.append((await one.run()).state)
            await one.clock.go(60_000)
        return states, (await one.told()).blocked

    assert asyncio.run(story()) == (["waits"] * 4 + ["blocked"], "finish_failed")


async def test_a_finish_that_takes_too_long_is_left_to_a_process_of_its_own_and_then_counted():
    async def finish(ending):
        await asyncio.Event().wait()

    one = await process(app=app_with(counts, finish=finish))
    await one.start()
    left = []
    for _ in range(6):
        running = one.running(budget_ms=20_000)
        await one.clock.go(20_000)
        told = await one.told()
        left.append(((await running).state, told.phase, told.finish_failures, told.held_until))
        await one.clock.go(16_000)

    assert left == [
        ("stopped", "finishing", 0, None),  # its process has run the job before
        *(("waits", "finishing", failures, None) for failures in (1, 2, 3, 4)),
        ("blocked", "blocked", 5, None),
    ]
    assert told.finish_error.code == "out_of_time"


async def test_a_finish_of_a_process_that_is_to_end_is_given_back_uncounted():
    async def finish(ending):
        await asyncio.Event().wait()

    store, clock = MemoryStore(), MovedClock()
    for prefix in "abcdefg":
        one = await process(store, app=app_with(counts, finish=finish), clock=clock, prefix=prefix)
        await one.start()
        running = one.running()
        await settled()
        one.jobs.crew.closing.set()
        assert (await running).state == "stopped"

    told = await one.told()
    assert (told.phase, told.finish_failures, told.held_until) == ("finishing", 0, None)
    assert told.epoch == 7


# what is asked of whom


def test_nothing_is_taken_without_time_to_stop_it():
    async def story():
        one = await process(app=app_with(counts))
        await one.start()
        driven = await one.run(budget_ms=CLOSE_MS)
        return driven.state, (await one.told()).phase

    assert asyncio.run(story()) == ("out_of_time", "pending")


def test_due_jobs_are_found_and_run_and_undeclared_ones_are_told_of():
    async def story():
        store, clock = MemoryStore(), MovedClock()
        one = await process(store, app=app_with(counts), clock=clock)
        await one.start()
        await one.start(job_id="later", due_at=Instant(clock.at + 3_600_000))
        bare = await process(store, app=App("notes"), clock=clock, prefix="q")

        deadline = Instant(clock.at + 60_000)
        [unknown] = await bare.jobs.run_due(deadline=deadline)
        [ran] = await one.jobs.run_due(deadline=deadline)
        nothing = await one.jobs.run_due(deadline=deadline)

        assert (unknown.driven, unknown.error.code) == (None, "unknown_job")
        assert (ran.job.job, ran.driven.state) == ("j", "ended")
        assert nothing == ()

        clock.at += 3_600_000
        [ran] = await one.jobs.run_due(deadline=Instant(clock.at + 60_000))
        assert (ran.job.job, ran.driven.state) == ("later", "ended")

    asyncio.run(story())


def test_a_due_job_has_one_name_for_a_queue_until_somebody_has_tried():
    async def finish(ending):
        raise RuntimeError("not yet")

    async def story():
        one = await process(app=app_with(counts, finish=finish))
        one.clock.at -= one.clock.at % 60_000  # all of it within one minute
        await one.start()

        async def name():
            [due] = (await one.jobs.look(go_on=lambda: True)).due
            return due.once, due.hint

        first, again = await name(), await name()
        await one.run()
        await one.clock.go(1_000)
        tried = await name()
        return first, again, tried

    first, again, tried = asyncio.run(story())

    assert first == again
    assert (tried[1], tried[0] == first[0]) == (first[1], False)


def test_what_is_not_there_is_refused():
    async def story():
        one = await process(app=app_with(counts))
        with pytest.raises(UnknownJob, match="no job"):
            await one.run()
        with pytest.raises(UnknownJob, match=r"notes\.import"):
            await one.jobs.start(STORE, "notes.export", {})
        with pytest.raises(NotFound):
            await one.jobs.start("nowhere", NAME, {})
        await one.start()
        with pytest.raises(Conflict):
            await one.start(Args(path="other"))
        page = await one.jobs.discover(STORE, "notes")
        assert [each.job.job for each in page.jobs] == ["j"]
        assert one.jobs.ref(STORE) == REF

    asyncio.run(story())
