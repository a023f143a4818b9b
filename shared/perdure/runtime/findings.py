"""Findings: what is not as it should be, and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.kernel import limits
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
    """Return what lies at ``keys``, whatever its bytes are.

    What is not there is looked for again as of one moment: a running commit may have hidden it.
    """
    held = dict(zip(keys, await _looked(authority, partition, keys), strict=True))
    hidden = [key for key, each in held.items() if each == Held(None)]
    held |= zip(hidden, await _looked(authority, partition, hidden, at_once=True), strict=True)
    return [held[key] for key in keys]


async def _looked(
    authority: Executes, partition: Partition, keys: Sequence[Key[R]], *, at_once: bool = False
) -> list[Held[R]]:
    size = limits.LOAD_KEYS_MAX if at_once else INSPECTED_MAX
    found: list[Held[R]] = []
    for start in range(0, len(keys), size):
        part = tuple(keys[start : start + size])
        try:
            found += await authority.execute(Inspect(partition, part, at_once))
        except Corrupt:
            # One body cannot even be unpacked: ask for each alone, and it names itself.
            for key in part:
                found.append(await _alone(authority, partition, key, at_once=at_once))
    return found


async def _alone(
    authority: Executes, partition: Partition, key: Key[R], *, at_once: bool
) -> Held[R]:
    try:
        (held,) = await authority.execute(Inspect(partition, (key,), at_once))
    except Corrupt as error:
        return Held(None, f"{error.found} instead of {error.expected}")
    return held
