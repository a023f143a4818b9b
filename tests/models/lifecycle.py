"""Fork and destroy: a world copied at one moment, and a world ended in two steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.models.engine import Decision, Stage, Steps, View, ask
from tests.models.records import Entry, Head, Key, Page, head_of, log_of
from tests.models.store import Conflict
from tests.models.truth import WorldTruth

FORKS_MAX = 8
"""Times a fork starts over."""

FORK_WAITS = 16
"""Steps before a fork begins, so that there is something to be copied."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A source as of one moment: its head and its open pages."""

    head: Head
    pages: dict[Key, Page]

    @property
    def open(self) -> set[int]:
        """The sequences a child would find open."""
        below = self.head.cancelled_below
        return {x for page in self.pages.values() for x in page if x >= below}


@dataclass(frozen=True, slots=True)
class Birth:
    """Write a child: its head, its pages, its first log entry."""

    child: str
    copied: Copied
    stage: Stage
    truth: WorldTruth

    def named(self) -> tuple[Key, ...]:
        return (head_of(self.child), *self._pages())

    def decide(self, view: View) -> Decision:
        if view.named(head_of(self.child)):
            return Decision("exists")
        source = self.copied.head
        head = Head(
            published=source.published,
            next_sequence=source.next_sequence,
            next_entity=source.next_entity,
            cancelled_below=source.cancelled_below,
            open=len(self.copied.open),
        )
        pages = self._pages()
        opened = tuple(pages.items()) if self.stage.rules.fork_entry else ()
        writes = {
            **pages,
            head_of(self.child): head,
            log_of(self.child, 1): Entry("forked", opened),
        }
        return Decision("forked", writes, self._comes_true)

    def _pages(self) -> dict[Key, Page]:
        return {(self.child, *key[1:]): page for key, page in self.copied.pages.items()}

    def _comes_true(self) -> None:
        source = self.stage.truth.of(str(self.truth.name))
        head = self.copied.head
        born = source.forked(self.child, head.seq, head.published, self.copied.open)
        self.stage.truth.worlds[self.child] = born


def fork(stage: Stage, who: str, world: str, child: str) -> Steps[None]:
    """Copy a world as it is at one moment, open pages included."""
    for _ in range(FORK_WAITS):
        yield
    for _ in range(FORKS_MAX):
        copied = yield from _copied(stage, who, world)
        if copied is None:
            stage.store.tell(who, "starts over")
            continue
        if copied.head.status != "active":
            return
        stage.store.tell(who, "copies {} as of seq {}", sorted(copied.open), copied.head.seq)
        yield from ask(stage, who, Birth(child, copied, stage, stage.truth.of(world)))
        return


def _copied(stage: Stage, who: str, world: str) -> Steps[Copied | None]:
    """Find pages through a range, read them with the head; None if some are missing."""
    store, rules = stage.store, stage.rules
    names: set[Key] = set()
    last: Key = (world, "due")
    yield
    while following := [key for key in store.keys(world, "due") if key > last]:
        last = following[0]
        names.add(last)
        yield
    try:
        copied = yield from _read(stage, world, sorted(names))
    except Conflict:
        return None
    return None if rules.fork_count and len(copied.open) != copied.head.open else copied


def _read(stage: Stage, world: str, names: list[Key]) -> Steps[Copied]:
    """Read head and pages, as one snapshot if the rule says so. Raises Conflict."""
    store = stage.store
    wanted = (head_of(world), *names)
    if stage.rules.fork_snapshot:
        found = store.snapshot(wanted)
    else:
        found = {}
        for key in wanted:
            found[key] = store.versioned(key)
            yield
    head: Head = found.pop(head_of(world))[0]
    return Copied(head, {key: page for key, (page, _) in found.items() if page})


@dataclass(frozen=True, slots=True)
class Close:
    """Close a world to admission, and take its fence."""

    world: str
    truth: WorldTruth

    def named(self) -> tuple[Key, ...]:
        return (head_of(self.world),)

    def decide(self, view: View) -> Decision:
        head: Head = view.named(head_of(self.world))
        if head.status != "active":
            return Decision("closed before")
        after = replace(head, status="closing", seq=head.seq + 1, epoch=head.epoch + 1)
        return Decision(
            "closing",
            {head_of(self.world): after, log_of(self.world, after.seq): Entry("closing")},
            lambda: self.truth.close(after.seq),
        )


@dataclass(frozen=True, slots=True)
class End:
    """End a closing world: what is still open there is rejected by that."""

    world: str
    truth: WorldTruth

    def named(self) -> tuple[Key, ...]:
        return (head_of(self.world),)

    def decide(self, view: View) -> Decision:
        head: Head = view.named(head_of(self.world))
        if head.status != "closing":
            return Decision("ended before")
        after = replace(head, status="destroyed", seq=head.seq + 1)
        return Decision(
            "destroyed",
            {head_of(self.world): after, log_of(self.world, after.seq): Entry("destroyed")},
            lambda: self.truth.end(after.seq),
        )


def destroy(stage: Stage, who: str, world: str) -> Steps[None]:
    """Close a world, then end it."""
    truth = stage.truth.of(world)
    yield from ask(stage, who, Close(world, truth))
    yield from ask(stage, who, End(world, truth))
