"""Real-time order: what had ended before something else began comes before it.

The log of a world says in which order its changes happened. Each call stands at places of that
log at which its answer was true. A history is linearizable, in the order of the log, if every
call can be given one of its places so that no call stands before another that had been
answered before it was made.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

Spans = tuple[tuple[int, int], ...]
"""Places of a log as disjoint closed spans ``(first, last)``, ascending."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call, and where in its world's log it may stand."""

    name: str
    invoked_ns: int
    returned_ns: int | None
    """None: it may have happened at any time from its invocation on."""

    places: Spans


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A call that can stand nowhere at or behind one that was answered before it was made."""

    step: Step
    behind: Step
    place: int
    """The first place at which ``behind`` can stand."""

    def __str__(self) -> str:
        return (
            f"{self.step.name} can only be at {self.step.places}, but was made after"
            f" {self.behind.name} had been answered, which is at {self.place} or later"
        )


def misplaced(steps: Iterable[Step]) -> list[Misplaced]:
    """Return the calls for which there is no place. Each step must have at least one.

    Giving each call, in the order of invocation, the first place it can have is enough: a
    place too late helps nobody.
    """
    found: list[Misplaced] = []
    running: list[tuple[int, int, int, Step]] = []
    bound, behind = 0, None
    for count, step in enumerate(sorted(steps, key=lambda each: each.invoked_ns)):
        while running and running[0][0] < step.invoked_ns:
            _, _, place, ended = heapq.heappop(running)
            if place > bound:
                bound, behind = place, ended
        given = first_place(step.places, bound)
        if given is None:
            assert behind is not None, "a step has a place, and only a bound can take it away"
            found.append(Misplaced(step, behind, bound))
        elif step.returned_ns is not None:
            heapq.heappush(running, (step.returned_ns, count, given, step))
    return found


def first_place(places: Spans, least: int) -> int | None:
    """Return the first place that is ``least`` or above, or None."""
    index = bisect_left(places, least, key=lambda span: span[1])
    return max(least, places[index][0]) if index < len(places) else None


def spans(places: Iterable[int]) -> Spans:
    """Fold places, ascending, into spans."""
    folded: list[tuple[int, int]] = []
    for place in places:
        if folded and folded[-1][1] + 1 == place:
            folded[-1] = (folded[-1][0], place)
        else:
            folded.append((place, place))
    return tuple(folded)
