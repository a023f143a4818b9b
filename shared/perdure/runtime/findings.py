"""Findings: what is not as it should be, and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition
from perdure.kernel.inspect import INSPECTED_MAX, Held, Inspect
from perdure.kernel.view import Key, R
from perdure.runtime.ports import Executes

Kind = Literal[
    "head",
    "log",
    "manifest",
    "signature",
    "inline",
    "segment",
    "checkpoint",
    "landed",
    "settled",
    "page",
    "recomputed",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    ``recomputed`` means that the tick, computed again, comes to something else.
    """

    kind: Kind
    where: str
    expected: str
    found: str


async def inspected(
    authority: Executes, partition: Partition, keys: Sequence[Key[R]]
) -> list[Held[R]]:
    """Return what lies at ``keys``, whatever its bytes are."""
    found: list[Held[R]] = []
    for start in range(0, len(keys), INSPECTED_MAX):
        part = tuple(keys[start : start + INSPECTED_MAX])
        try:
            found += await authority.execute(Inspect(partition, part))
        except Corrupt:
            # One body cannot even be unpacked: ask for each alone, and it names itself.
            for key in part:
                found.append(await _alone(authority, partition, key))
    return found


async def _alone(authority: Executes, partition: Partition, key: Key[R]) -> Held[R]:
    try:
        (held,) = await authority.execute(Inspect(partition, (key,)))
    except Corrupt as error:
        return Held(None, f"{error.found} instead of {error.expected}")
    return held
