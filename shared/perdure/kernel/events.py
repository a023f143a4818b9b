"""Events: what each log entry says happened, to a command or to the world, one row each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from perdure.kernel import limits, ranges
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import RunId, Sequence, WorldId
from perdure.kernel.log import LogEntry
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import Manifest, Outcome, World
from perdure.kernel.stored import StoredBatch

EventKind = Literal[
    "queued",
    "applied",
    "rejected",
    "retryable",
    "dead_letter",
    "cancelled",
    "cancelled_all",
    "created",
    "forked",
    "configured",
    "closing",
    "destroyed",
    "moving",
    "moved",
    "stayed",
]

KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)

SENDER: Final = ("actor", "origin")
"""Facts that every entry may have, and columns of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of the audit table. Its id follows from its place alone.

    So whoever projects the log, and however often, the same event is the same row. A
    publish that settles nothing is none. `cancelled_all` is one event; each command that it
    took back has a ``cancelled`` of its own at the tick that takes it out of its page. What
    is open when its world ends has none: the `destroyed` event speaks for all of it.
    """

    world_id: WorldId
    run_id: RunId
    seq: int
    index: int
    """Place among the events of one log entry, from 0."""

    at: int
    kind: EventKind
    command_id: str | None = None
    sequence: int | None = None
    entity_id: int | None = None
    operation: str | None = None
    tick: int | None = None
    """Tick a queued command is due at, or that settled it."""

    token: str | None = None
    code: str | None = None
    detail: str | None = None
    actor: str | None = None
    origin: str | None = None
    attempts: int | None = None

    @property
    def event_id(self) -> str:
        place = f"{self.run_id}\0{self.seq}\0{self.index}"
        return digest("perdure.event.v1", self.world_id.encode(), place.encode())[:32]


Known = Mapping[int, Event]
"""The ``queued`` event of a command, by its sequence."""


def queued(world: World, entry: LogEntry) -> list[Event]:
    """Return an event for each command of an admission."""
    batch = StoredBatch.of(entry)
    content = entry.content
    actor = entry.facts.get("actor", content.get("principal"))
    origin = entry.facts.get("origin", content.get("origin"))
    found = []
    for index, command in enumerate(batch.commands(0, batch.size)):
        (tick, _), _ = batch.groups[0 if len(batch.dues) == 1 else batch.group_of[index]]
        named = command.operation.get("entity_id")
        found.append(
            Event(
                world_id=world.world,
                run_id=world.run,
                seq=entry.seq,
                index=index,
                at=entry.at,
                kind="queued",
                command_id=batch.command_id(index),
                sequence=command.sequence,
                entity_id=named if command.entity_id is None else command.entity_id,
                operation=command.operation["operation"],
                tick=tick,
                actor=actor,
                origin=origin,
            )
        )
    return found


def told_of(entry: LogEntry, manifest: Manifest | None) -> Ranges:
    """Return the sequences whose commands were admitted before, and that an entry speaks of."""
    if entry.kind == "cancelled":
        sequence = Sequence(entry.facts["sequence"])
        return ((sequence, sequence),)
    if manifest is None:
        return ranges.EMPTY
    failed = ranges.ranges(outcome.sequence for outcome in manifest.outcomes)
    return ranges.union(manifest.settled, manifest.cancelled, failed)


def events_of(
    world: World, entry: LogEntry, manifest: Manifest | None, known: Known
) -> list[Event]:
    """Return the events of an entry other than an admission, in order.

    ``manifest`` is that of a publish. A command that is not ``known``, since it was admitted
    in another storage, keeps its sequence and has no other name.
    """
    if entry.kind == "published":
        return list(_settled(world, entry, _checked(entry, manifest), known))
    if entry.kind == "cancelled":
        sequence = entry.facts["sequence"]
        event = _event(world, entry, "cancelled", known.get(sequence), code="cancelled")
        # It may have been asked for under its place in the batch: its own name is the one told.
        name = event.command_id or entry.facts["command"]
        named = replace(event, command_id=name, sequence=sequence)
        return [replace(named, **_sender(entry))]
    assert entry.kind != "admitted", "an admission has events of its own"
    return [
        replace(
            _event(world, entry, entry.kind, None),
            detail=_detail(entry),
            **_sender(entry),
        )
    ]


def _settled(world: World, entry: LogEntry, manifest: Manifest, known: Known) -> Iterator[Event]:
    told = told_of(entry, manifest)
    failed = {outcome.sequence: outcome for outcome in manifest.outcomes}
    for index, sequence in enumerate(ranges.members(told)):
        outcome = failed.get(sequence)
        dropped = outcome is None and ranges.contains(manifest.cancelled, sequence)
        yield replace(
            _event(world, entry, _kind(outcome, is_dropped=dropped), known.get(sequence)),
            index=index,
            sequence=sequence,
            tick=manifest.tick,
            token=manifest.token,
            code=outcome.code if outcome is not None else "cancelled" if dropped else None,
            detail=outcome.detail if outcome is not None else None,
            attempts=outcome.attempts if outcome is not None else None,
        )


def _kind(outcome: Outcome | None, *, is_dropped: bool) -> EventKind:
    if outcome is not None:
        return outcome.status
    return "cancelled" if is_dropped else "applied"


def _event(
    world: World,
    entry: LogEntry,
    kind: EventKind,
    command: Event | None,
    *,
    code: str | None = None,
) -> Event:
    return Event(
        world_id=world.world,
        run_id=world.run,
        seq=entry.seq,
        index=0,
        at=entry.at,
        kind=kind,
        command_id=None if command is None else command.command_id,
        entity_id=None if command is None else command.entity_id,
        operation=None if command is None else command.operation,
        actor=None if command is None else command.actor,
        origin=None if command is None else command.origin,
        code=code,
    )


def _sender(entry: LogEntry) -> dict[str, Any]:
    return {"actor": entry.facts.get("actor"), "origin": entry.facts.get("origin", "local")}


def _detail(entry: LogEntry) -> str:
    facts = {name: value for name, value in entry.facts.items() if name not in SENDER}
    return canonical(facts).decode()[: limits.EVENT_DETAIL_CHARACTERS_MAX]


def _checked(entry: LogEntry, manifest: Manifest | None) -> Manifest:
    wanted = entry.facts["manifest"]
    if manifest is None or manifest.digest != wanted:
        raise Corrupt(
            expected=f"manifest {wanted[:12]}… that entry {entry.seq} published",
            found="none" if manifest is None else f"{manifest.digest[:12]}…",
        )
    return manifest
