"""Applying: what a drain found, done to a state in memory, carefully where writers have died."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal

from perdure.kernel import ranges
from perdure.kernel.columns import CommandColumns
from perdure.kernel.component import Registry
from perdure.kernel.drain import Drained, Span
from perdure.kernel.ids import Sequence as CommandSequence
from perdure.kernel.records import Drain, Probe
from perdure.kernel.settle import Failure
from perdure.lake.spelled import SPELLED_MIN
from perdure.lake.staging import Staging
from perdure.lake.state import WorldState

OnFailure = Literal["stop", "continue"]

PROBE_PARTS: Final = 32
"""A suspected range is cut in so many parts: ten thousand commands need three deaths."""


@dataclass(slots=True)
class Outcome:
    """What became of the commands of one tick, and the state after them."""

    state: WorldState
    applied: list[CommandSequence] = field(default_factory=list)
    rejected: list[Failure] = field(default_factory=list)
    charged: list[tuple[Failure, int]] = field(default_factory=list)
    """Failures that cost attempts, and how many."""


Named = Callable[[Probe], Awaitable[None]]


async def apply_drained(
    before: WorldState,
    drained: Drained,
    registry: Registry,
    *,
    on_failure: OnFailure,
    careful: Drain | None = None,
    named: Named | None = None,
) -> Outcome:
    """Apply due commands in order. The first retryable failure stops, unless told otherwise.

    With ``careful``, each part is named before it is applied, so that a death in it is known
    for what it is; commands known to have killed their writer are charged and not applied.
    """
    culprits = dict(careful.culprits) if careful is not None else {}
    staging = Staging(before, registry)
    outcome = Outcome(before)
    for sequence, deaths in culprits.items():
        if any(each.first <= sequence <= each.last for each in drained.spans):
            failure = Failure(sequence, "writer_died", f"{deaths} writers died applying it.")
            outcome.charged.append((failure, deaths))
    for part in _parts(drained.spans, careful):
        if named is not None and careful is not None:
            await named(_probe(part))
        if not _applied(staging, part, outcome, on_failure):
            break
    outcome.state = staging.state()
    return outcome


def _applied(staging: Staging, part: list[Span], outcome: Outcome, on_failure: OnFailure) -> bool:
    """Apply a part, large batches as wholes if that can be; False if the tick takes no more."""
    waiting = CommandColumns.of(())
    for span in part:
        is_large = span.size == span.batch.size >= SPELLED_MIN
        if is_large and waiting.sequences:  # what comes before it is applied before it
            if not _applied_columns(staging, waiting, outcome, on_failure):
                return False
            waiting = CommandColumns.of(())
        if is_large and staging.applied_whole(span.batch):
            outcome.applied.extend(ranges.members(((span.first, span.last),)))
        else:
            waiting.add(span.batch, span.first, span.last)
    return _applied_columns(staging, waiting, outcome, on_failure)


def _applied_columns(
    staging: Staging, columns: CommandColumns, outcome: Outcome, on_failure: OnFailure
) -> bool:
    result = staging.apply(columns, stop_on_retryable=on_failure == "stop")
    outcome.applied += result.applied
    outcome.rejected += result.rejected
    outcome.charged += [(failure, 1) for failure in result.retryable]
    return not result.retryable or on_failure != "stop"


def _parts(spans: Sequence[Span], careful: Drain | None) -> list[list[Span]]:
    """Cut what is due into what is applied at once: all, or groups, or parts of a suspect.

    What is known to be deadly is in none of them.
    """
    if careful is None:
        return [list(spans)] if spans else []
    parts: list[list[Span]] = []
    culprits = {sequence for sequence, _ in careful.culprits}
    singles = (one for span in spans for one in span.singles() if one.first not in culprits)
    for _, commands in groupby(singles, key=attrgetter("tick", "priority")):
        group = list(commands)
        probe = careful.probe
        suspects = [
            each
            for each in group
            if probe is not None
            and probe.stage == "apply"
            and probe.first <= each.first <= probe.last
        ]
        if not suspects:
            parts.append(group)
            continue
        start = group.index(suspects[0])
        stop = start + len(suspects)
        parts += [group[:start]] if start else []
        step = -(-len(suspects) // PROBE_PARTS)
        parts += [suspects[at : at + step] for at in range(0, len(suspects), step)]
        parts += [group[stop:]] if stop < len(group) else []
    return parts


def _probe(part: list[Span]) -> Probe:
    return Probe(stage="apply", first=part[0].first, last=part[-1].last)
