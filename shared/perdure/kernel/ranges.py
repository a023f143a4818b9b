"""Sets of sequences as few closed ranges: how pages and manifests name thousands of commands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain

from perdure.kernel.ids import Sequence

Ranges = tuple[tuple[Sequence, Sequence], ...]
"""Disjoint closed ranges ``(first, last)``, ascending, never touching."""

EMPTY: Ranges = ()


def ranges(sequences: Iterable[int]) -> Ranges:
    """Fold sequences, in any order, into ranges."""
    ordered = sorted(set(sequences))
    if ordered and ordered[-1] - ordered[0] + 1 == len(ordered):
        return ((Sequence(ordered[0]), Sequence(ordered[-1])),)
    folded: list[tuple[Sequence, Sequence]] = []
    for each in ordered:
        if folded and folded[-1][1] + 1 == each:
            folded[-1] = (folded[-1][0], Sequence(each))
        else:
            folded.append((Sequence(each), Sequence(each)))
    return tuple(folded)


def members(held: Ranges) -> Iterator[Sequence]:
    """Yield every sequence in ``held``, ascending."""
    for first, last in held:
        yield from map(Sequence, range(first, last + 1))


def size(held: Ranges) -> int:
    """Count the sequences in ``held``."""
    return sum(last - first + 1 for first, last in held)


def contains(held: Ranges, sequence: int) -> bool:
    """Say whether ``sequence`` is in ``held``."""
    index = bisect_right(held, (sequence, 2**63)) - 1
    return index >= 0 and held[index][0] <= sequence <= held[index][1]


def union(*many: Ranges) -> Ranges:
    """Return what is in any of ``many``."""
    folded: list[tuple[Sequence, Sequence]] = []
    for first, last in sorted(chain.from_iterable(many)):
        if folded and first <= folded[-1][1] + 1:
            folded[-1] = (folded[-1][0], max(folded[-1][1], last))
        else:
            folded.append((first, last))
    return tuple(folded)


def difference(left: Ranges, right: Ranges) -> Ranges:
    """Return what is in ``left`` and not in ``right``."""
    rest: list[tuple[Sequence, Sequence]] = []
    index = max(0, bisect_right(right, (left[0][0], 2**63)) - 1) if left else 0
    for first, last in left:
        start = int(first)
        while index < len(right) and right[index][1] < start:
            index += 1
        at = index
        while at < len(right) and right[at][0] <= last:
            if start < right[at][0]:
                rest.append((Sequence(start), Sequence(right[at][0] - 1)))
            start = max(start, right[at][1] + 1)
            at += 1
        if start <= last:
            rest.append((Sequence(start), last))
    return tuple(rest)


def common(left: Ranges, right: Ranges) -> Ranges:
    """Return what is in both."""
    return difference(left, difference(left, right))


def covers(left: Ranges, right: Ranges) -> bool:
    """Say whether everything in ``right`` is in ``left``."""
    return not difference(right, left)


def from_sequence(held: Ranges, least: int) -> Ranges:
    """Return what of ``held`` is ``least`` or above."""
    return tuple((Sequence(max(first, least)), last) for first, last in held if last >= least)
