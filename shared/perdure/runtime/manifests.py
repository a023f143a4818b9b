"""Manifests of consecutive ticks, however many reads they take."""

from __future__ import annotations

from perdure.kernel.ids import Partition, Tick
from perdure.kernel.reading import FindManifests
from perdure.kernel.records import Manifest
from perdure.runtime.ports import Executes


async def manifests_of(
    authority: Executes, partition: Partition, first: Tick, last: Tick
) -> list[Manifest]:
    """Return the manifests of published ticks, ``first`` and ``last`` included. Raises Corrupt."""
    found: list[Manifest] = []
    while first + len(found) <= last:
        begin = Tick(first + len(found))
        found += await authority.execute(FindManifests(partition, begin, last))
    return found
