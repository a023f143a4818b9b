"""Publishing: one commit makes a tick visible and settles what it drained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar

from perdure.kernel import limits, ranges
from perdure.kernel.consumers import check_consumers
from perdure.kernel.errors import Contended, DrainStale, SchemaMismatch, StaleWriter
from perdure.kernel.fence import held_head
from perdure.kernel.ids import (
    EntityId,
    Epoch,
    Holder,
    Instant,
    Partition,
    Seq,
    Tick,
    Token,
)
from perdure.kernel.pages import Page, PageEntry, page_key
from perdure.kernel.places import PageName, manifests_partition
from perdure.kernel.ranges import Ranges
from perdure.kernel.records import (
    Drain,
    Fence,
    Head,
    Manifest,
    Outcome,
    Signature,
    TableRows,
    head_key,
    manifest_key,
    signature_key,
)
from perdure.kernel.request import WorldRequest
from perdure.kernel.schedule import served, told
from perdure.kernel.upkeep import Schedule, schedule_key, wake_key
from perdure.kernel.view import Decision, Reads, Removed, View, Write
from perdure.kernel.wake import UNREAD_MS, appended, existing_head, moved_hint, woken
from perdure.kernel.writers import is_private


@dataclass(frozen=True, slots=True)
class DrainedEntry:
    """What a drain found in one page entry, and what the tick did with it.

    ``held`` was open in the entry; ``settled`` of it is done with, ``moved`` of it is tried
    again later; the rest stays where it is. An entry is known in its page by where its
    commands were admitted and by the attempts they have had.
    """

    world: Partition | None
    seq: Seq
    group: int
    held: Ranges
    settled: Ranges = ()
    moved: Ranges = ()
    attempts: int = 0

    @property
    def place(self) -> tuple[Partition | None, Seq, int, int]:
        return (self.world, self.seq, self.group, self.attempts)


@dataclass(frozen=True, slots=True)
class DrainedPage:
    """One page that a drain read."""

    name: PageName
    entries: tuple[DrainedEntry, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A page of commands to be tried again."""

    name: PageName
    entries: tuple[PageEntry, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The answer: the tick is visible under this manifest, and this is the head after it."""

    manifest: Manifest
    head: Head
    next_at: Instant | None = None
    """What the schedule that asked for this tick waits for next. None, too, if the tick was
    published before this call."""


@dataclass(frozen=True, slots=True)
class Publish(WorldRequest):
    """Make one tick visible: the last step of a tick, and the only one that shows.

    It carries what it drained and never queries again. The same publication token is the
    same tick: publishing it twice is publishing it once.
    """

    tick: Tick
    token: Token
    epoch: Epoch
    holder: Holder
    drained_seq: Seq
    """The head's ``seq`` that the drain began with."""

    drained: tuple[DrainedPage, ...] = ()
    moved: tuple[Moved, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    tables: tuple[TableRows, ...] = ()
    checkpoint: tuple[TableRows, ...] | None = None
    processors: tuple[str, ...] = ()
    entities: int = 0
    next_in_tick_entity_id: EntityId = EntityId(2**52)
    lease_ms: int = 0
    """How long the fence is held on after this tick; 0 releases it, unless it is a private
    world's, which keeps its holder."""

    serves: Instant | None = None
    """The schedule's ``next_at`` that this tick answers, if a schedule asked for it."""
    hint: str | None = None
    """The hint by which the world was found due; it moves on in this commit."""

    at: Instant = Instant(0)
    """The tick's time, as processors saw it."""

    def reads(self) -> Reads:
        world = self.ref.partition
        pages = (page_key(world, page.name) for page in self.drained)
        schedule = () if self.serves is None else (schedule_key(world),)
        hint = () if self.hint is None else (wake_key(self.ref, self.hint),)
        return Reads(keys=(head_key(world), *pages, *schedule, *hint))

    def decide(self, view: View, now: Instant) -> Decision[Published]:
        head = existing_head(view, self.ref)
        if head.published >= self.tick:
            return Decision(self._known(view, head))
        # The manifest is not looked for: the commit holds only while this head does, and only
        # where there is no manifest yet.
        head = held_head(view, self.ref, self.epoch)
        if head.published != self.tick - 1:
            raise StaleWriter(
                expected=f"tick {head.next_tick} next in world {self.ref.world!r}",
                found=f"tick {self.tick}",
            )
        check_consumers(view, self.ref, head)
        schedule = self._schedule(view)
        settled, cancelled, pages = self._settle(view, head)
        manifest = Manifest(
            partition=manifests_partition(self.ref.partition),
            tick=self.tick,
            token=self.token,
            epoch=self.epoch,
            seq=Seq(head.seq + 1),
            drained_seq=self.drained_seq,
            at=self.at,
            previous=head.manifest_digest,
            processors=self.processors,
            settled=settled,
            cancelled=cancelled,
            outcomes=tuple(sorted(self.outcomes, key=attrgetter("sequence"))),
            tables=self.tables,
            checkpoint=self.checkpoint,
            entities=self.entities,
            next_in_tick_entity_id=self.next_in_tick_entity_id,
            scheduled=None if schedule is None else told(schedule, now),
        )
        following = None if schedule is None else served(schedule, now)
        after, entry = appended(
            self._advanced(head, manifest, now), "published", _facts(manifest), now
        )
        after, upkeep = self._woken(view, after, following, now)
        again = (Page.of(self.ref.partition, page.name, page.entries) for page in self.moved)
        next_at = None if following is None else following.next_at
        return Decision(
            Published(manifest, after, next_at), (after, manifest, entry, *pages, *again, *upkeep)
        )

    def _schedule(self, view: View) -> Schedule | None:
        """Return the schedule that asked for this tick. Raises StaleWriter if it waits for another."""
        if self.serves is None:
            return None
        schedule = view.get(schedule_key(self.ref.partition))
        if schedule is None or schedule.next_at != self.serves:
            raise StaleWriter(
                expected=f"a schedule that waits for {self.serves}",
                found="none" if schedule is None else f"one that waits for {schedule.next_at}",
            )
        return schedule

    def _known(self, view: View, head: Head) -> Published:
        """Return the tick as it was published, if this very attempt did that."""
        known = view.get(manifest_key(self.ref.partition, self.tick))
        if known is None:
            raise Contended(
                expected=f"manifest {self.tick} of a world that has published it",
                found="none yet: a running commit was seen in part",
            )
        if known.token != self.token:
            raise StaleWriter(
                expected=f"tick {self.tick} to be published by this attempt",
                found=f"attempt {known.token!r} of epoch {known.epoch}",
            )
        return Published(known, head)

    def _settle(self, view: View, head: Head) -> tuple[Ranges, Ranges, list[Write]]:
        """Check what was drained against the pages as they are, and take it out of them."""
        settled: list[Ranges] = []
        cancelled: list[Ranges] = []
        writes: list[Write] = []
        for drained in self.drained:
            page = view.get(page_key(self.ref.partition, drained.name))
            entries: list[PageEntry] = []
            by_place = {each.place: each for each in drained.entries}
            for entry in page.entries if page is not None else ():
                done = by_place.pop(entry.place, None)
                if done is None:
                    entries.append(entry)
                    continue
                rest, dropped = _rest(entry, done, head)
                settled.append(done.settled)
                cancelled.append(dropped)
                if rest:
                    whole = rest == done.held and entry.open is None
                    entries.append(entry if whole else replace(entry, open=rest))
            gone = next((each for each in by_place.values() if each.settled or each.moved), None)
            if gone is not None:
                raise DrainStale(
                    expected=f"sequences {gone.settled or gone.moved} open in page {drained.name}",
                    found="an entry that is gone",
                )
            if page is not None and tuple(entries) != page.entries:
                writes.append(
                    Page.of(page.partition, page.name, entries) if entries else Removed(page.key)
                )
        return ranges.union(*settled), ranges.union(*cancelled), writes

    def _advanced(self, head: Head, manifest: Manifest, now: Instant) -> Head:
        gone = ranges.size(ranges.from_sequence(manifest.settled, head.cancelled_below))
        fence = Fence(epoch=self.epoch)
        if self.lease_ms or is_private(head):
            until = Instant(max(head.fence.until, now + self.lease_ms))
            fence = Fence(epoch=self.epoch, holder=self.holder, until=until)
        return replace(
            head,
            published=self.tick,
            manifest_digest=manifest.digest,
            fence=fence,
            drain=Drain(),
            checkpoint=head.checkpoint if self.checkpoint is None else self.tick,
            open_commands=head.open_commands - gone,
        )

    def _woken(
        self, view: View, head: Head, following: Schedule | None, now: Instant
    ) -> tuple[Head, list[Write]]:
        """Leave a hint for the consumers of this entry, or for the schedule's next tick."""
        wanted = Instant(now + UNREAD_MS)
        if following is not None:
            wanted = min(wanted, following.next_at)
        writes: list[Write] = [] if following is None else [following]
        if self.hint is None:
            head, hints = woken(view, head, self.ref, wanted)
        else:
            head, hints = moved_hint(view, head, self.ref, self.hint, wanted)
        return head, [*writes, *hints]


def _rest(entry: PageEntry, done: DrainedEntry, head: Head) -> tuple[Ranges, Ranges]:
    """Return what stays open of an entry, and what of it was cancelled and leaves unapplied."""
    current = done.held if entry.open is None else entry.open
    taken = ranges.union(done.settled, done.moved)
    if (
        not ranges.covers(current, taken)
        or ranges.from_sequence(taken, head.cancelled_below) != taken
    ):
        raise DrainStale(
            expected=f"sequences {taken} open, from {head.cancelled_below} on",
            found=f"sequences {current}",
        )
    live = ranges.from_sequence(current, head.cancelled_below)
    return ranges.difference(live, taken), ranges.difference(current, live)


def _facts(manifest: Manifest) -> dict[str, object]:
    final = sum(outcome.status != "retryable" for outcome in manifest.outcomes)
    return {
        "applied": ranges.size(manifest.settled) - final,
        "failed": final,
        "manifest": manifest.digest,
        "rows": sum(table.rows for table in manifest.tables),
        "tick": manifest.tick,
        "token": manifest.token,
    }


def checked_outcomes(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Cut details to their limit, and drop them all where even that is too much."""
    held = tuple(outcomes)
    most = limits.ERROR_DETAIL_CHARACTERS_MAX
    if len(held) * most > limits.COMMIT_BYTES_MAX // 2:
        most = 0
    return tuple(
        replace(each, detail=each.detail[:most]) if len(each.detail) > most else each
        for each in held
    )


@dataclass(frozen=True, slots=True)
class RegisterSignature:
    """Write down what a table holds, before any tick names the table. Idempotent."""

    signature: Signature

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.signature.partition

    def reads(self) -> Reads:
        return Reads(keys=(self.signature.key,))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        known = view.get(signature_key(self.signature.partition, self.signature.table))
        if known is None:
            return Decision(None, (self.signature,))
        if known.logical != self.signature.logical:
            raise SchemaMismatch(
                expected=f"table {known.table} with columns {known.columns}",
                found=str(self.signature.columns),
            )
        return Decision(None)
