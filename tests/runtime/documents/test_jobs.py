"""A process runs a job to its end, or stops it in order; whoever comes next goes on from there."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.jobs import NOTE
from tests.support.running_jobs import (
    CLOSE_MS,
    Args,
    MovedClock,
    Result,
    app_with,
    counts,
    process,
    settled,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import JobThrew
from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import FenceHeld, StaleWriter, UnknownField

pytestmark = pytest.mark.stores


def test_a_job_runs_to_its_result_and_is_finished_with_it():
    seen = []

    async def finish(ending):
        seen.append((ending.result, ending.args, ending.outcome))
        return [CreateDocument(NOTE, "none", base(1, {"count": ending.result.count}))]

    async def story():
        one = await process(app=app_with(counts, finish=finish))
        await one.start(Args(path="abc"))

        driven = await one.run()

        assert (driven.state, driven.outcome) == ("ended", Done({"count": 3}))
        assert await one.outcome() == Result(count=3)
        assert (await one.told()).phase == "ended"

    asyncio.run(story())

    assert seen == [(Result(count=3), Args(path="abc"), Done({"count": 3}))]


def test_arguments_come_as_json_too_and_are_held_to_their_shape():
    async def story():
        one = await process(app=app_with(counts, args=Strict))
        await one.start({"path": "ab"})
        await one.run()
        assert await one.outcome() == Result(count=2)
        with pytest.raises(UnknownField, match=r"args\.speed"):
            await one.start({"path": "ab", "speed": 1}, job_id="other")

    class Strict(Args, extra="forbid"): ...

    asyncio.run(story())


def test_an_error_of_the_function_is_stored_and_raised_again():
    async def fails(run):
        raise FenceHeld(expected="a free gate", found="a guard")

    async def breaks(run):
        raise ZeroDivisionError("by nothing")

    async def story(function):
        one = await process(app=app_with(function))
        await one.start()
        await one.run()
        await one.outcome()

    with pytest.raises(FenceHeld, match="a free gate; found a guard"):
        asyncio.run(story(fails))
    with pytest.raises(JobThrew, match="by nothing") as raised:
        asyncio.run(story(breaks))
    assert raised.value.error.code == "zero_division_error"


def test_a_result_of_another_shape_is_a_failure():
    async def wrong(run):
        return {"count": "many"}

    async def story():
        one = await process(app=app_with(wrong))
        await one.start()
        await one.run()
        return (await one.told()).outcome

    assert asyncio.run(story()).error.error.code == "wrong_type"


def test_the_state_of_a_job_is_kept_from_run_to_run():
    async def reads(run):
        if run.state.read < 2:
            await run.change(lambda state: setattr(state, "read", state.read + 1))
            await run.stopping.wait()
            raise RuntimeError("told to stop")
        return Result(count=run.state.read)

    async def story():
        one = await process(app=app_with(reads))
        await one.start()
        states = []
        for _ in range(3):
            running = one.running(budget_ms=20_000)
            await one.clock.go(20_000)
            states.append((await running).state)
        assert states == ["stopped", "stopped", "ended"]
        assert await one.outcome() == Result(count=2)
        assert (await one.told()).restarts == 0

    asyncio.run(story())


def test_what_a_run_returns_after_it_was_told_to_stop_counts():
    async def returns(run):
        await run.stopping.wait()
        return Result(count=1)

    async def story():
        one = await process(app=app_with(returns))
        await one.start()
        running = one.running(budget_ms=20_000)
        await one.clock.go(20_000)
        return await running

    assert asyncio.run(story()).outcome == Done({"count": 1})


def test_a_run_that_does_not_stop_is_fenced_and_written_stopped():
    refused = []

    async def stubborn(run):
        await run.change(lambda state: setattr(state, "read", 1), within_ms=3_600_000)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                break
        try:
            await run.change(lambda state: setattr(state, "read", 9))
        except StaleWriter as error:
            refused.append(error)
        return Result(count=9)

    async def story():
        one = await process(app=app_with(stubborn))
        await one.start()
        running = one.running(budget_ms=20_000)
        await one.clock.go(20_000)
        driven = await running
        await settled()
        told = await one.told()
        read = (await one.state())["read"]
        return driven.state, told.phase, told.restarts, read, one.jobs.crew.under_way

    assert asyncio.run(story()) == ("stopped", "stopped", 0, 1, {})
    assert len(refused) == 1


def test_a_run_that_ignores_every_signal_never_runs_beside_itself():
    begun = []
    let_go = asyncio.Event()

    async def deaf(run):
        begun.append(run)
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return Result(count=1)

    async def story():
        one = await process(app=app_with(deaf))
        await one.start()
        running = one.running(budget_ms=20_000)
        await one.clock.go(20_000)
        await running

        again = one.running(budget_ms=60_000)
        await one.clock.go(CLOSE_MS)
        busy = (await again).state
        at_once = len(begun)
        let_go.set()
        await settled()
        ended = (await one.run()).state
        return busy, at_once, ended, len(begun)

    assert asyncio.run(story()) == ("busy", 1, "ended", 2)


def test_the_close_of_a_process_stops_its_runs():
    async def waits(run):
        await run.stopping.wait()
        raise RuntimeError("told to stop")

    async def story():
        one = await process(app=app_with(waits))
        await one.start()
        running = one.running()
        await settled()
        one.jobs.crew.closing.set()
        await settled()
        late = await one.run()
        return (await running).state, (await one.told()).phase, late.state

    assert asyncio.run(story()) == ("stopped", "stopped", "out_of_time")


def test_a_run_whose_caller_is_cancelled_is_stopped_in_order():
    async def waits(run):
        await run.change(lambda state: setattr(state, "read", 4), within_ms=3_600_000)
        await asyncio.Event().wait()

    async def story():
        store, clock = MemoryStore(), MovedClock()
        one = await process(store, app=app_with(waits), clock=clock)
        await one.start()
        running = one.running()
        await settled()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return (await one.told()).phase, await one.state()

    assert asyncio.run(story()) == ("stopped", {"read": 4, "text": ""})
