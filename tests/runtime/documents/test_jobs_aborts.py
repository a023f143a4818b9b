"""Aborts of jobs that run: heard at once or within a look, joined, stored before they are heard."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.running_jobs import (
    NAME,
    STORE,
    FailingStore,
    MovedClock,
    Result,
    app_with,
    counts,
    process,
    settled,
)

from perdure.authority.engine import Patience
from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import JobAborted
from perdure.kernel.documents.jobs.value import Aborted, Done, Failed
from perdure.kernel.errors import StoreUnavailable

pytestmark = pytest.mark.stores


def test_an_abort_reaches_the_run_at_once_and_joins_it():
    reasons = []

    async def obeys(run):
        await run.aborted.wait()
        reasons.append(run.abort_reason)
        raise RuntimeError("I obey")

    async def story():
        one = await process(app=app_with(obeys))
        await one.start()
        running = one.running()
        await settled()
        marked = await one.jobs.abort(STORE, NAME, "j", reason="enough", joins=True)
        driven = await running
        terminal = await one.jobs.abort(STORE, NAME, "j")
        assert (marked, terminal) == ("marked", "terminal")
        assert driven.outcome == Failed(Aborted("enough"))
        with pytest.raises(JobAborted, match="enough"):
            await one.outcome()

    asyncio.run(story())

    assert reasons == ["enough"]


async def test_who_joins_an_abort_waits_until_the_function_has_returned():
    let_go, returned = asyncio.Event(), []

    async def obeys(run):
        await run.aborted.wait()
        await let_go.wait()
        returned.append(run)
        raise RuntimeError("I obey")

    one = await process(app=app_with(obeys))
    await one.start()
    running = one.running()
    await settled()
    joining = asyncio.create_task(one.jobs.abort(STORE, NAME, "j", joins=True))
    alone = await one.jobs.abort(STORE, NAME, "j")
    await settled()
    early = joining.done(), len(returned)
    let_go.set()

    assert (await joining, alone, early, len(returned)) == ("marked", "marked", (False, 0), 1)
    await running


async def test_an_abort_that_is_not_stored_is_not_heard_either():
    async def waits(run):
        heard.append(run.aborted)
        await run.stopping.wait()
        raise RuntimeError("told to stop")

    store, heard = FailingStore(MemoryStore()), []
    once = Patience(tries_max=1, resends_max=0)
    one = await process(store, app=app_with(waits), patience=once)
    await one.start()
    running = one.running()
    await settled()
    store.fails = 1
    with pytest.raises(StoreUnavailable):
        await one.jobs.abort(STORE, NAME, "j")
    one.jobs.crew.closing.set()
    await running

    assert not heard[0].is_set()
    assert (await one.told()).abort is None


def test_an_abort_of_another_process_is_heard_within_a_look():
    async def obeys(run):
        await run.aborted.wait()
        raise RuntimeError("I obey")

    async def story():
        store, clock = MemoryStore(), MovedClock()
        one = await process(store, app=app_with(obeys), clock=clock)
        other = await process(store, app=app_with(obeys), clock=clock, prefix="q")
        await one.start()
        running = one.running()
        await settled()
        await other.jobs.abort(STORE, NAME, "j", reason="enough")
        await clock.go(1_000)
        return (await running).outcome

    assert asyncio.run(story()) == Failed(Aborted("enough"))


def test_a_result_that_races_an_abort_stands():
    async def returns(run):
        await run.aborted.wait()
        return Result(count=7)

    async def story():
        one = await process(app=app_with(returns))
        await one.start()
        running = one.running()
        await settled()
        await one.jobs.abort(STORE, NAME, "j")
        return (await running).outcome

    assert asyncio.run(story()) == Done({"count": 7})


async def test_an_aborted_job_whose_last_finish_fails_has_ended():
    async def finish(ending):
        raise RuntimeError("not yet")

    one = await process(app=app_with(counts, finish=finish))
    await one.start()
    for _ in range(4):
        await one.run()
        await one.clock.go(16_000)
    await one.jobs.abort(STORE, NAME, "j")

    driven = await one.run()

    assert (driven.state, driven.outcome) == ("ended", Done({"count": 1}))
    assert (await one.told()).phase == "ended"
