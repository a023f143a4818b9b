"""Work that goes on when whoever has asked for it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class UnderWay:
    """How many pieces of work somebody of this process waits for, whoever does them."""

    count: int = 0


class Unbroken:
    """Pieces of work under way, none of which is taken back by a caller that goes away.

    Work that waits for nothing is done where it was asked for, after one turn of the event loop; any
    other is in a task of its own.
    """

    def __init__(self, under_way: UnderWay) -> None:
        self._under_way = under_way
        self._begins = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_alone(self) -> bool:
        """Say of a piece of work that runs whether nobody waits for another one."""
        return self._under_way.count == 1

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a piece of work comes to, and raise what it raises."""
        self._under_way.count += 1
        try:
            await self._turn(work)
            try:
                waits_for = work.send(None)
            except StopIteration as done:
                found: T = done.value
                return found
            return await self._apart(_resumed(work, waits_for))
        finally:
            self._under_way.count -= 1

    async def _turn(self, work: Coroutine[Any, Any, T]) -> None:
        """Let whoever else is about to ask say so. Who goes away meanwhile has asked already."""
        self._begins += 1
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._apart(work).cancel()  # nobody waits for it
            raise
        finally:
            self._begins -= 1

    def _apart(self, work: Awaitable[T]) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_answered(work, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer

    async def ended(self) -> None:
        """Wait for all that was asked for by now."""
        while self._begins:  # noqa: ASYNC110  # each of them for one turn
            await asyncio.sleep(0)
        if self._tasks:
            await asyncio.wait(self._tasks)


@coroutine
def _resumed(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Go on with work that was begun, and waits for something."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:  # noqa: BLE001  # the work's, whatever it is
            go_on = partial(work.throw, error)
        else:
            go_on = partial(work.send, sent)
        try:
            waits_for = go_on()
        except StopIteration as done:
            found: T = done.value
            return found


async def _answered(work: Awaitable[T], answer: asyncio.Future[T]) -> None:
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
