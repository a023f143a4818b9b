"""Clients of a world: they admit, admit again, cancel one command, and cancel all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.models.engine import Decision, Stage, Steps, View, ask
from tests.models.records import (
    Entry,
    Head,
    Key,
    KeyRecord,
    Page,
    Place,
    Receipt,
    cancelled_of,
    head_of,
    key_of,
    log_of,
    page_of,
    place_of,
)
from tests.models.rules import Rules
from tests.models.truth import WorldTruth

PAGE_ENTRIES_MAX = 3
"""Sequences up to which a page is appended to: few, so that pages are many."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One command as a client sends it: an absent tick means the next one."""

    tick: int | None
    priority: int
    spawns: int


@dataclass(frozen=True, slots=True)
class Admit:
    """Admit a batch, all or nothing."""

    world: str
    batch: str
    commands: tuple[Wanted, ...]
    ids: str
    """The ids the client chose for its commands, all in one word."""
    rules: Rules
    truth: WorldTruth

    def named(self) -> tuple[Key, ...]:
        return (key_of(self.world, self.batch), head_of(self.world))

    def decide(self, view: View) -> Decision:
        known: KeyRecord | None = view.named(key_of(self.world, self.batch))
        head: Head = view.named(head_of(self.world))
        if known and (self.rules.key_first or head.status == "active"):
            if known.digest != self._digest():
                return Decision("conflict")
            return Decision(Receipt(known.first_sequence, known.first_entity, self.ids))
        if head.status != "active":
            return Decision("closing")
        return self._admitted(view, head)

    def _digest(self) -> tuple[object, ...]:
        return (self.commands, self.ids) if self.rules.ids_in_digest else (self.commands,)

    def _admitted(self, view: View, head: Head) -> Decision:
        places = {
            head.next_sequence + index: Place(
                max(command.tick or 0, head.published + 1), command.priority
            )
            for index, command in enumerate(self.commands)
        }
        opened = self._opened(view, head, places)
        spawned = sum(command.spawns for command in self.commands)
        after = replace(
            head,
            seq=head.seq + 1,
            next_sequence=head.next_sequence + len(self.commands),
            next_entity=head.next_entity + spawned,
            open=head.open + len(self.commands),
            last_page=list(opened)[-1],
        )
        record = KeyRecord(self._digest(), head.next_sequence, head.next_entity)
        return Decision(
            Receipt(head.next_sequence, head.next_entity, self.ids),
            {
                **{key: page | (view[key][0] or Page()) for key, page in opened.items()},
                head_of(self.world): after,
                key_of(self.world, self.batch): record,
                log_of(self.world, after.seq): Entry(
                    f"admitted {self.batch}", tuple(opened.items())
                ),
            },
            lambda: self.truth.admit(
                after.seq, self.batch, places, range(head.next_entity, after.next_entity)
            ),
        )

    def _opened(self, view: View, head: Head, places: dict[int, Place]) -> dict[Key, Page]:
        """Return the page of each (tick, priority) group and what is put there."""
        groups: dict[Place, list[int]] = {}
        for sequence, place in places.items():
            groups.setdefault(place, []).append(sequence)
        opened = {}
        for place, sequences in groups.items():
            key = page_of(self.world, place, sequences[0])
            if head.last_page and place_of(head.last_page) == place:
                last: Page | None = view.named(head.last_page)
                if last and len(last) + len(sequences) <= PAGE_ENTRIES_MAX:
                    key = head.last_page
            view.named(key)
            opened[key] = Page(sequences)
        return opened


@dataclass(frozen=True, slots=True)
class CancelOne:
    """Cancel one open command by rewriting its page."""

    world: str
    page: Key
    sequence: int
    truth: WorldTruth

    def named(self) -> tuple[Key, ...]:
        return (self.page, cancelled_of(self.world, self.sequence), head_of(self.world))

    def decide(self, view: View) -> Decision:
        head: Head = view.named(head_of(self.world))
        page: Page = view.named(self.page) or Page()
        known = view.named(cancelled_of(self.world, self.sequence))
        is_open = self.sequence in page and self.sequence >= head.cancelled_below
        if known or not is_open or head.status != "active":
            return Decision("not open")
        return Decision(
            "cancelled",
            {
                self.page: (page - {self.sequence}) or None,
                cancelled_of(self.world, self.sequence): True,
                head_of(self.world): replace(head, seq=head.seq + 1, open=head.open - 1),
                log_of(self.world, head.seq + 1): Entry(f"cancelled {self.sequence}"),
            },
            lambda: self.truth.cancel(head.seq + 1, self.sequence),
        )


@dataclass(frozen=True, slots=True)
class CancelAll:
    """Cancel all that is admitted, by one number on the head."""

    world: str
    identity: str
    rules: Rules
    truth: WorldTruth

    def named(self) -> tuple[Key, ...]:
        key = (key_of(self.world, self.identity),) if self.rules.cancel_key else ()
        return (*key, head_of(self.world))

    def decide(self, view: View) -> Decision:
        key = key_of(self.world, self.identity)
        if self.rules.cancel_key and view.named(key):
            return Decision("cancelled")
        head: Head = view.named(head_of(self.world))
        if head.status != "active":
            return Decision("closing")
        below = head.next_sequence
        return Decision(
            "cancelled",
            {
                head_of(self.world): replace(head, seq=head.seq + 1, cancelled_below=below, open=0),
                log_of(self.world, head.seq + 1): Entry(f"cancelled below {below}"),
                **({key: KeyRecord(())} if self.rules.cancel_key else {}),
            },
            lambda: self.truth.cancel_all(head.seq + 1, self.identity, below),
        )


def admit(
    stage: Stage, who: str, world: str, batch: str, commands: tuple[Wanted, ...], ids: str
) -> Steps[None]:
    """Admit a batch, or the same batch once more."""
    if not stage.store.read(head_of(world)):
        return
    truth = stage.truth.of(world)
    reply = yield from ask(stage, who, Admit(world, batch, commands, ids, stage.rules, truth))
    stage.store.tell(who, "is told {} for {}", reply, batch)
    truth.told(batch, reply)


def cancel_one(stage: Stage, who: str, world: str, pick: int) -> Steps[None]:
    """Find an open command through a range, and cancel it by name."""
    yield
    pages = stage.store.keys(world, "due")
    if not pages:
        return
    page = pages[pick % len(pages)]
    sequence = min(stage.store.read(page))
    request = CancelOne(world, page, sequence, stage.truth.of(world))
    reply = yield from ask(stage, who, request)
    stage.store.tell(who, "is told {} for {}", reply, sequence)


def cancel_all(stage: Stage, who: str, world: str) -> Steps[None]:
    """Cancel all that is admitted."""
    yield
    yield from ask(stage, who, CancelAll(world, who, stage.rules, stage.truth.of(world)))
