"""Jobs whose processes die, and jobs whose store is away: what counts, and what nobody knows."""

from __future__ import annotations

import asyncio
import contextlib
import math

import pytest
from tests.support.running_jobs import (
    LEASE_MS,
    NAME,
    STORE,
    FailingStore,
    MovedClock,
    Result,
    app_with,
    process,
    settled,
)

from perdure.authority.engine import Patience
from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import JobInterrupted
from perdure.kernel.documents.jobs.value import VALUE_BYTES_MAX, Done, Threw
from perdure.kernel.errors import Conflict, StoreUnavailable
from perdure.kernel.ids import Instant

pytestmark = pytest.mark.stores

ONCE = Patience(tries_max=1, resends_max=0)


def reading(state):
    state.read += 1


async def hangs(run):
    await asyncio.Event().wait()


async def died(store, clock, prefix, app):
    """Let a process take the job and be gone; return it with what is left of its run."""
    one = await process(store, app=app, clock=clock, prefix=prefix)
    await one.start()
    running = one.running()
    await settled()
    clock.at += LEASE_MS
    return one, running


async def forgotten(*running):
    for each in running:
        each.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_the_fifth_death_in_a_row_ends_a_job_and_is_reported_once():
    store, clock, left, reports = MemoryStore(), MovedClock(), [], []
    finished = []

    async def finish(ending):
        finished.append(ending.outcome)

    app = app_with(hangs, finish=finish)
    for prefix in "abcde":
        one, running = await died(store, clock, prefix, app)
        left.append(running)
        reports += one.interrupted

    last = await process(store, app=app, clock=clock, prefix="f")
    driven = await last.run()
    with pytest.raises(JobInterrupted, match="5 processes"):
        await last.outcome()

    assert driven.state == "ended"
    assert reports == []
    [report] = last.interrupted
    assert (report.job.job, report.restarts, report.code) == ("j", 5, "job_interrupted")
    assert len(finished) == 1
    await forgotten(*left)


async def test_a_change_of_the_state_lets_a_job_die_as_often_as_it_likes():
    store, clock, left = MemoryStore(), MovedClock(), []

    async def gets_on(run):
        await run.change(reading)
        if run.state.read == 8:
            return Result(count=8)
        return await asyncio.Event().wait()

    app = app_with(gets_on)
    for prefix in "abcdefg":
        _, running = await died(store, clock, prefix, app)
        left.append(running)
    last = await process(store, app=app, clock=clock, prefix="h")

    assert (await last.run()).outcome == Done({"count": 8})
    await forgotten(*left)


async def test_an_abandoned_job_is_not_run_a_second_time():
    store, clock, runs = MemoryStore(), MovedClock(), []

    async def once(run):
        runs.append(run)
        await asyncio.Event().wait()

    app = app_with(once, resume="abandon")
    _, running = await died(store, clock, "a", app)
    last = await process(store, app=app, clock=clock, prefix="b")

    assert (await last.run()).outcome.error.reason == "restart"
    assert len(runs) == 1
    await forgotten(running)


async def test_a_job_of_other_code_is_blocked_until_somebody_retries_it():
    store, clock = MemoryStore(), MovedClock()

    async def counts(run):
        return Result(count=1)

    one = await process(store, app=app_with(counts), clock=clock)
    newer = await process(store, app=app_with(counts, version=2), clock=clock, prefix="b")
    await one.start()

    blocked = [(await newer.run()).state, (await one.run()).state]
    early = await one.outcome()
    told = await one.jobs.retry(STORE, NAME, "j")

    assert (blocked, early, told.phase) == (["blocked", "blocked"], None, "pending")
    assert (await one.run()).state == "ended"
    with pytest.raises(Conflict):
        await one.jobs.retry(STORE, NAME, "j")


async def test_a_store_that_is_away_for_a_moment_is_asked_again():
    store = FailingStore(MemoryStore())

    async def counts(run):
        store.fails = 2
        await run.change(reading)
        store.fails = 2
        return Result(count=run.state.read)

    one = await process(store, app=app_with(counts), patience=ONCE)
    await one.start()
    running = one.running()
    await one.clock.go(1_000)

    assert (await running).outcome == Done({"count": 1})


async def test_a_run_is_over_once_nobody_knows_what_its_change_came_to():
    store = FailingStore(MemoryStore())

    async def counts(run):
        if run.restarts:
            return Result(count=run.state.read)
        store.fails = 3
        with contextlib.suppress(StoreUnavailable):
            await run.change(reading)
        return Result(count=9)

    clock = MovedClock()
    one = await process(store, app=app_with(counts), clock=clock, patience=ONCE)
    await one.start()
    running = one.running()
    await clock.go(1_000)

    with pytest.raises(StoreUnavailable):
        await running
    clock.at += LEASE_MS
    assert (await one.run()).outcome == Done({"count": 0})


async def test_a_held_change_that_cannot_be_stored_ends_the_run():
    store = FailingStore(MemoryStore())

    async def counts(run):
        await run.change(reading, within_ms=500)
        store.fails = 3
        await asyncio.Event().wait()

    one = await process(store, app=app_with(counts), patience=ONCE)
    await one.start()
    running = one.running()
    await one.clock.go(2_000)

    with pytest.raises(StoreUnavailable):
        await running
    assert one.jobs.crew.under_way == {}


async def test_a_run_goes_on_without_its_store_until_its_claim_is_nearly_over():
    store, cancelled = FailingStore(MemoryStore()), []

    async def works(run):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(run)

    one = await process(store, app=app_with(works), patience=ONCE)
    await one.start()
    running = one.running(budget_ms=600_000)
    await settled()
    store.is_away = True
    await one.clock.go(LEASE_MS // 2)
    goes_on = not running.done()
    await one.clock.go(LEASE_MS // 2)

    assert goes_on
    with pytest.raises(StoreUnavailable):
        await running
    assert len(cancelled) == 1


async def test_an_end_that_nobody_answers_counts_as_a_process_that_died_at_it():
    store, calls = FailingStore(MemoryStore()), []

    async def counts(run):
        return Result(count=1)

    async def finish(ending):
        calls.append(ending.failures)
        store.fails = 3 if len(calls) == 1 else 0

    clock = MovedClock()
    one = await process(store, app=app_with(counts, finish=finish), clock=clock, patience=ONCE)
    await one.start()
    running = one.running()
    await clock.go(1_000)
    with pytest.raises(StoreUnavailable):
        await running
    clock.at += LEASE_MS

    assert (await one.run()).state == "ended"
    assert calls == [0, 1]


async def test_a_finish_that_always_kills_its_process_is_given_up():
    store, clock, calls, left = MemoryStore(), MovedClock(), [], []

    async def counts(run):
        return Result(count=1)

    async def finish(ending):
        calls.append(ending.failures)
        await hangs(ending)

    app = app_with(counts, finish=finish)
    for prefix in "abcde":
        _, running = await died(store, clock, prefix, app)
        left.append(running)
    last = await process(store, app=app, clock=clock, prefix="f")
    driven = await last.run()
    told = await last.told()

    assert (driven.state, told.blocked, calls) == ("blocked", "finish_failed", [0, 1, 2, 3, 4])
    assert (told.outcome, told.finish_error.code) == (Done({"count": 1}), "finish_interrupted")
    await forgotten(*left)


async def test_a_function_that_is_cancelled_from_inside_has_failed():
    async def gives_up(run):
        raise asyncio.CancelledError

    one = await process(app=app_with(gives_up))
    await one.start()

    assert (await one.run()).outcome.error.error.code == "cancelled"


class Panic(BaseException):
    """What libraries in other languages raise."""


@pytest.mark.parametrize("error", [Panic("x"), GeneratorExit(), BaseExceptionGroup("x", [Panic()])])
async def test_what_a_function_raises_is_its_outcome_whatever_that_is(error):
    async def panics(run):
        raise error

    one = await process(app=app_with(panics))
    await one.start()

    assert isinstance((await one.run()).outcome.error, Threw)


@pytest.mark.parametrize(
    ("error", "code"), [(Panic("x"), "panic"), (asyncio.CancelledError(), "cancelled")]
)
async def test_what_a_finish_raises_is_counted_whatever_that_is(error, code):
    async def counts(run):
        return Result(count=1)

    async def finish(ending):
        raise error

    one = await process(app=app_with(counts, finish=finish))
    await one.start()

    assert (await one.run()).state == "waits"
    told = await one.told()
    assert (told.finish_failures, told.finish_error.code) == (1, code)


async def test_a_result_that_is_too_large_to_be_kept_is_a_failure():
    async def verbose(run):
        return "x" * VALUE_BYTES_MAX

    one = await process(app=app_with(verbose, result=str))
    await one.start()

    assert (await one.run()).outcome.error.error.code == "too_large"


async def test_a_finish_that_returns_something_else_has_failed_and_says_so():
    async def counts(run):
        return Result(count=1)

    async def finish(ending):
        return ["no write"]

    one = await process(app=app_with(counts, finish=finish))
    await one.start()

    assert (await one.run()).state == "waits"
    assert (await one.told()).finish_error.code == "attribute_error"


async def test_time_that_is_over_leaves_what_is_due_to_others():
    async def counts(run):
        await run.change(reading, within_ms=math.inf)
        return Result(count=1)

    one = await process(app=app_with(counts))
    await one.start()

    assert await one.jobs.run_due(deadline=Instant(one.clock.at)) == ()
    assert (await one.told()).phase == "pending"


async def test_a_job_that_has_an_outcome_takes_no_other():
    async def counts(run):
        return Result(count=1)

    one = await process(app=app_with(counts))
    await one.start()
    await one.run()

    with pytest.raises(Conflict):
        await one.start({"path": "other"})
