"""The writer of a world: it takes the fence, drains what is due, and publishes one tick."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.models.drain import Drained, drain
from tests.models.engine import CONTENDED, Decision, Stage, Steps, View, ask
from tests.models.records import (
    Entry,
    Head,
    Key,
    Manifest,
    Page,
    Place,
    head_of,
    log_of,
    manifest_of,
    page_of,
)
from tests.models.rules import Rules
from tests.models.truth import Promise, Publication, Violation, WorldTruth

DRAINS_MAX = 6


@dataclass(frozen=True, slots=True)
class TakeFence:
    """Take the fence over; in this model every fence has expired."""

    world: str

    def named(self) -> tuple[Key, ...]:
        return (head_of(self.world),)

    def decide(self, view: View) -> Decision:
        head: Head | None = view.named(head_of(self.world))
        if head is None or head.status != "active":
            return Decision(None)
        after = replace(head, epoch=head.epoch + 1)
        return Decision(after.epoch, {head_of(self.world): after})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What applying a drain has come to: pages of what was applied, and of what has failed."""

    applied: dict[int, Key]
    failed: dict[int, Key]

    @property
    def pages(self) -> dict[Key, set[int]]:
        """The sequences to be taken out of each page."""
        pages: dict[Key, set[int]] = {}
        for sequence, page in (*self.applied.items(), *self.failed.items()):
            pages.setdefault(page, set()).add(sequence)
        return pages


@dataclass(frozen=True, slots=True)
class Publish:
    """Make one tick visible, by one commit on every page the drain has read."""

    world: str
    token: str
    epoch: int
    drained: Drained
    outcome: Outcome
    moved: dict[int, Place]
    rules: Rules
    truth: WorldTruth
    failures: dict[int, int]

    @property
    def tick(self) -> int:
        return self.drained.head.published + 1

    def named(self) -> tuple[Key, ...]:
        pages = self.drained.pages if self.rules.dead_pages else tuple(self.outcome.pages)
        return (manifest_of(self.world, self.tick), head_of(self.world), *pages)

    def decide(self, view: View) -> Decision:
        manifest: Manifest | None = view.named(manifest_of(self.world, self.tick))
        head: Head = view.named(head_of(self.world))
        if manifest:
            is_mine = manifest.token == self.token and self.rules.own_token
            return Decision("published" if is_mine else "lost")
        is_holder = head.epoch == self.epoch or not self.rules.epoch_check
        if not is_holder or head.status != "active" or head.published != self.tick - 1:
            return Decision("lost")
        rewritten = self._rewritten(view, head)
        return Decision("stale") if rewritten is None else self._published(head, rewritten)

    def _rewritten(self, view: View, head: Head) -> dict[Key, Page | None] | None:
        """Return the pages less what this tick takes out, None if something is not there."""
        taken = self.outcome.pages
        rewritten: dict[Key, Page | None] = {}
        for key in self.named()[2:]:
            page: Page = view.named(key) or Page()
            sequences = taken.get(key, set())
            if self.rules.page_check and not sequences <= page:
                return None
            if self.rules.below_check and any(x < head.cancelled_below for x in sequences):
                return None
            below = head.cancelled_below if self.rules.dead_pages else 0
            rewritten[key] = Page(x for x in page - sequences if x >= below) or None
        return rewritten

    def _published(self, head: Head, pages: dict[Key, Page | None]) -> Decision:
        seq = head.seq + 1
        groups: dict[Place, list[int]] = {}
        for sequence, place in self.moved.items():
            groups.setdefault(place, []).append(sequence)
        moved = {
            page_of(self.world, place, min(sequences)): Page(sequences)
            for place, sequences in groups.items()
        }
        log_read = self.drained.head.seq if self.rules.log_from_drain else seq
        settled = tuple(self.outcome.applied)
        gone = sum(sequence >= head.cancelled_below for sequence in settled)
        after = replace(
            head, published=self.tick, seq=seq, log_read=log_read, open=head.open - gone
        )
        writes = {
            **pages,
            **moved,
            head_of(self.world): after,
            manifest_of(self.world, self.tick): Manifest(self.token, self.epoch, settled),
            log_of(self.world, seq): Entry(f"published {self.tick}", tuple(moved.items())),
        }
        return Decision("published", writes, lambda: self._comes_true(seq))

    def _comes_true(self, seq: int) -> None:
        for sequence in self.moved:
            self.failures[sequence] -= 1
        self.truth.publish(
            Publication(
                seq=seq,
                tick=self.tick,
                epoch=self.epoch,
                token=self.token,
                applied=self.drained.in_order(self.outcome.applied),
                moved=self.moved,
                horizon=self.drained.head.next_sequence,
                is_cut=self.drained.is_cut,
            )
        )


def tick(stage: Stage, who: str, world: str, patience: int = 0) -> Steps[None]:
    """Take the fence of a world and publish its next tick; wait a while for a world to be born."""
    while patience and not stage.store.read(head_of(world)):
        patience -= 1
        yield
    epoch = yield from ask(stage, who, TakeFence(world))
    if epoch is None or epoch == CONTENDED:
        return
    for attempt in range(DRAINS_MAX):
        yield
        head: Head = stage.store.read(head_of(world))
        if stage.rules.epoch_check and head.epoch != epoch:
            return
        drained = yield from drain(stage, who, world, head)
        if drained is None:
            continue
        reply = yield from _publish(stage, f"{who}.{attempt}", world, epoch, drained)
        if reply != "stale":
            return


def _publish(stage: Stage, who: str, world: str, epoch: int, drained: Drained) -> Steps[str]:
    outcome, moved = _applied(stage, drained)
    token = f"{who}.{stage.store.chance.random()}"
    truth = stage.truth.of(world)
    request = Publish(
        world, token, epoch, drained, outcome, moved, stage.rules, truth, stage.failures
    )
    reply: str = yield from ask(stage, who, request)
    stage.store.tell(who, "is told {} for tick {}", reply, request.tick)
    landed = truth.manifests.get(request.tick)
    if reply == "lost" and landed and landed.token == token:
        raise Violation(Promise.PUBLISHED_KNOWN, f"tick {request.tick} of {who}")
    return reply


def _applied(stage: Stage, drained: Drained) -> tuple[Outcome, dict[int, Place]]:
    """Apply what was drained; a failure moves a command to a later tick."""
    outcome = Outcome({}, {})
    moved: dict[int, Place] = {}
    later = drained.head.published + 2
    for command in drained.commands:
        if stage.failures.get(command.sequence, 0) <= 0:
            outcome.applied[command.sequence] = command.page
            continue
        outcome.failed[command.sequence] = command.page
        moved[command.sequence] = Place(later, command.place.priority)
        if not stage.goes_on:
            break
    return outcome, moved
