"""Private worlds: made by a workflow that may never hear of it, and retired whatever it heard."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.models.engine import Decision, Stage, Steps, View, ask, ask_once
from tests.models.records import Entry, Head, Key, head_of, log_of

LINGERS = 12
"""Steps that the workflow stays after the retirement: a late commit may land meanwhile."""


@dataclass(frozen=True, slots=True)
class CreatePrivate:
    """Make a world of one's own, its fence taken in the same commit."""

    world: str

    def named(self) -> tuple[Key, ...]:
        return (head_of(self.world),)

    def decide(self, view: View) -> Decision:
        if view.named(head_of(self.world)):
            return Decision("exists")
        writes = {head_of(self.world): Head(epoch=1), log_of(self.world, 1): Entry("created")}
        return Decision("created", writes)


@dataclass(frozen=True, slots=True)
class Retire:
    """End a private world, also one that is not there, for it may come yet."""

    world: str
    tombstone: bool

    def named(self) -> tuple[Key, ...]:
        return (head_of(self.world),)

    def decide(self, view: View) -> Decision:
        head: Head | None = view.named(head_of(self.world))
        if head is None and not self.tombstone:
            return Decision("absent")
        if head is not None and head.status == "destroyed":
            return Decision("retired before")
        seq = 1 if head is None else head.seq + 1
        after = replace(head or Head(), status="destroyed", seq=seq)
        writes = {head_of(self.world): after, log_of(self.world, seq): Entry("retired")}
        return Decision("retired", writes)


def workflow(stage: Stage, who: str, world: str) -> Steps[None]:
    """Make a private world, asking once only, and retire it."""
    stage.store.tell(who, "is told: {}", (yield from ask_once(stage, who, CreatePrivate(world))))
    told = yield from ask(stage, who, Retire(world, stage.rules.tombstone))
    stage.store.tell(who, "is told: {}", told)
    stage.truth.retired.add(world)
    for _ in range(LINGERS):
        yield
