"""Settling: what becomes of each command that a tick drained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from perdure.kernel import limits, ranges
from perdure.kernel.drain import Drained
from perdure.kernel.ids import Sequence, Tick
from perdure.kernel.pages import PageEntry
from perdure.kernel.places import PageName
from perdure.kernel.publish import DrainedEntry, DrainedPage, Moved
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import Outcome


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a tick did with what it drained, in the form that publishing takes."""

    drained: tuple[DrainedPage, ...]
    moved: tuple[Moved, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """One command that was not applied."""

    sequence: Sequence
    code: str
    detail: str


class _Retried(NamedTuple):
    """One failure to be tried again, and the attempts it has had."""

    failure: Failure
    attempts: int

    @property
    def sequence(self) -> Sequence:
        return self.failure.sequence


def settlement(
    drained: Drained,
    tick: Tick,
    *,
    applied: Iterable[Sequence],
    rejected: Iterable[Failure],
    charged: Iterable[tuple[Failure, int]],
) -> Settlement:
    """Say what becomes of each command: done with, tried again later, or left where it is.

    ``charged`` are failures with the attempts they cost. A command whose attempts are used
    up is a dead letter; another waits 1, 2, 4, … ticks, at most BACKOFF_TICKS_MAX, in a new
    page. Where these pages and those read would be more than DRAIN_RECORDS_MAX, the later of
    ``charged`` stay where they are, uncharged.
    """
    outcomes = [
        Outcome(sequence=f.sequence, status="rejected", code=f.code, detail=f.detail)
        for f in rejected
    ]
    retried, dead = _judged(drained, tick, charged)
    moved = _moved(drained, retried)
    outcomes += dead
    done = [*applied, *(outcome.sequence for outcome in outcomes)]
    outcomes += [
        replace(_outcome(each.failure, "retryable", each.attempts), again=page.name)
        for page, held in zip(moved, retried.values(), strict=True)
        for each in held
    ]
    leaving = ranges.ranges(each.sequence for held in retried.values() for each in held)
    pages = tuple(_pages(drained, ranges.ranges(done), leaving))
    outcomes.sort(key=lambda outcome: outcome.sequence)
    return Settlement(pages, moved, tuple(outcomes))


def _judged(
    drained: Drained, tick: Tick, charged: Iterable[tuple[Failure, int]]
) -> tuple[dict[tuple[Tick, int], list[_Retried]], list[Outcome]]:
    """Sort failures into those tried again, by (later tick, priority), and dead letters."""
    failed = tuple(charged)
    due = {each.sequence: each for each in drained.commands} if failed else {}
    retried: dict[tuple[Tick, int], list[_Retried]] = {}
    dead: list[Outcome] = []
    room = limits.DRAIN_RECORDS_MAX - len(drained.pages)
    for failure, cost in failed:
        command = due[failure.sequence]
        attempts = command.attempts + cost
        if attempts >= command.command.max_attempts:
            dead.append(_outcome(failure, "dead_letter", attempts))
            continue
        wait = min(2 ** (attempts - 1), limits.BACKOFF_TICKS_MAX)
        later = (Tick(tick + wait), command.priority)
        if later in retried or len(retried) < room:
            retried.setdefault(later, []).append(_Retried(failure, attempts))
    return retried, dead


def _pages(drained: Drained, settled: Ranges, leaving: Ranges) -> Iterator[DrainedPage]:
    """Yield every page read, with what of each entry is done with or leaves."""
    for name, entries in drained.pages:
        yield DrainedPage(
            name,
            tuple(
                DrainedEntry(
                    world=each.entry.world,
                    seq=each.entry.seq,
                    group=each.entry.group,
                    held=each.held,
                    settled=ranges.common(each.held, settled),
                    moved=ranges.common(each.held, leaving),
                    attempts=each.entry.attempts,
                )
                for each in entries
            ),
        )


def _outcome(
    failure: Failure, status: Literal["dead_letter", "retryable"], attempts: int
) -> Outcome:
    return Outcome(
        sequence=failure.sequence,
        status=status,
        code=failure.code,
        detail=failure.detail,
        attempts=attempts,
    )


def _moved(
    drained: Drained, retried: Mapping[tuple[Tick, int], Iterable[_Retried]]
) -> tuple[Moved, ...]:
    """Make one page per (later tick, priority) for the commands to be tried again."""
    wanted = ranges.ranges(each.sequence for held in retried.values() for each in held)
    entries = {
        sequence: each.entry
        for _, page in drained.pages
        for each in page
        for sequence in ranges.members(ranges.common(each.held, wanted))
    }
    moved: list[Moved] = []
    for (later, priority), held in retried.items():
        by_entry: dict[tuple[object, ...], tuple[PageEntry, list[Sequence]]] = {}
        for each in sorted(held, key=lambda each: each.sequence):
            entry = replace(entries[each.sequence], attempts=each.attempts)
            by_entry.setdefault(entry.place, (entry, []))[1].append(each.sequence)
        name = PageName(later, priority, min(each.sequence for each in held))
        moved.append(
            Moved(
                name,
                tuple(
                    replace(entry, count=len(again), open=ranges.ranges(again))
                    for entry, again in by_entry.values()
                ),
            )
        )
    return tuple(moved)
