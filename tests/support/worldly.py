"""A world on paper and the short words with which kernel tests tell their stories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.support.paper import Paper

from perdure.kernel.admit import Admit, Admitted, KnownAdmitted, Receipt
from perdure.kernel.batch import prepared
from perdure.kernel.cancel import Cancel, CancelAll
from perdure.kernel.component import Component, Registry
from perdure.kernel.create import CreateWorld, Describe, WorldInfo
from perdure.kernel.drain import DrainDue, Drained
from perdure.kernel.fence import Grip, TakeFence
from perdure.kernel.ids import (
    BatchId,
    CommandId,
    Holder,
    Instant,
    RunId,
    Seq,
    StorageId,
    Tick,
    Token,
    WorldId,
)
from perdure.kernel.operations import Command, Despawn
from perdure.kernel.pages import Page
from perdure.kernel.places import WorldRef
from perdure.kernel.publish import Publish, Published
from perdure.kernel.records import Head, head_key, manifest_key
from perdure.kernel.settle import Failure, settlement
from perdure.kernel.status import CommandStatus, StatusOf


class Position(Component):
    x: float
    y: float


class Counter(Component):
    value: int
    note: str | None = None


class Tag(Component):
    pass


REGISTRY = Registry((Position, Counter, Tag))
WORLD = WorldRef(StorageId("storage"), WorldId("world"))


def due(tick: int | None = None, priority: int | None = None, **options: Any) -> Command:
    """Make a small command that is due then."""
    return Despawn(entity_id=1, tick=tick, priority=priority, **options)


@dataclass
class World:
    """One created world, and what clients and writers do to it."""

    paper: Paper = field(default_factory=Paper)
    ref: WorldRef = WORLD
    numbers: count[int] = field(default_factory=lambda: count(1))
    name: str = "harbour"

    def __post_init__(self) -> None:
        self.paper.ask(CreateWorld(self.ref, self.name, RunId("run")))

    @property
    def head(self) -> Head:
        head: Head = self.paper.held(head_key(self.ref.partition))
        return head

    @property
    def pages(self) -> list[Page]:
        return self.paper.held_under("due/")

    def change(self, change: Callable[[Head], Head]) -> None:
        """Make the head another, as if by a commit."""
        self.paper.put(change(self.head))

    def admission(self, *commands: Command, batch: str | None = None, **sender: Any) -> Admit:
        name = BatchId(f"batch-{next(self.numbers)}" if batch is None else batch)
        return Admit(self.ref, prepared(self.ref.world, name, commands, REGISTRY, **sender))

    def admit(
        self, *commands: Command, batch: str | None = None, **sender: Any
    ) -> Admitted | KnownAdmitted:
        return self.paper.ask(self.admission(*commands, batch=batch, **sender))

    def receipts(self, *commands: Command, batch: str | None = None) -> list[Receipt]:
        return self.admit(*commands, batch=batch).receipts()

    def cancel(self, command: str) -> int:
        return self.paper.ask(Cancel(self.ref, CommandId(command)))

    def cancel_all(self, request: str) -> int:
        return self.paper.ask(CancelAll(self.ref, request)).cancelled_below

    def status(self, command: str) -> CommandStatus:
        return self.paper.ask(StatusOf(self.ref, CommandId(command)))

    def info(self) -> WorldInfo:
        return self.paper.ask(Describe(self.ref))

    def take(self, holder: str = "ann", lease_ms: int = 60_000) -> Grip:
        return self.paper.ask(TakeFence(self.ref, Holder(holder), lease_ms).checked())

    def drain(self, tick: int | None = None) -> Drained:
        at = self.head.next_tick if tick is None else Tick(tick)
        return self.paper.ask(DrainDue(self.ref, at, self.drained_seq))

    @property
    def drained_seq(self) -> Seq:
        """How far the log went at the drain of the last tick, as a writer knows it."""
        last = self.paper.held(manifest_key(self.ref.partition, self.head.published))
        return Seq(0) if last is None else last.drained_seq

    def publishing(
        self,
        drained: Drained,
        grip: Grip,
        *,
        reject: Iterable[int] = (),
        fail: Mapping[int, int] | None = None,
        leave: Iterable[int] = (),
        **more: Any,
    ) -> Publish:
        """Settle what was drained: applied, but for the sequences named.

        ``fail`` gives the attempts that a failure costs, by sequence.
        """
        failing = fail or {}
        apart = {*reject, *failing, *leave}
        due_now = {each.sequence for each in drained.commands}
        settled = settlement(
            drained,
            grip.tick,
            applied=sorted(due_now - apart),
            rejected=[Failure(s, "lookup_error", "no") for s in sorted({*reject} & due_now)],  # type: ignore[arg-type]
            charged=[
                (Failure(s, "boom", "it failed"), cost)  # type: ignore[arg-type]
                for s, cost in sorted(failing.items())
                if s in due_now
            ],
        )
        return Publish(
            ref=self.ref,
            tick=grip.tick,
            token=Token(more.pop("token", f"attempt-{next(self.numbers)}")),
            epoch=grip.epoch,
            holder=grip.holder,
            drained_seq=drained.head.seq,
            drained=settled.drained,
            moved=settled.moved,
            outcomes=settled.outcomes,
            **more,
        )

    def tick(
        self,
        *,
        reject: Iterable[int] = (),
        fail: Mapping[int, int] | None = None,
        leave: Iterable[int] = (),
        **more: Any,
    ) -> Published:
        """Take the fence, drain, settle, publish, and let go."""
        grip = self.take()
        publish = self.publishing(self.drain(), grip, reject=reject, fail=fail, leave=leave, **more)
        return self.paper.ask(publish)

    def ticks(self, times: int) -> None:
        for _ in range(times):
            self.tick()


def later(world: World, ms: int) -> None:
    """Let time pass."""
    world.paper.now = Instant(world.paper.now + ms)


def sequences(receipts: Sequence[Receipt]) -> list[int]:
    return [each.sequence for each in receipts]


def opened(world: World) -> dict[tuple[int, int], list[tuple[Any, ...]]]:
    """Return seq, open sequences and attempts of the entries of each page, by tick and priority."""
    return {
        (page.name.tick, page.name.priority): [
            (entry.seq, entry.open, entry.attempts) for entry in page.entries
        ]
        for page in world.pages
    }
