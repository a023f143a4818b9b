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
