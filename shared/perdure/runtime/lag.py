"""Lag: how far the consumers of many worlds are behind, the worst of each."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.kernel.consumers import ListConsumers
from perdure.kernel.places import WorldRef
from perdure.runtime.ports import Executes


async def lags(authority: Executes, refs: Iterable[WorldRef]) -> dict[str, int]:
    """Return, by name of consumer, the most log entries that one has not read in a world."""
    worst: dict[str, int] = {}
    for ref in refs:
        for each in await authority.execute(ListConsumers(ref)):
            worst[each.name] = max(worst.get(each.name, 0), each.lag)
    return worst
