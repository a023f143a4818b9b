"""The course of the day: create, admit, tick, land; begun anew or taken up where it stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from airspace.client import Client, Landed, Problem, Receipt
from airspace.flights import TICKS, Flight
from airspace.replay import Batch, despawn_batches, spawn_batches

WORLD_ID: Final = "airspace-2013-01-01"
WORLD_NAME: Final = "One day out of New York"

STRIDE: Final = 30
"""Ticks asked for at a time: half an hour of the day between two steps of the progress bar."""

Stage: TypeAlias = Literal["admit", "tick", "land", "ask again", "read", "draw"]


class Watch(Protocol):
    """Whoever wants to know how far the work is; ``total`` is None when nobody can tell."""

    def __call__(self, stage: Stage, done: int, total: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Course:
    """How the day went. Counts of ticks and rows are those of this run."""

    batches: int
    commands: int
    statuses: Mapping[str, int]
    ticks: int
    landed: Landed
    seconds: Mapping[Stage, float]


def run_day(
    client: Client, flights: Sequence[Flight], *, watch: Watch, now: Callable[[], float]
) -> Course:
    """Replay the day up to its last tick; what an earlier run did is found and not repeated.

    Raises: Problem; whatever ``client`` raises when it loses the server. Call again to go on.
    """
    seconds: dict[Stage, float] = {}
    began = now()
    client.create_world(WORLD_ID, WORLD_NAME)
    batches, receipts = admit(client, flights, watch=watch)
    seconds["admit"] = now() - began

    began = now()
    ticks = run_ticks(client, watch=watch)
    seconds["tick"] = now() - began

    began = now()
    landed = land_all(client, watch=watch)
    seconds["land"] = now() - began

    began = now()
    again = submitted(client, batches, watch=watch, stage="ask again", total=len(receipts))
    check_same(receipts, again)
    seconds["ask again"] = now() - began
    return Course(
        batches=len(batches),
        commands=len(receipts),
        statuses=Counter(receipt.status for receipt in again),
        ticks=ticks,
        landed=landed,
        seconds=seconds,
    )


def admit(
    client: Client, flights: Sequence[Flight], *, watch: Watch
) -> tuple[list[Batch], list[Receipt]]:
    """Admit all departures, then all arrivals under the entity ids that the receipts give."""
    spawns, total = spawn_batches(flights), 2 * len(flights)
    receipts = submitted(client, spawns, watch=watch, stage="admit", total=total)
    despawns = despawn_batches(flights, [entity_of(receipt) for receipt in receipts])
    receipts += submitted(
        client, despawns, watch=watch, stage="admit", total=total, done=len(receipts)
    )
    return spawns + despawns, receipts


def submitted(
    client: Client,
    batches: Sequence[Batch],
    *,
    watch: Watch,
    stage: Stage,
    total: int,
    done: int = 0,
) -> list[Receipt]:
    """Return the receipts of all commands of ``batches``, in order."""
    receipts: list[Receipt] = []
    watch(stage, done, total)
    for batch in batches:
        got = client.submit(WORLD_ID, batch.id, batch.commands)
        if len(got) != len(batch.commands):
            raise Problem(
                "unreadable_answer", f"{len(got)} receipts for {len(batch.commands)} commands"
            )
        receipts += got
        watch(stage, done + len(receipts), total)
    return receipts


def entity_of(receipt: Receipt) -> int:
    """Return the entity id that a spawn was promised."""
    if receipt.entity_id is None:
        raise Problem("unreadable_answer", f"no entity id for the spawn {receipt.command_id}")
    return receipt.entity_id


def run_ticks(client: Client, *, watch: Watch) -> int:
    """Let the world reach its last tick and return how many ticks that took."""
    first = published = client.published_tick(WORLD_ID)
    while published < TICKS - 1:
        watch("tick", published + 1, TICKS)
        reached = client.tick(WORLD_ID, min(published + STRIDE, TICKS - 1))
        if reached <= published:
            raise Problem("stalled", f"the world does not get past tick {published}")
        published = reached
    watch("tick", TICKS, TICKS)
    return published - first


def land_all(client: Client, *, watch: Watch) -> Landed:
    """Land until nothing is left and return what that appended."""
    rows = files = 0
    while True:
        watch("land", rows, None)
        landed = client.land()
        if landed.rows == 0:
            watch("land", rows, rows)
            return Landed(rows, files)
        rows, files = rows + landed.rows, files + landed.files


def check_same(receipts: Sequence[Receipt], again: Sequence[Receipt]) -> None:
    """Hold the server to its promise: the same batches get the same receipts. Raises Problem."""
    for before, after in zip(receipts, again, strict=True):
        kept = (before.command_id, before.sequence, before.entity_id)
        if kept != (after.command_id, after.sequence, after.entity_id):
            raise Problem("receipt_changed", f"expected {before}; found {after}")
