"""Private worlds: a workflow's own world, alive as long as the block that works in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from perdure.kernel.create import CreateWorld
from perdure.kernel.errors import Refused, Unavailable
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder, WorldId
from perdure.kernel.private import Retire
from perdure.runtime.close import destroy
from perdure.runtime.tick import Means, Ticker
from perdure.runtime.worlds import Worlds

BEATS_PER_LEASE: Final = 4
"""Renewals tried while one lease runs: a few may fail and the fence is still held."""

RETIRE_TRIES: Final = 5
"""Times the end of a private world is tried before it is left to the sweeper."""


@dataclass(frozen=True, slots=True)
class PrivateGrip:
    """What works in a private world: its id, and the holder and writer nobody else has."""

    world_id: WorldId
    holder: Holder
    ticker: Ticker


@asynccontextmanager
async def private_world(
    means: Means,
    worlds: Worlds,
    name: str,
    *,
    world_id: str | None = None,
    kind: str = "",
    lease_ms: int,
) -> AsyncIterator[PrivateGrip]:
    """Create a world that only this block works in, and destroy it when the block ends.

    However it ends: also under cancellation, which is raised again after the world's end, and
    when it is not known whether the world was created. What cannot be ended now (the failure
    says so) is ended by the sweeper once its lease has run out. Failures of the block and of
    the end are raised together, as an ExceptionGroup.
    Raises: Invalid kinds, NameTaken, Conflict, NotResumable, WorldDestroyed, Unavailable kinds.
    """
    holder = Holder(means.new_token())
    creation = worlds.creation(
        name,
        world_id=world_id,
        kind=kind,
        writer_mode="cleanup_only",
        holder=holder,
        lease_ms=lease_ms,
    )
    await _created(means, creation)
    ticker = Ticker(means, holder, lease_ms=lease_ms)
    heartbeat = asyncio.create_task(_renewed(means, creation))
    failures: list[BaseException] = []
    try:
        yield PrivateGrip(creation.ref.world, holder, ticker)
    except BaseException as error:  # noqa: BLE001  # raised again, once the world has ended
        failures.append(error)
    failures += await _to_the_end(_retired(means, creation, heartbeat))
    _raise(failures)


async def _created(means: Means, creation: CreateWorld) -> None:
    try:
        await means.authority.execute(creation)
    except Refused:
        raise
    except BaseException as error:  # noqa: BLE001  # raised again; it may exist by now
        retire = Retire(creation.ref, creation.name, creation.run, creation.kind, creation.app)
        end = partial(means.authority.execute, retire)
        _raise([error, *await _to_the_end(_persistently(means, end))])


async def _persistently(means: Means, end: Callable[[], Awaitable[object]]) -> None:
    for attempt in range(RETIRE_TRIES - 1):
        try:
            await end()
        except Unavailable:
            await means.pause(0.05 * 2**attempt)
        else:
            return
    await end()


async def _retired(means: Means, creation: CreateWorld, heartbeat: asyncio.Task[None]) -> None:
    """Destroy the world; its lease is renewed until that has begun."""
    try:
        end = partial(destroy, means, creation.ref, lease_ms=creation.lease_ms)
        await _persistently(means, end)
    finally:
        heartbeat.cancel()
        await asyncio.wait({heartbeat})
        if not heartbeat.cancelled():
            heartbeat.result()


async def _renewed(means: Means, creation: CreateWorld) -> None:
    """Renew the fence until cancelled, or until the world is no longer its holder's."""
    assert creation.holder is not None, "a private world has a holder"
    request = TakeFence(creation.ref, creation.holder, creation.lease_ms)
    while True:
        await means.pause(creation.lease_ms / BEATS_PER_LEASE / 1_000)
        try:
            await means.authority.execute(request)
        except Unavailable:
            continue  # the next beat tries again; several fit into what is left
        except Refused:
            return  # somebody has destroyed the world: whatever is done in it next says so


async def _to_the_end(work: Coroutine[Any, Any, None]) -> list[BaseException]:
    """Await ``work`` however often the caller is cancelled; return what failed, and that."""
    task = asyncio.create_task(work)
    failures: list[BaseException] = []
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            failures = [error]
    failed = task.exception()
    return failures if failed is None else [failed, *failures]


def _raise(failures: list[BaseException]) -> None:
    """Raise what failed: a cancellation as itself, caused by the rest; several as a group."""
    cancelled = next((each for each in failures if not isinstance(each, Exception)), None)
    others = [each for each in failures if isinstance(each, Exception)]
    cause = ExceptionGroup("a private world and its end", others) if len(others) > 1 else None
    if cancelled is not None:
        raise cancelled from (cause or next(iter(others), None))
    if others:
        raise cause or others[0]
