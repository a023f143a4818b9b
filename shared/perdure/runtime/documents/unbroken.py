"""Work that goes on when whoever has asked for it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class UnderWay:
    """How many pieces of work somebody of this process waits for, whoever does them."""

    count: int = 0


class Unbroken:
    """Pieces of work under way, each in a task of its own: a caller that goes away takes back none."""

    def __init__(self, under_way: UnderWay) -> None:
        self._under_way = under_way
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_alone(self) -> bool:
        """Say of a piece of work that runs whether nobody waits for another one."""
        return self._under_way.count == 1

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a piece of work comes to, and raise what it raises."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_answered(work, answer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._left, work, answer))
        self._under_way.count += 1
        try:
            return await answer
        finally:
            self._under_way.count -= 1

    def _left(
        self, work: Coroutine[Any, Any, T], answer: asyncio.Future[T], task: asyncio.Task[None]
    ) -> None:
        """Let nobody wait for a task that was cancelled before it began."""
        self._tasks.discard(task)
        work.close()
        answer.cancel()

    async def ended(self) -> None:
        """Wait for all that was asked for by now."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _answered(work: Coroutine[Any, Any, T], answer: asyncio.Future[T]) -> None:
    """Do a piece of work and tell of it, unless nobody waits any more: no one else is told."""
    try:
        found = await work
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except BaseException as error:
        if not answer.done():
            answer.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        if not answer.done():
            answer.set_result(found)
