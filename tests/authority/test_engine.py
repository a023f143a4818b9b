"""What the engine does with callers, groups and bugs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from perdure.authority.engine import Authority
from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.authority.testing import CountingStore
from perdure.authority.testing.records import HERE, Add, Look, Tell, counter
from perdure.authority.testing.registry import NOON, authority, tokens
from perdure.kernel.commit import Commit
from perdure.kernel.ids import Instant, Partition
from perdure.kernel.view import Decision, Reads, View


@dataclass(frozen=True, slots=True)
class Buggy:
    once: ClassVar[bool] = False

    stream: Partition = HERE

    def reads(self) -> Reads:
        return Reads(keys=(counter("c"),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        raise ZeroDivisionError


class SlowStore:
    """Commits only when it is told to."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()

    async def load(self, reads: Reads) -> View:
        return await self.inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        self.reached.set()
        await self.let_go.wait()
        await self.inner.commit(commit)

    async def close(self) -> None:
        await self.inner.close()


def test_a_bug_in_one_decision_is_that_callers_alone() -> None:
    async def story() -> list[Any]:
        engine = authority(MemoryStore())
        return await asyncio.gather(
            engine.execute(Add()),
            engine.execute(Buggy()),
            engine.execute(Add()),
            return_exceptions=True,
        )

    first, bug, second = asyncio.run(story())

    assert (first, second) == (1, 2)
    assert isinstance(bug, ZeroDivisionError)


def test_a_caller_cancelled_while_its_commit_is_under_way_undoes_nothing() -> None:
    async def story() -> tuple[list[Any], tuple[int, ...]]:
        store = SlowStore(MemoryStore())
        engine = authority(store)
        tasks = [asyncio.create_task(engine.execute(Add())) for _ in range(3)]
        await store.reached.wait()
        tasks[0].cancel()
        store.let_go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return answers, await engine.execute(Look(("c",)))

    answers, count = asyncio.run(story())

    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [2, 3]
    assert count == (3,)


def test_callers_that_come_during_a_commit_share_the_next() -> None:
    async def story() -> tuple[list[int], int]:
        counting = CountingStore(MemoryStore())
        store = SlowStore(counting)
        engine = authority(store)
        first = asyncio.create_task(engine.execute(Add()))
        await store.reached.wait()
        others = [asyncio.create_task(engine.execute(Add())) for _ in range(9)]
        await asyncio.sleep(0)
        store.let_go.set()
        return await asyncio.gather(first, *others), len(counting.commits)

    assert asyncio.run(story()) == (list(range(1, 11)), 2)


def test_streams_that_are_idle_leave_nothing_behind() -> None:
    async def story() -> int:
        engine = authority(MemoryStore())
        await asyncio.gather(*(engine.execute(Add(stream=Partition(f"s/{n}"))) for n in range(50)))
        await asyncio.sleep(0)
        return len(engine._lines)

    assert asyncio.run(story()) == 0


def test_closing_waits_for_what_was_asked() -> None:
    async def story() -> int:
        records = MemoryStore()
        engine = authority(records.reopened())
        asked = asyncio.create_task(engine.execute(Add()))
        await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        return await asked

    assert asyncio.run(story()) == 1


def test_a_loop_that_ends_leaves_no_caller_waiting() -> None:
    async def story() -> None:
        store = SlowStore(MemoryStore())
        engine = authority(store)
        asyncio.create_task(engine.execute(Add()))  # noqa: RUF006
        await store.reached.wait()

    asyncio.run(story())


def test_pauses_grow_and_are_drawn_from_the_source_of_chance() -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def story() -> None:
        records = MemoryStore()
        rival = authority(records.reopened(), "rival")

        class Pestered(CountingStore):
            async def commit(self, commit: Commit) -> None:
                if len(self.commits) < 4:
                    await rival.execute(Add())
                await super().commit(commit)

        engine = Authority(
            Pestered(records), lambda: NOON, tokens(), chance=lambda: 0.5, pause=pause
        )
        await engine.execute(Add())

    asyncio.run(story())

    assert pauses == pytest.approx([0.005, 0.01, 0.02, 0.04])


def test_a_read_that_waits_behind_nothing_costs_one_load() -> None:
    async def story() -> tuple[int, int]:
        store = CountingStore(MemoryStore())
        engine = authority(store)
        await engine.execute(Tell("id", "text"))
        before = store.loads
        await engine.execute(Look(("told",)))
        return store.loads - before, len(store.commits)

    assert asyncio.run(story()) == (1, 1)
