"""The state of a job: what its function sees, what the store has, and when the two are one."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.support.documents import REF
from tests.support.jobs import Look
from tests.support.running_jobs import (
    LEASE_MS,
    MovedClock,
    Result,
    State,
    app_with,
    process,
    settled,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.places import log_sort
from perdure.kernel.documents.records import Logged
from perdure.kernel.errors import Invalid, InvalidValue, StaleWriter
from perdure.kernel.ids import Seq
from perdure.kernel.view import Range

pytestmark = pytest.mark.stores

FOREVER_MS = 3_600_000


def setting(name, value):
    return lambda state: setattr(state, name, value)


async def contents(one):
    """Return what the log says that the job's state was told, its first base left out."""
    ranged = Range(REF.partition, log_sort(Seq(1)), "log0", Logged)
    entries = await one.jobs.crew.means.authority.execute(
        Look(REF, lambda view: [each.told() for each in view.find(ranged)])
    )
    told = [each["content"] for entry in entries for each in entry if "content" in each]
    return [each for each in told if each["kind"] == "delta" or "read" in each["value"]][1:]


def lived(work, *, ms=0, **more):
    """Let a run do ``work`` while ``ms`` pass, and return (process, what the store then has)."""

    async def function(run):
        await work(run)
        await asyncio.Event().wait()

    async def story():
        one = await process(app=app_with(function, **more))
        await one.start()
        running = one.running(budget_ms=600_000)
        await one.clock.go(ms)
        seen = await one.state(), await contents(one)
        running.cancel()
        await asyncio.wait({running})
        return seen

    return asyncio.run(story())


def test_a_change_is_durable_when_it_returns_and_its_copy_is_nobodys():
    async def work(run):
        copied = run.state
        copied.read = 9
        await run.change(setting("read", 1))
        assert run.state == State(read=1)

    state, told = lived(work)

    assert state == {"read": 1, "text": ""}
    assert [each["ops"] for each in told] == [[["s", ["read"], 1]]]


def test_an_edit_may_return_another_state():
    async def work(run):
        await run.change(lambda state: State(read=state.read + 5))

    assert lived(work)[0]["read"] == 5


def test_a_deferred_change_is_seen_at_once_and_stored_in_time():
    async def work(run):
        await run.change(setting("read", 1), within_ms=500)
        assert run.state.read == 1

    early, _ = lived(work, ms=499)
    late, told = lived(work, ms=500)

    assert (early["read"], late["read"]) == (0, 1)
    assert len(told) == 1


def test_the_earliest_of_some_deadlines_stores_them_all_as_one_delta():
    async def work(run):
        await run.change(setting("read", 1), within_ms=FOREVER_MS)
        await run.change(setting("text", "a"), within_ms=700)
        await run.change(lambda state: setattr(state, "text", state.text + "b"), within_ms=math.inf)
        await run.change(setting("read", 2), within_ms=900)

    early, _ = lived(work, ms=699)
    state, told = lived(work, ms=700)

    assert early == {"read": 0, "text": ""}
    assert state == {"read": 2, "text": "ab"}
    assert [len(each["ops"]) for each in told] == [4]


def test_a_change_that_is_not_deferred_takes_what_is_held_with_it():
    async def work(run):
        await run.change(setting("text", "a"), within_ms=FOREVER_MS)
        await run.change(setting("read", 1))

    state, told = lived(work)

    assert state == {"read": 1, "text": "a"}
    assert [each["ops"] for each in told] == [[["s", ["text"], "a"], ["s", ["read"], 1]]]


def test_what_is_stored_is_not_stored_again_at_its_deadline():
    async def work(run):
        await run.change(setting("text", "a"), within_ms=500)
        await run.change(setting("read", 1))

    assert len(lived(work, ms=5_000)[1]) == 1


def test_the_definition_says_when_a_base_is_written_and_is_asked_once_for_each_change():
    asked = []

    def checkpoint_when(value, ops, deltas):
        asked.append((value["read"], len(ops), deltas))
        return value["read"] == 2

    async def work(run):
        await run.change(setting("read", 1))
        await run.change(setting("read", 2), within_ms=FOREVER_MS)
        await run.change(setting("text", "a"), within_ms=FOREVER_MS)
        await run.change(setting("read", 3))

    state, told = lived(work, checkpoint_when=checkpoint_when)

    assert state == {"read": 3, "text": "a"}
    assert [each["kind"] for each in told] == ["delta", "base"]
    assert asked == [(1, 1, 0), (2, 1, 1), (2, 1, 1), (3, 1, 1)]


def test_a_change_that_says_nothing_new_is_no_commit():
    async def work(run):
        await run.change(setting("read", 0))

    assert lived(work)[1] == []


@pytest.mark.parametrize("within_ms", [-1, math.nan, -math.inf, True, "soon"], ids=repr)
def test_a_time_that_is_none_is_refused(within_ms):
    refused = []

    async def work(run):
        try:
            await run.change(setting("read", 1), within_ms=within_ms)
        except Invalid as error:
            refused.append(error)
        assert run.state.read == 0

    assert lived(work)[0]["read"] == 0
    assert len(refused) == 1


def test_a_state_of_another_shape_is_refused_and_nothing_changes():
    refused = []

    async def work(run):
        try:
            await run.change(lambda state: {"read": "many"})
        except InvalidValue as error:
            refused.append(error)
        assert run.state == State()

    assert lived(work)[1] == []
    assert len(refused) == 1


@pytest.mark.parametrize("within_ms", [None, FOREVER_MS])
def test_a_state_that_no_json_spells_is_refused_and_nothing_changes(within_ms):
    refused = []

    async def work(run):
        for value in (math.nan, math.inf):
            try:
                await run.change(lambda _, value=value: Depth(metres=value), within_ms=within_ms)
            except InvalidValue as error:
                refused.append(error)
        assert run.state == Depth()

    class Depth(State):
        metres: float = 0.0

    assert lived(work, state=Depth)[1] == []
    assert len(refused) == 2


def test_a_job_without_a_state_has_none_to_change():
    async def bare(run):
        assert run.state is None
        await run.change(lambda state: state)

    async def story():
        one = await process(app=app_with(bare, state=None))
        await one.start()
        await one.run()
        return (await one.told()).outcome

    assert asyncio.run(story()).error.error.code == "invalid"


# crashes, ends, stops


def test_held_state_is_stored_with_the_outcome_and_seen_by_the_finish():
    seen = []

    async def reads(run):
        await run.change(setting("read", 3), within_ms=math.inf)
        return Result(count=3)

    async def finish(ending):
        seen.append(ending.state)

    async def story():
        one = await process(app=app_with(reads, finish=finish))
        await one.start()
        await one.run()
        return await contents(one)

    told = asyncio.run(story())

    assert seen == [State(read=3)]
    assert [each["ops"] for each in told] == [[["s", ["read"], 3]]]


def test_held_state_is_lost_by_a_crash():
    async def works(run):
        if run.restarts:
            return Result(count=run.state.read)
        await run.change(setting("read", 1))
        await run.change(setting("read", 2), within_ms=math.inf)
        return await asyncio.Event().wait()

    async def story():
        store, clock = MemoryStore(), MovedClock()
        dead = await process(store, app=app_with(works), clock=clock)
        await dead.start()
        left = dead.running()
        await settled()
        clock.at += LEASE_MS  # nobody hears of the first process again
        other = await process(store, app=app_with(works), clock=clock, prefix="q")
        driven = await other.run()
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        return driven.outcome

    assert asyncio.run(story()).result == {"count": 1}


def test_a_deferred_change_that_must_forget_restarts_is_stored_at_once():
    async def works(run):
        await run.change(setting("read", run.state.read + 1), within_ms=math.inf)
        await asyncio.Event().wait()

    async def story():
        store, clock = MemoryStore(), MovedClock()
        left, states = [], []
        for prefix in "abc":
            one = await process(store, app=app_with(works), clock=clock, prefix=prefix)
            await one.start()
            left.append(one.running())
            await settled()
            states.append(((await one.told()).restarts, (await one.state())["read"]))
            clock.at += LEASE_MS
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return states

    assert asyncio.run(story()) == [(0, 0), (0, 1), (0, 2)]


def test_a_change_after_the_end_of_its_run_is_refused():
    runs = []

    async def returns(run):
        runs.append(run)
        return Result(count=0)

    async def story():
        one = await process(app=app_with(returns))
        await one.start()
        await one.run()
        with pytest.raises(StaleWriter, match="a run that is over"):
            await runs[0].change(setting("read", 1), within_ms=5)

    asyncio.run(story())
