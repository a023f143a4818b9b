"""What must hold when all is quiet: everything is drained, and the records agree with the truth."""

from __future__ import annotations

from collections import Counter

from tests.models.engine import Stage
from tests.models.records import Head, Page, head_of
from tests.models.ticking import tick
from tests.models.truth import Promise, Violation

TICKS_MAX = 20
"""Ticks in which a world must get through all that is open."""


def verify(stage: Stage) -> None:
    """Let every world run until nothing is due, then compare. Raises Violation."""
    stage.store.calm()
    for world in list(stage.truth.worlds):
        _run_dry(stage, world)
        _compare_commands(stage, world)
        _compare_chains(stage, world)
    for world in stage.truth.retired:
        head: Head | None = stage.store.read(head_of(world))
        if head is not None and head.status != "destroyed":
            raise Violation(Promise.RETIRED_STAYS, world)


def _run_dry(stage: Stage, world: str) -> None:
    for number in range(TICKS_MAX):
        head: Head = stage.store.read(head_of(world))
        if head.status != "active" or not _open_sequences(stage, world):
            return
        for _ in tick(stage, f"last{number}", world):
            pass
    raise Violation(Promise.NO_STARVATION, f"{world} after {TICKS_MAX} ticks")


def _open_sequences(stage: Stage, world: str) -> Counter[int]:
    """Count the pages in which each sequence is open."""
    below = stage.store.read(head_of(world)).cancelled_below
    pages: list[Page] = [stage.store.read(key) for key in stage.store.keys(world, "due")]
    return Counter(sequence for page in pages for sequence in page if sequence >= below)


def _compare_commands(stage: Stage, world: str) -> None:
    truth = stage.truth.of(world)
    found = _open_sequences(stage, world)
    head: Head = stage.store.read(head_of(world))
    if head.status == "destroyed":
        return
    if twice := [sequence for sequence, pages in found.items() if pages > 1]:
        raise Violation(Promise.OPEN_ONCE, f"{twice} in {world}")
    if lost := truth.open.keys() - found.keys():
        raise Violation(Promise.NOTHING_LOST, f"{sorted(lost)} in {world}")
    if revived := found.keys() - truth.open.keys():
        raise Violation(Promise.SETTLED_ONCE, f"{sorted(revived)} open in {world}")
    if forgotten := truth.batches.keys() - truth.settled.keys() - truth.cancelled - found.keys():
        raise Violation(Promise.NOTHING_LOST, f"{sorted(forgotten)} in {world}")


def _compare_chains(stage: Stage, world: str) -> None:
    head: Head = stage.store.read(head_of(world))
    log = [key[2] for key in stage.store.keys(world, "log")]
    if log != list(range(1, head.seq + 1)):
        raise Violation(Promise.LOG_GAPLESS, f"{log} up to {head.seq} in {world}")
    manifests = [key[2] for key in stage.store.keys(world, "manifest")]
    if manifests != list(range(stage.truth.of(world).first_tick, head.published + 1)):
        raise Violation(Promise.MANIFESTS_CONTIGUOUS, f"{manifests} in {world}")
