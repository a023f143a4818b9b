"""Status: what became of a command, derived from manifests and pages and stored nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from perdure.kernel import ranges
from perdure.kernel.errors import Contended, Corrupt, NotFound
from perdure.kernel.forked import takeover_of
from perdure.kernel.ids import (
    BatchId,
    CommandId,
    EntityId,
    Instant,
    Partition,
    Seq,
    Sequence,
    Tick,
    Token,
    parsed_command_id,
)
from perdure.kernel.lineage import partition_of
from perdure.kernel.log import log_key
from perdure.kernel.pages import Page, PageEntry, page_key
from perdure.kernel.places import PageName, WorldRef
from perdure.kernel.records import (
    BatchKey,
    Head,
    Manifest,
    Outcome,
    World,
    batch_key,
    cancelled_key,
    command_key,
    head_key,
    manifest_key,
    world_key,
)
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import SeenInPart
from perdure.kernel.stored import StoredBatch
from perdure.kernel.view import Decision, Key, Reads, View
from perdure.kernel.wake import glimpsed_head

CommandState = Literal["pending", "retryable", "applied", "rejected", "dead_letter"]

SCAN_MIN: Final = 16
"""Manifests or log entries of the first load when more than one must be looked through."""

SCAN_MAX: Final = 256
"""Manifests or log entries of one load, at most."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command was admitted, and the page it was first open in."""

    command_id: CommandId
    batch: BatchId
    seq: Seq
    index: int
    sequence: Sequence
    tick: Tick
    priority: int
    page: PageName
    world: Partition | None = None
    """The log that holds it, if it is an ancestor's."""


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """What is told of one command."""

    command_id: CommandId
    sequence: Sequence
    operation: str
    entity_id: EntityId | None
    tick: Tick
    priority: int
    status: CommandState
    attempts: int = 0
    applied_tick: Tick | None = None
    token: Token | None = None
    code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Where a command stands: a status, and the page it is open in while it is open."""

    status: CommandState
    attempts: int = 0
    tick: Tick | None = None
    token: Token | None = None
    code: str | None = None
    detail: str | None = None
    page: PageName | None = None
    open_tick: Tick | None = None


def stored_batch(view: View, world: Partition, seq: Seq) -> StoredBatch:
    """Return the batch of the log entry ``seq``, which a record names. Raises Missing, Corrupt."""
    key = log_key(world, seq)
    entry = view.peek(key)
    if entry is None or entry.kind != "admitted":
        found = "none" if entry is None else entry.kind
        lost = Corrupt(expected=f"an admission at seq {seq} of {world}", found=found)
        raise SeenInPart((key,), lost)
    return StoredBatch.of(entry)


def placed(view: View, ref: WorldRef, command: CommandId) -> Place:
    """Find a command by its caller's id, or by ``<batch>.<index>``. Raises NotFound, Missing.

    A fork knows the commands that its ancestors had admitted when it was made, too.
    """
    own = _placed(view, ref.partition, command)
    if own is not None:
        return own
    unknown = NotFound(expected="a command that was admitted", found=f"no command {command!r}")
    world = view.peek(world_key(ref))
    if world is None:
        raise SeenInPart((world_key(ref),), unknown)
    heir = ref.partition
    for ancestor in reversed(world.lineage):
        admitting = WorldRef(ref.storage, ancestor.world).partition
        found = _placed(view, admitting, command)
        if found is not None and found.sequence < takeover_of(view, heir).next_sequence:
            return replace(found, world=admitting)
        heir = admitting
    raise unknown


def _placed(view: View, world: Partition, command: CommandId) -> Place | None:
    indexed = parsed_command_id(command)
    if indexed is None:
        own = view.peek(command_key(world, command))
        if own is not None:
            return Place(
                command,
                own.batch,
                own.seq,
                own.index,
                own.sequence,
                own.tick,
                own.priority,
                own.page,
            )
    else:
        batch, index = indexed
        key = view.peek(batch_key(world, batch))
        if key is not None and index < sum(group.count for group in key.groups):
            return placed_in(stored_batch(view, world, key.seq), key, index)
    return None


def placed_in(batch: StoredBatch, key: BatchKey, index: int) -> Place:
    """Find the place of the command at ``index`` of a batch."""
    number = batch.group_of[index]
    (tick, priority), _ = batch.groups[number]
    return Place(
        batch.command_id(index),
        key.batch,
        key.seq,
        index,
        Sequence(key.first_sequence + index),
        tick,
        priority,
        key.groups[number].page,
    )


def standing(view: View, ref: WorldRef, head: Head, place: Place) -> State:
    """Derive where a command stands, also one that the world took over as a fork.

    What was not open when the fork was made is what it was then. Raises Missing, Contended.
    """
    if place.world is None:
        return state_of(view, head, place)
    world = view.peek(world_key(ref))
    assert world is not None, "its lineage led to the command"
    if ranges.contains(takeover_of(view, ref.partition).open, place.sequence):
        return state_of(view, head, place, world)
    cap, at = world.lineage[-1].up_to, place.tick
    while True:
        final, retried = _settlement(view, head, place.sequence, at, cap, world)
        if final is not None:
            return final
        if retried is None or retried.again is None:
            return _cancelled()  # before the fork, or by it
        at = retried.again.tick


def state_of(view: View, head: Head, place: Place, heir: World | None = None) -> State:
    """Derive where a command stands; ``heir`` is the fork that took it over, if one did.

    The manifest of its due tick is asked before its page, so that a page that a running
    commit has not yet taken away never hides a settlement; the mark of its cancelling before
    later manifests, for what was cancelled is in none of them. Raises Missing, Contended.
    """
    world = head.partition
    sure = (_manifest(head, place.tick, heir),) if place.tick <= head.published else ()
    view.require(peeks=(page_key(world, place.page), *sure))
    at, page, attempts = place.tick, place.page, 0
    while True:
        final, retried = _settlement(view, head, place.sequence, at, at, heir)
        if final is not None:
            return final
        if retried is None and _entry(view.peek(page_key(world, page)), place) is not None:
            return _open(head, place, page, attempts)
        if retried is None:
            if view.peek(cancelled_key(world, place.sequence)) is not None:
                return _cancelled()
            final, retried = _settlement(
                view, head, place.sequence, Tick(at + 1), head.published, heir
            )
        if final is not None:
            return final
        if retried is None:
            return _ended(head, place)
        assert retried.again is not None, "a retryable outcome names its next page"
        at, page, attempts = retried.again.tick, retried.again, retried.attempts


def _open(head: Head, place: Place, page: PageName, attempts: int) -> State:
    """Return what a command is that its page still names."""
    if place.sequence < head.cancelled_below:
        return _cancelled()
    if head.status == "destroyed":
        return _destroyed()
    status: CommandState = "retryable" if attempts else "pending"
    return State(status, attempts, page=page, open_tick=page.tick)


def entry_of(view: View, page: Page, place: Place) -> tuple[PageEntry, ranges.Ranges] | None:
    """Return the entry of ``page`` that holds a command, and all that is open in that entry."""
    entry = _entry(page, place)
    if entry is None:
        return None
    if entry.open is not None:
        return entry, entry.open
    batch = stored_batch(view, entry.world or page.partition, entry.seq)
    return entry, batch.group_ranges[entry.group]


def _entry(page: Page | None, place: Place) -> PageEntry | None:
    for entry in page.entries if page is not None else ():
        if (entry.world, entry.seq) == (place.world, place.seq) and (
            entry.open is None or ranges.contains(entry.open, place.sequence)
        ):
            return entry
    return None


def _manifest(head: Head, tick: Tick, heir: World | None) -> Key[Manifest]:
    return manifest_key(head.partition if heir is None else partition_of(heir, tick), tick)


def _settlement(
    view: View, head: Head, sequence: Sequence, first: Tick, last: Tick, heir: World | None
) -> tuple[State | None, Outcome | None]:
    """Look for a manifest that says something of ``sequence``: its end, or its retry.

    None is passed over: one that does not show yet may be the one that says it.
    """
    last = Tick(min(last, head.published))
    for ticks in windows(first, last):
        keys = [_manifest(head, Tick(tick), heir) for tick in ticks]
        view.require(peeks=keys)
        for key, manifest in zip(keys, map(view.peek, keys), strict=True):
            if manifest is None:
                raise SeenInPart((each for each in keys if view.peek(each) is None), _lost(key))
            found = _said(manifest, sequence)
            if found is not None:
                return found
    return None, None


def _lost(key: Key[Manifest]) -> Corrupt:
    return Corrupt(
        expected=f"{key.sort} of {key.partition}, which its head has published", found="none"
    )


def windows(first: int, last: int) -> Iterator[range]:
    """Cut ``first`` to ``last`` into windows that grow, so that few loads look far."""
    width = SCAN_MIN
    while first <= last:
        yield range(first, min(first + width, last + 1))
        first += width
        width = min(2 * width, SCAN_MAX)


def _said(manifest: Manifest, sequence: Sequence) -> tuple[State | None, Outcome | None] | None:
    outcome = manifest.outcome_of(sequence)
    if outcome is not None and outcome.status == "retryable":
        return None, outcome
    if outcome is not None:
        state = State(
            outcome.status,
            outcome.attempts,
            tick=manifest.tick,
            token=manifest.token,
            code=outcome.code,
            detail=outcome.detail,
        )
        return state, None
    if ranges.contains(manifest.cancelled, sequence):
        return _cancelled(), None
    if ranges.contains(manifest.settled, sequence):
        return State("applied", tick=manifest.tick, token=manifest.token), None
    return None


def _cancelled() -> State:
    return State("rejected", code="cancelled", detail="It was cancelled before its tick.")


def _destroyed() -> State:
    return State("rejected", code="world_destroyed", detail="Its world was destroyed.")


def _ended(head: Head, place: Place) -> State:
    if place.sequence < head.cancelled_below:
        return _cancelled()
    if head.status == "destroyed":
        return _destroyed()
    raise Contended(
        expected=f"command {place.command_id!r} in its page or in a manifest",
        found="neither: a tick was published meanwhile",
    )


@dataclass(frozen=True, slots=True)
class StatusOf(WorldRequest):
    """Tell what became of one command."""

    command: CommandId

    def reads(self) -> Reads:
        return Reads(peeks=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[CommandStatus]:
        return Decision(status_of(view, self.ref, self.command))


def status_of(view: View, ref: WorldRef, command: CommandId) -> CommandStatus:
    """Derive the status of one command. Raises NotFound, Missing, Contended."""
    head = glimpsed_head(view, ref)
    place = placed(view, ref, command)
    batch = stored_batch(view, place.world or ref.partition, place.seq)
    return told(batch, place, standing(view, ref, head, place))


def told(batch: StoredBatch, place: Place, state: State) -> CommandStatus:
    """Put a command and its state together."""
    stored = batch.command(place.index)
    reserved = stored.entity_id
    return CommandStatus(
        command_id=place.command_id,
        sequence=place.sequence,
        operation=stored.operation["operation"],
        entity_id=reserved if reserved is not None else stored.operation.get("entity_id"),
        tick=place.tick if state.open_tick is None else state.open_tick,
        priority=place.priority,
        status=state.status,
        attempts=state.attempts,
        applied_tick=state.tick if state.status == "applied" else None,
        token=state.token,
        code=state.code,
        detail=state.detail,
    )
