"""The writer's side of a world's choice: what it costs, and what a death leaves of a change."""

from __future__ import annotations

import contextlib

import pytest
from tests.runtime.harness import Place, harness
from tests.runtime.test_tick_cost import Counting

from perdure import App, Spawn
from perdure.authority.memory import Crashed, Fault, FaultPlan, MemoryStore
from perdure.runtime.configure import Configuring
from perdure.runtime.resources import NO_RESOURCES, Pool

pytestmark = pytest.mark.lifecycle


def idle_app():
    app = App("test")
    for name in ("rest", "wait"):
        app.processor(Place, name=name)(lambda rows, tick: rows)
    return app


async def test_warm_tick_of_a_world_that_chose_costs_no_request_more(tmp_path):
    store = Counting()
    h = harness(tmp_path, idle_app(), store)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    ref, ticker = h.worlds.ref("w"), h.ticker()
    configuring = Configuring(h.authority, h.app)
    await configuring.remove("processor", ref, "rest")
    _, grip = await ticker.tick(ref, await ticker.take(ref), keep=True)
    asked = []

    for change in (False, True, False):
        if change:
            await configuring.add("processor", ref, "rest")
            # The head that this tick knows is the one before the change.
            _, grip = await ticker.tick(ref, grip, keep=True)
        store.asked.clear()
        _, grip = await ticker.tick(ref, grip, keep=True)
        asked.append(list(store.asked))

    assert asked == [["load", "commit"], ["load", "load", "commit"], ["load", "commit"]]


@pytest.mark.parametrize(
    ("commits", "left"),
    [
        ({2: Fault.CRASH_BEFORE}, ("rest", "wait")),
        ({2: Fault.CRASH_AFTER}, ("wait",)),
        ({2: Fault.LOST_BEFORE}, ("wait",)),
        ({2: Fault.LOST_AFTER}, ("wait",)),
        ({2: Fault.DUPLICATE}, ("wait",)),
        ({2: Fault.CONFLICT}, ("wait",)),
    ],
    ids=str,
)
async def test_change_is_whole_or_absent_after_a_death_and_asking_again_ends_the_same(
    tmp_path, commits, left
):
    records = MemoryStore()
    faulty = harness(tmp_path, idle_app(), records.reopened(FaultPlan(commits)))
    await faulty.worlds.create("harbour", world_id="w")
    ref = faulty.worlds.ref("w")
    with contextlib.suppress(Crashed):
        await Configuring(faulty.authority, faulty.app).remove("processor", ref, "rest")
    h = harness(tmp_path, idle_app(), records.reopened())
    again = Configuring(h.rival_authority("again-"), h.app)

    found = await again.listed("processor", ref)
    ended = await again.remove("processor", ref, "rest")

    entries = [each.kind for each in await h.worlds.log("w")]
    assert tuple(each.name for each in found) == left
    assert [each.name for each in ended] == ["wait"]
    assert entries.count("configured") == 1


async def test_first_tick_of_a_process_reads_the_choice_before_it_takes_the_fence(tmp_path):
    h = harness(tmp_path, idle_app())
    await h.worlds.create("harbour", world_id="w")
    ref = h.worlds.ref("w")
    await Configuring(h.authority, h.app).remove("processor", ref, "rest")

    poorer = h.ticker(app=App("test"))

    with pytest.raises(Exception, match="processor 'wait' of the world") as refused:
        await poorer.take(ref)
    assert refused.value.code == "unknown_processor"
    assert (await h.worlds.describe("w")).epoch == 0


def test_resources_are_those_named_and_no_others():
    pool = Pool()
    pool.add("chart", dict)
    pool.add("map", dict)

    some = pool.only(["map"])

    assert list(some) == ["map"]
    assert ("map" in some, "chart" in some, "map" in NO_RESOURCES) == (True, False, False)
    assert some["map"] is pool.only(["map", "chart"])["map"]
