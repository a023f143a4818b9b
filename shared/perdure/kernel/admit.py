"""Admission: a batch becomes one log entry, a few page entries, and a receipt for ever."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from perdure.kernel.batch import Batch, grouped
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import Conflict, Contended
from perdure.kernel.ids import (
    BatchId,
    CommandId,
    EntityId,
    Holder,
    Instant,
    Seq,
    Sequence,
    Tick,
)
from perdure.kernel.kept import kept
from perdure.kernel.pages import Page, page_key
from perdure.kernel.places import PageName
from perdure.kernel.records import (
    BatchKey,
    CommandKey,
    Group,
    Head,
    batch_key,
    command_key,
    head_key,
)
from perdure.kernel.request import WorldRequest
from perdure.kernel.view import Decision, Key, Reads, View, Write
from perdure.kernel.wake import UNREAD_MS, active_head, appended, woken
from perdure.kernel.writers import check_holder


class Receipt(NamedTuple):
    """What one admitted command is told."""

    command_id: CommandId
    sequence: Sequence
    entity_id: EntityId | None
    tick: Tick
    priority: int


@dataclass(frozen=True)
class Admitted:
    """The answer to a batch: the same for ever."""

    batch: Batch
    batch_id: BatchId
    first_sequence: Sequence
    first_entity_id: EntityId
    published: Tick
    seq: Seq
    """The log entry that holds the batch."""

    replayed: bool = False

    @property
    def size(self) -> int:
        return self.batch.size

    def receipts(self) -> list[Receipt]:
        """Spell out one receipt per command, in the order they were sent."""
        batch = self.batch
        entities: list[EntityId | None] = [None] * batch.size
        for entity_id, index in enumerate(batch.spawning, start=self.first_entity_id):
            entities[index] = EntityId(entity_id)
        after = self.published + 1
        ticks = [after if tick is None or tick < after else tick for tick, _ in batch.dues]
        priorities = [priority for _, priority in batch.dues]
        sequences = range(self.first_sequence, self.first_sequence + batch.size)
        fields = zip(batch.command_ids(), sequences, entities, ticks, priorities, strict=True)
        # What `_make` does, without a frame for each of ten thousand.
        return list(map(tuple.__new__, repeat(Receipt), fields))


@dataclass(frozen=True, slots=True)
class KnownAdmitted:
    """The answer when every command of a batch was admitted before, under its own id."""

    batch_id: BatchId
    keys: tuple[CommandKey, ...]
    replayed: bool = True

    @property
    def size(self) -> int:
        return len(self.keys)

    def receipts(self) -> list[Receipt]:
        return [
            Receipt(CommandId(key.command), key.sequence, key.entity_id, key.tick, key.priority)
            for key in self.keys
        ]


@dataclass(frozen=True)
class Admit(WorldRequest):
    """Accept a batch: all of it or nothing, at most once."""

    batch: Batch
    holder: Holder | None = None
    by: Caller = LOCAL

    @kept
    def _batch_key(self) -> Key[BatchKey]:
        return batch_key(self.ref.partition, self.batch.id)

    @kept
    def _command_keys(self) -> list[Key[CommandKey]]:
        world = self.ref.partition
        return [command_key(world, command) for _, command, _ in self.batch.own_ids]

    def reads(self) -> Reads:
        new: list[Key[Any]] = [self._batch_key, *self._command_keys]
        return Reads(keys=(head_key(self.ref.partition), *new), absent=frozenset(new))

    def decide(self, view: View, now: Instant) -> Decision[Admitted | KnownAdmitted]:
        known = view.get(self._batch_key)
        if known is not None:
            return Decision(self._replayed(known))
        # The keys of single commands, too, are looked at before the world's status: an
        # answer once given holds in every later state of the world.
        keys = [view.get(key) for key in self._command_keys]
        if any(key is not None for key in keys):
            return Decision(self._known(keys))
        return self._admitted(view, self._open_head(view), now)

    def _admitted(self, view: View, head: Head, now: Instant) -> Decision[Admitted]:
        """Take the batch in: its sequences and entity ids are the head's next ones."""
        batch, world = self.batch, self.ref.partition
        admitted = Admitted(
            batch,
            batch.id,
            head.next_sequence,
            head.next_entity_id,
            head.published,
            Seq(head.seq + 1),
        )
        groups, pages, last_page = self._pages(view, head)
        after, entry = appended(
            head,
            "admitted",
            {**_facts(admitted, groups), **self.by.facts},
            now,
            payload=batch.payload,
            payload_digest=batch.payload_digest,
            next_sequence=Sequence(head.next_sequence + batch.size),
            next_entity_id=EntityId(head.next_entity_id + len(batch.spawning)),
            open_commands=head.open_commands + batch.size,
            last_page=last_page,
        )
        after, hints = woken(view, after, self.ref, Instant(now + UNREAD_MS))
        key = BatchKey(
            partition=world,
            batch=batch.id,
            digest=batch.digest,
            seq=entry.seq,
            published=head.published,
            first_sequence=head.next_sequence,
            first_entity_id=head.next_entity_id,
            groups=groups,
        )
        own = self._own_keys(admitted, entry.seq, groups)
        return Decision(admitted, (after, entry, key, *pages, *own, *hints))

    def _replayed(self, known: BatchKey) -> Admitted:
        if known.digest != self.batch.digest:
            raise Conflict(
                expected=f"batch {self.batch.id!r} with the content it was admitted with"
                f" (digest {known.digest[:12]}…)",
                found=f"other content (digest {self.batch.digest[:12]}…)",
            )
        return Admitted(
            self.batch,
            self.batch.id,
            known.first_sequence,
            known.first_entity_id,
            known.published,
            known.seq,
            replayed=True,
        )

    def _known(self, keys: list[CommandKey | None]) -> KnownAdmitted:
        found = [key for key in keys if key is not None]
        if any(key.batch == self.batch.id for key in found):
            raise Contended(
                expected=f"all of batch {self.batch.id!r} or nothing",
                found="a part: its admission is running",
            )
        if len(found) < self.batch.size:
            raise Conflict(
                expected="a batch whose command ids are all new or all known",
                found=f"{len(found)} of {self.batch.size} known, {found[0].command!r} among them",
            )
        for key, (_, command, content) in zip(found, self.batch.own_ids, strict=True):
            if key.digest != content:
                raise Conflict(
                    expected=f"command {command!r} with the content it was admitted with",
                    found="other content",
                )
        return KnownAdmitted(self.batch.id, tuple(found))

    def _open_head(self, view: View) -> Head:
        head = active_head(view, self.ref)
        check_holder(head, self.holder)
        return head

    def _pages(
        self, view: View, head: Head
    ) -> tuple[tuple[Group, ...], list[Write], PageName | None]:
        world, seq = self.ref.partition, Seq(head.seq + 1)
        groups: list[Group] = []
        pages: list[Write] = []
        last = head.last_page
        by_due = grouped(self.batch.dues, head.published)
        for number, ((tick, priority), indices) in enumerate(by_due.items()):
            page = None
            if last is not None and (last.tick, last.priority) == (tick, priority):
                page = view.get(page_key(world, last))
            if page is None or not page.has_room:
                first = Sequence(head.next_sequence + indices[0])
                page = Page.of(world, PageName(tick, priority, first))
            page = page.admitted(seq, number, len(indices))
            pages.append(page)
            last = page.name
            groups.append(Group(tick=tick, priority=priority, count=len(indices), page=last))
        return tuple(groups), pages, last

    def _own_keys(
        self, admitted: Admitted, seq: Seq, groups: tuple[Group, ...]
    ) -> Iterator[CommandKey]:
        batch = self.batch
        if not batch.own_ids:
            return
        by_due = grouped(batch.dues, admitted.published)
        pages = {due: group.page for due, group in zip(by_due, groups, strict=True)}
        after = admitted.published + 1
        for index, command, content in batch.own_ids:
            asked, priority = batch.dues[index]
            tick = Tick(after if asked is None else max(asked, after))
            rank = bisect_left(batch.spawning, index)
            spawns = rank < len(batch.spawning) and batch.spawning[rank] == index
            yield CommandKey(
                partition=self.ref.partition,
                command=command,
                digest=content,
                batch=batch.id,
                seq=seq,
                index=index,
                sequence=Sequence(admitted.first_sequence + index),
                entity_id=EntityId(admitted.first_entity_id + rank) if spawns else None,
                tick=tick,
                priority=priority,
                page=pages[tick, priority],
            )


def _facts(admitted: Admitted, groups: tuple[Group, ...]) -> dict[str, object]:
    """Return what the log says of an admission beside the batch itself."""
    return {
        "batch": admitted.batch.id,
        "count": admitted.batch.size,
        "first_entity_id": admitted.first_entity_id,
        "first_sequence": admitted.first_sequence,
        "groups": [[each.tick, each.priority, each.count, each.page.first] for each in groups],
        "published": admitted.published,
    }
