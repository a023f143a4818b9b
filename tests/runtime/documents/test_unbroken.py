"""Unbroken work goes on when its caller has gone, and tells nobody else how it went."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from perdure.runtime.documents.unbroken import Unbroken, UnderWay

pytestmark = pytest.mark.stores


async def test_a_caller_is_told_what_the_work_comes_to_or_raises() -> None:
    unbroken = Unbroken(UnderWay())

    async def found() -> int:
        return 5

    async def refused() -> int:
        raise KeyError("refused")

    assert await unbroken.run(found()) == 5
    with pytest.raises(KeyError, match="refused"):
        await unbroken.run(refused())


@pytest.mark.parametrize("fails", [False, True])
async def test_work_goes_on_without_its_caller_and_its_end_is_waited_for(*, fails: bool) -> None:
    unbroken, go, done = Unbroken(UnderWay()), asyncio.Event(), []
    untold: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: untold.append(told))

    async def work() -> None:
        await go.wait()
        done.append(True)
        if fails:
            raise KeyError("nobody hears it")

    caller = asyncio.create_task(unbroken.run(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    await unbroken.ended()
    gc.collect()

    assert done == [True]
    assert not untold


async def test_work_that_is_cancelled_cancels_its_caller() -> None:
    unbroken = Unbroken(UnderWay())

    async def work() -> None:
        raise asyncio.CancelledError

    caller = asyncio.create_task(unbroken.run(work()))

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert caller.cancelled()


async def test_work_that_waits_for_nothing_is_done_after_one_turn_and_in_no_task_of_its_own() -> (
    None
):
    unbroken, tasks = Unbroken(UnderWay()), []

    async def work() -> None:
        tasks.append(asyncio.current_task())

    others = 0

    async def other() -> None:
        nonlocal others
        for _ in range(3):
            await asyncio.sleep(0)
            others += 1

    beside = asyncio.create_task(other())
    for _ in range(3):
        await unbroken.run(work())

    assert set(tasks) == {asyncio.current_task()}
    assert others >= 2
    await beside


async def test_work_that_waits_is_sent_what_it_waits_for_and_raises_what_it_meets() -> None:
    unbroken = Unbroken(UnderWay())
    seen: list[str] = []

    async def work() -> str:
        for text in ("a", "b"):
            await asyncio.sleep(0)
            seen.append(text)
        fails = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(fails.set_exception, KeyError("c"))
        try:
            await fails
        except KeyError as error:
            seen.append(error.args[0])
        return await asyncio.to_thread(lambda: "d")

    assert await unbroken.run(work()) == "d"
    assert seen == ["a", "b", "c"]


async def test_who_goes_away_before_the_first_turn_has_asked_already() -> None:
    unbroken, done = Unbroken(UnderWay()), []

    async def work() -> None:
        done.append(True)

    caller = asyncio.create_task(unbroken.run(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await unbroken.ended()

    assert done == [True]


async def test_what_has_only_just_been_asked_for_is_waited_for_at_the_end() -> None:
    unbroken, done = Unbroken(UnderWay()), []

    async def work() -> None:
        done.append(True)

    callers = [asyncio.create_task(unbroken.run(work())) for _ in range(2)]
    await asyncio.sleep(0)

    await unbroken.ended()

    assert done == [True, True]
    await asyncio.gather(*callers)


async def test_work_is_alone_while_nobody_waits_for_another_piece_whoever_does_it() -> None:
    under_way = UnderWay()
    one, other = Unbroken(under_way), Unbroken(under_way)
    found: list[bool] = []

    async def look(unbroken: Unbroken) -> None:
        found.append(unbroken.is_alone)
        await asyncio.sleep(0)

    await one.run(look(one))
    await asyncio.gather(one.run(look(one)), other.run(look(other)))
    await other.run(look(other))

    assert found == [True, False, False, True]
