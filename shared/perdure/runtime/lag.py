"""Lag: how far the consumers of many worlds are behind, the worst of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from perdure.kernel.consumers import ConsumerInfo, ListConsumers
from perdure.kernel.errors import PerdureError
from perdure.kernel.places import WorldRef
from perdure.runtime.hints import LOOKS_AT_ONCE
from perdure.runtime.ports import Executes


async def lags(
    authority: Executes, refs: Iterable[WorldRef], *, go_on: Callable[[], bool] = lambda: True
) -> tuple[dict[str, int], list[tuple[WorldRef, PerdureError]]]:
    """Return, by name of consumer, the most log entries that one has not read in a world.

    And the worlds that could not be asked. ``go_on`` is asked before each world.
    """
    worst: dict[str, int] = {}
    failed: list[tuple[WorldRef, PerdureError]] = []
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def ask(ref: WorldRef) -> tuple[ConsumerInfo, ...]:
        async with gate:
            try:
                return await authority.execute(ListConsumers(ref)) if go_on() else ()
            except PerdureError as error:
                failed.append((ref, error))
                return ()

    for consumers in await asyncio.gather(*(ask(ref) for ref in refs)):
        for each in consumers:
            worst[each.name] = max(worst.get(each.name, 0), each.lag)
    return worst, failed
