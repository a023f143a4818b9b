"""Forks beside rivals, lost answers and deaths: one fork or none, as of one moment."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.harness import Fuel, Place, harness, no_pause
from tests.support.children import children, let_go
from tests.support.forking import STORES, Interrupted, rig, wish

from perdure import Spawn
from perdure.authority.memory import Crashed, Fault, FaultPlan
from perdure.kernel import limits
from perdure.kernel.errors import (
    Conflict,
    Contended,
    Invalid,
    NameTaken,
    NotFound,
    NotPublished,
    NotResumable,
    StoreUnavailable,
    TooManyPending,
    UnknownWriterMode,
    WorldClosing,
    WorldDestroyed,
    WorldMoved,
    WorldMoving,
)
from perdure.kernel.fork import Birth
from perdure.kernel.fork_source import ReadGroups, ReadPages, Source
from perdure.kernel.ids import Tick
from perdure.kernel.records import head_key
from perdure.runtime.fork import FORK_TRIES, fork

pytestmark = pytest.mark.lifecycle


@pytest.fixture
def memory(tmp_path, request):
    """Open a rig on a store in memory."""
    return lambda **options: rig("memory", tmp_path, request, **options)


async def admitting(h):
    await h.worlds.submit("w", [Spawn(Place(x=7, y=7), tick=4)])  # opens a page of its own


async def opening(h):
    """Admit something for a tick of its own, which opens a page."""
    at = (await h.worlds.describe("w")).pending_commands + 50
    await h.worlds.submit("w", [Spawn(Place(x=7, y=7), tick=at)])


async def cancelling(h):
    await h.worlds.cancel("w", "late")


async def cancelling_all(h):
    await h.worlds.cancel_all("w", "stop")


async def publishing(h):
    await h.run("w", 3)


RIVALS = [admitting, cancelling, cancelling_all, publishing]


@pytest.mark.parametrize("before", [ReadPages, ReadGroups, Birth])
@pytest.mark.parametrize("rival", RIVALS)
async def test_a_fork_is_its_source_at_one_moment_whoever_writes_meanwhile(memory, rival, before):
    async with memory() as h:
        await h.harbour()
        beside = Interrupted(h.authority, before, lambda: rival(h))

        info = await fork(beside, wish("w", "child"), pause=no_pause)
        is_late = before in {ReadGroups, Birth}
        await h.run("child", 6)
        await h.run("w", 6)

        assert beside.times == 0
        assert info.published_tick == (3 if rival is publishing and not is_late else 2)
        same = await h.rows("child") == await h.rows("w")
        assert same is (rival is publishing or not is_late)


@pytest.mark.parametrize("store", STORES)
async def test_a_source_ticks_on_while_it_is_forked(store, tmp_path, request):
    async with rig(store, tmp_path, request) as h:
        await h.harbour()
        beside = Interrupted(h.authority, ReadPages, lambda: publishing(h))

        info = await fork(beside, wish("w", "child"), pause=no_pause)
        await h.run("child", 5)
        await h.run("w", 5)

        assert info.published_tick == 3
        assert await h.rows("child") == await h.rows("w")


async def test_a_source_that_opens_page_after_page_is_unavailable_and_leaves_no_fork(memory):
    async with memory() as h:
        await h.harbour()
        beside = Interrupted(h.authority, ReadPages, lambda: opening(h), times=FORK_TRIES)

        with pytest.raises(Contended):
            await fork(beside, wish("w", "child"), pause=no_pause)

        with pytest.raises(NotFound):
            await h.worlds.describe("child")
        assert beside.times == 0


class Hiding:
    """An authority whose ranges leave out a page at first, as beside a running transaction."""

    def __init__(self, inner, times):
        self.inner, self.times = inner, times

    async def execute(self, asked):
        found = await self.inner.execute(asked)
        if isinstance(found, Source) and self.times:
            self.times -= 1
            return replace(found, names=frozenset(sorted(found.names)[1:]))
        return found


@pytest.mark.parametrize(("times", "verdict"), [(2, "whole"), (FORK_TRIES, "none")])
async def test_a_page_that_its_range_hides_is_missed_and_looked_for_again(memory, times, verdict):
    async with memory() as h:
        await h.harbour()
        beside = Hiding(h.authority, times)

        if verdict == "none":
            with pytest.raises(Contended):
                await fork(beside, wish("w", "child"), pause=no_pause)
            return
        info = await fork(beside, wish("w", "child"), pause=no_pause)

        assert info.pending_commands == (await h.worlds.describe("w")).pending_commands > 0


@pytest.mark.parametrize("store", STORES)
async def test_the_same_id_is_the_same_fork_whatever_became_of_its_source(store, tmp_path, request):
    async with rig(store, tmp_path, request) as h:
        await h.harbour()
        first = await h.fork("w", "child")
        await h.run("w", 4)
        await h.run("child", 3)

        again = await h.fork("w", "child", pending="drop")

        assert again.run_id == first.run_id
        assert (again.published_tick, again.pending_commands) == (3, 1)
        listed, _ = await h.worlds.discover()
        assert [info.world_id for info in listed] == ["child", "w"]


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"name": "another"}, Conflict),
        ({"source": "v"}, Conflict),
        ({"at_tick": Tick(4)}, Conflict),
        ({"child": "other", "name": "a child"}, NameTaken),
    ],
)
async def test_another_identity_under_a_known_id_or_name_is_refused(memory, change, refusal):
    async with memory() as h:
        await h.harbour()
        await h.worlds.create("quay", world_id="v", kind="port")
        await fork(h.authority, wish("w", "child"), pause=no_pause)
        before = h.everything()
        asked = wish(change.pop("source", "w"), change.pop("child", "child"))

        with pytest.raises(refusal):
            await fork(h.authority, replace(asked, **change), pause=no_pause)

        assert h.everything() == before


@pytest.mark.parametrize("fault", [Fault.LOST_AFTER, Fault.LOST_BEFORE, Fault.DUPLICATE])
async def test_a_lost_answer_makes_no_second_fork(memory, fault):
    async with memory() as h:
        await h.harbour()
        h.store.plan = FaultPlan(commits={h.store.commits + 1: fault})

        info = await h.fork("w", "child")
        again = await h.fork("w", "child")

        assert again == info
        listed, _ = await h.worlds.discover()
        assert len(listed) == 2


@pytest.mark.parametrize(
    ("fault", "is_there"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)]
)
async def test_a_fork_whose_maker_dies_is_there_as_a_whole_or_not_at_all(memory, fault, is_there):
    async with memory() as h:
        await h.harbour()
        before = h.everything()
        dying = harness(Path("unused"), h.app, h.store.reopened(FaultPlan(commits={1: fault})))

        with pytest.raises(Crashed):
            await fork(dying.authority, wish("w", "child"), pause=no_pause)

        assert (h.everything() == before) is not is_there
        await fork(h.authority, wish("w", "child"), pause=no_pause)
        await h.run("child", 5)
        await h.run("w", 5)
        assert await h.rows("child") == await h.rows("w")


async def test_a_store_that_does_not_answer_leaves_no_fork(memory):
    async with memory() as h:
        await h.harbour()
        before = h.everything()
        plan = dict.fromkeys(range(h.store.commits + 1, h.store.commits + 99), Fault.THROTTLE)
        h.store.plan = FaultPlan(commits=plan)

        with pytest.raises(StoreUnavailable):
            await h.fork("w", "child")

        assert h.everything() == before


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"status": "closing"}, WorldClosing),
        ({"status": "destroyed"}, WorldDestroyed),
        ({"status": "moving"}, WorldMoving),
        ({"status": "moved"}, WorldMoved),
        ({"writer_mode": "cleanup_only"}, NotResumable),
        ({"writer_mode": "shared"}, UnknownWriterMode),
    ],
)
async def test_a_source_that_may_not_be_gone_on_with_is_not_forked(memory, change, refusal):
    async with memory() as h:
        await h.harbour()
        head = h.held(head_key(h.worlds.ref("w").partition))
        h.plant(replace(head, **change))
        before = h.everything()

        with pytest.raises(refusal):
            await h.fork("w", "child")

        assert h.everything() == before


@pytest.mark.parametrize(("tick", "refusal"), [(3, NotPublished), (1, Conflict), (0, Conflict)])
async def test_only_the_published_tick_can_be_forked(memory, tick, refusal):
    async with memory() as h:
        await h.harbour()
        before = h.everything()

        with pytest.raises(refusal, match="published tick"):
            await h.fork("w", "child", at_tick=tick)

        assert h.everything() == before
        assert (await h.fork("w", "child", at_tick=2)).published_tick == 2


@pytest.mark.parametrize("asked", [{"pending": "keep"}, {"at_tick": -1}, {"every_ms": 5}], ids=str)
async def test_a_malformed_wish_is_refused_and_makes_nothing(memory, asked):
    async with memory() as h:
        await h.worlds.create("harbour", world_id="w")
        before = h.everything()

        with pytest.raises(Invalid):
            await h.fork("w", "child", **asked)

        assert h.everything() == before


async def test_a_source_that_does_not_exist_cannot_be_forked(memory):
    async with memory() as h:
        with pytest.raises(NotFound):
            await h.fork("nowhere", "child")

        assert h.everything() == {}


async def test_more_pages_than_one_commit_writes_are_refused_and_cancelled_ones_do_not_count(
    memory,
):
    async with memory() as h:
        await h.harbour()
        await h.worlds.cancel_all("w", "first")
        for batch in range(0, limits.FORK_PAGES_MAX, limits.BATCH_GROUPS_MAX):
            ticks = range(batch, min(batch + limits.BATCH_GROUPS_MAX, limits.FORK_PAGES_MAX))
            await h.worlds.submit("w", [Spawn(Fuel(litres=1), tick=10 + tick) for tick in ticks])
        full = await h.fork("w", "full")
        (over,) = (await h.worlds.submit("w", [Spawn(Fuel(litres=1), tick=99)])).receipts
        before = h.everything()

        with pytest.raises(TooManyPending):
            await h.fork("w", "child")
        unchanged = h.everything() == before
        dropped = await h.fork("w", "dropped", pending="drop")
        await h.worlds.cancel("w", over.command_id)
        again = await h.fork("w", "again")

        assert unchanged
        assert [full.pending_commands, again.pending_commands] == [
            limits.FORK_PAGES_MAX,
            limits.FORK_PAGES_MAX,
        ]
        assert dropped.pending_commands == 0


PROCESSES = 8
SECONDS = 120


def test_processes_that_fork_one_world_at_once_make_one_fork(tmp_path):
    asyncio.run(prepared(tmp_path))
    path = tmp_path / "store.db"
    commands = [
        (sys.executable, "-c", _CHILD.format(sys.path), path, number) for number in range(PROCESSES)
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    with children(commands, **pipes) as rivals:
        let_go(rivals)
        told = [rival.communicate(timeout=SECONDS)[0].split() for rival in rivals]

    assert [rival.returncode for rival in rivals] == [0] * PROCESSES
    same_id = {runs for runs, _ in told}
    names = [verdict for _, verdict in told]
    assert len(same_id) == 1
    assert sorted(names) == ["lost"] * (PROCESSES - 1) + ["won"]


_CHILD = """
import sys
sys.path[:] = {!r}
from tests.support.forkers import child
child()
"""


async def prepared(directory):
    async with rig("sqlite", directory) as h:
        await h.harbour()
