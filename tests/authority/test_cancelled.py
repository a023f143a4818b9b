"""Whatever is cancelled under an authority, nobody waits for ever, and the next request is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.authority.test_in_place import Here, InPlace

from perdure.authority.memory import Fault, FaultPlan, MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.authority.store import Store
from perdure.authority.testing.records import Add, put
from perdure.authority.testing.registry import authority

Mine = asyncio.Task[int] | asyncio.Task[None]


def others(*mine: Mine) -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {*mine, asyncio.current_task()}


async def cancelled_before_they_begin(*mine: Mine, begun: Callable[..., bool]) -> None:
    """Cancel what ``mine`` have begun, as soon as there is any of it and before it runs."""
    for _ in range(10):
        await asyncio.sleep(0)
        if begun():
            break
    for task in others(*mine):
        task.cancel()


@pytest.mark.parametrize("turns", range(4))
async def test_a_line_that_is_cancelled_answers_and_the_next_request_is_served(turns: int) -> None:
    engine = authority(MemoryStore())
    asked = asyncio.create_task(engine.execute(Add()))
    for _ in range(turns):
        await asyncio.sleep(0)

    for task in others(asked):
        task.cancel()
    await asyncio.wait({asked}, timeout=60)

    assert asked.done()
    async with asyncio.timeout(60):
        assert await engine.execute(Add()) in {1, 2}
        await engine.close()


async def test_a_close_beside_a_line_that_is_cancelled_closes_the_store() -> None:
    store = MemoryStore()
    engine = authority(store)
    asked = asyncio.create_task(engine.execute(Add()))
    await cancelled_before_they_begin(asked, begun=lambda: bool(others(asked)))

    async with asyncio.timeout(60):
        await engine.close()

    assert store._is_closed
    await asyncio.gather(asked, return_exceptions=True)


async def test_a_writer_of_sqlite_that_is_cancelled_before_it_begins_keeps_nobody(
    tmp_path: Path,
) -> None:
    store: Store = await SqliteStore.open(tmp_path / "store.db")
    sent = asyncio.create_task(store.commit(put("a", b"1", by="t1")))
    await cancelled_before_they_begin(sent, begun=lambda: bool(others(sent)))

    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await sent
        await store.commit(put("b", b"1", by="t2"))
        await store.close()


async def test_what_was_sent_in_the_very_call_and_not_answered_keeps_nobody_when_cancelled() -> (
    None
):
    engine = authority(Here().reopened(FaultPlan({2: Fault.LOST_AFTER})))
    await engine.execute(InPlace(Add()))
    asked = asyncio.create_task(engine.execute(InPlace(Add())))
    await cancelled_before_they_begin(asked, begun=lambda: bool(others(asked)))

    await asyncio.wait({asked}, timeout=5)

    assert asked.cancelled()
    assert await engine.execute(InPlace(Add())) == 3
