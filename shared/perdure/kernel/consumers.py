"""Consumers: named readers of a world's log, and what a world waits for before it goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import (
    Conflict,
    ConsumerBehind,
    Contended,
    Invalid,
    NotFound,
    OutOfRange,
    TooLarge,
    WorldClosing,
)
from perdure.kernel.ids import NO_TICK, Holder, Instant, Partition, Seq, checked_id
from perdure.kernel.landing import AUDIT, CONSUMER, is_unlanded, landing_start
from perdure.kernel.places import WorldRef, after
from perdure.kernel.records import Head, head_key, manifest_key, world_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import SeenInPart
from perdure.kernel.upkeep import Consumer, Required, consumer_key, required_key
from perdure.kernel.view import Decision, Range, Reads, Removed, View, Write
from perdure.kernel.wake import (
    UNREAD_MS,
    active_head,
    appended,
    existing_head,
    glimpsed_head,
    woken,
)
from perdure.kernel.writers import check_holder

OWN: Final = frozenset({AUDIT, CONSUMER})
"""Consumers that belong to the storage: they can be required, and nobody else moves them."""


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """What is told of a consumer. ``lag`` counts the log entries it has not read."""

    name: str
    seq: Seq
    lag: int
    required: bool


@dataclass(frozen=True, slots=True)
class SetConsumer(WorldRequest):
    """Register a reader of a world's log, and say whether the world must wait for it.

    A new one begins at the log's beginning. Asked again it changes nothing. A closing world,
    too, can be told to wait for one no longer.
    """

    name: str
    required: bool
    by: Caller = LOCAL
    holder: Holder | None = None
    """Who asks, as the fence of a private world knows it."""

    def checked(self) -> SetConsumer:
        """Return self if the name is well formed. Raises InvalidId."""
        checked_name(self.name)
        return self

    def reads(self) -> Reads:
        return _reads(self.ref, self.name, all_of_them=True)

    def decide(self, view: View, now: Instant) -> Decision[ConsumerInfo]:
        world = self.ref.partition
        names = _required(view, world)
        lets_go = self.name in names and not self.required
        head = _changeable(view, self.ref, self.holder, lets_go=lets_go)
        known = view.get(consumer_key(world, self.name))
        wanted = _named(names, self.name, required=self.required)
        if len(wanted) > limits.REQUIRED_CONSUMERS_MAX:
            raise TooLarge(
                expected=f"at most {limits.REQUIRED_CONSUMERS_MAX} required consumers",
                found=f"{', '.join(sorted(names))} and one more",
            )
        if known is None and self.name not in OWN and len(_others(view, world)) >= _MOST:
            raise TooLarge(expected=f"at most {_MOST} consumers of a world", found="one more")
        is_new = known is None and self.name not in OWN
        if not is_new and wanted == names:
            return Decision(_told(head, self.name, known, wanted))
        # The storage's own ones begin by themselves, each where its own reading begins.
        fresh = Consumer(partition=world, name=self.name, seq=Seq(0))
        facts = {"consumer": self.name, "required": self.required, **self.by.facts}
        after_, writes = _changed(view, self.ref, head, wanted, facts, now)
        info = _told(after_, self.name, known, wanted)
        return Decision(info, (*writes, *((fresh,) if is_new else ())))


@dataclass(frozen=True, slots=True)
class RemoveConsumer(WorldRequest):
    """Forget a consumer and how far it had read; the world waits for it no longer.

    What is not there is removed already. A closing world, too, may be freed of one.
    """

    name: str
    by: Caller = LOCAL
    holder: Holder | None = None
    """Who asks, as the fence of a private world knows it."""

    def checked(self) -> RemoveConsumer:
        """Return self if it may be removed. Raises InvalidId, Invalid."""
        _check_not_own(checked_name(self.name), "removed")
        return self

    def reads(self) -> Reads:
        return _reads(self.ref, self.name)

    def decide(self, view: View, now: Instant) -> Decision[None]:
        world = self.ref.partition
        head = _changeable(view, self.ref, self.holder, lets_go=True)
        key = consumer_key(world, self.name)
        names = _required(view, world)
        if view.get(key) is None and self.name not in names:
            return Decision(None)
        wanted = _named(names, self.name, required=False)
        facts = {"consumer": self.name, "removed": True, **self.by.facts}
        _, writes = _changed(view, self.ref, head, wanted, facts, now)
        return Decision(None, (*writes, Removed(key)))


@dataclass(frozen=True, slots=True)
class Acknowledge(WorldRequest):
    """Say that a consumer has read the log up to ``seq``, without a gap.

    Writes the watermark alone. In every state of the world; the same again changes nothing.
    """

    name: str
    seq: Seq
    by: Caller = LOCAL

    @property
    def stream(self) -> Partition:
        # A line of its own: whoever reads a log does not stand in that of its writers.
        return Partition(f"{self.ref.partition}#consumers")

    def checked(self) -> Acknowledge:
        """Return self if the name is well formed and no consumer of the storage's own."""
        _check_not_own(checked_name(self.name), "acknowledged by hand")
        return self

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(consumer_key(world, self.name),), peeks=(head_key(world),))

    def decide(self, view: View, now: Instant) -> Decision[ConsumerInfo]:
        head = glimpsed_head(view, self.ref)
        mark = view.get(consumer_key(self.ref.partition, self.name))
        if mark is None:
            raise NotFound(expected="a consumer that is registered", found=repr(self.name))
        if self.seq > head.seq:
            beyond = OutOfRange(
                expected=f"a seq up to {head.seq}, the last entry of the log", found=str(self.seq)
            )
            raise SeenInPart((head.key,), beyond)  # it may have read an entry before its head
        if self.seq < mark.seq:
            raise Conflict(
                expected=f"a watermark that only rises; {self.name!r} has read up to {mark.seq}",
                found=str(self.seq),
            )
        names = _glimpsed_required(view, head)
        info = _told(head, self.name, replace(mark, seq=self.seq), names)
        return Decision(info, () if mark.seq == self.seq else (replace(mark, seq=self.seq),))


@dataclass(frozen=True, slots=True)
class ListConsumers(WorldRequest):
    """Tell of every reader of a world's log, by name."""

    def reads(self) -> Reads:
        return consumer_reads(self.ref)

    def decide(self, view: View, now: Instant) -> Decision[tuple[ConsumerInfo, ...]]:
        return Decision(consumers_of(view, glimpsed_head(view, self.ref)))


@dataclass(frozen=True, slots=True)
class CheckConsumers(WorldRequest):
    """Raise ConsumerBehind while a required consumer has not read the published tick."""

    def reads(self) -> Reads:
        return Reads(peeks=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        check_consumers(view, self.ref, glimpsed_head(view, self.ref))
        return Decision(None)


def check_consumers(view: View, ref: WorldRef, head: Head) -> None:
    """Refuse to go on behind a tick that a required consumer has not read.

    What is looked at conditions nothing: watermarks only rise, and who is required changes
    with the head. Raises: ConsumerBehind, Missing, Contended.
    """
    if not head.required or head.published == NO_TICK:
        return
    world = head.partition
    published = manifest_key(world, head.published)
    view.require(peeks=(required_key(world), published, world_key(ref)))
    manifest = view.peek(published)
    if manifest is None:
        found = view.peek(world_key(ref))
        if found is not None and landing_start(found) == head.published:
            return  # a fork's first tick: what came before is its parent's to wait for
        raise Contended(
            expected=f"the manifest of tick {head.published}", found="none yet: it is being written"
        )
    check_read(view, ref, head, manifest.seq)


def check_read(view: View, ref: WorldRef, head: Head, seq: Seq) -> None:
    """Refuse while a required consumer has not read the log up to ``seq``.

    Landing reads published ticks and nothing else: it is done when there is none to land.
    Raises: ConsumerBehind, Missing, Contended.
    """
    if not head.required:
        return
    names = _glimpsed_required(view, head)
    if len(names) != head.required:
        raise Contended(
            expected=f"{head.required} required consumers", found=f"{len(names)}: it is changing"
        )
    keys = [consumer_key(head.partition, name) for name in names]
    lands = CONSUMER in names
    view.require(peeks=(*keys, world_key(ref)) if lands else keys)
    for name, mark in zip(names, map(view.peek, keys), strict=True):
        if name == CONSUMER and not is_unlanded(head, mark, view.peek(world_key(ref))):
            continue
        reached = 0 if mark is None else mark.seq
        if reached < seq:
            raise ConsumerBehind(
                expected=f"consumer {name!r} to have read up to entry {seq}",
                found=f"{reached}",
            )


def consumer_reads(ref: WorldRef) -> Reads:
    """Return what :func:`consumers_of` looks at."""
    world = ref.partition
    peeks = (head_key(world), required_key(world))
    return Reads(peeks=peeks, ranges=(_range(world),))


def consumers_of(view: View, head: Head) -> tuple[ConsumerInfo, ...]:
    """Tell of every consumer of a world, by name. Raises Missing."""
    world = head.partition
    marks = {mark.name: mark for mark in view.find(_range(world))}
    names = _glimpsed_required(view, head)
    every = sorted({*marks, *names})
    return tuple(_told(head, name, marks.get(name), names) for name in every)


def checked_name(name: str) -> str:
    """Return ``name`` if it may name a consumer. Raises InvalidId."""
    most = limits.CONSUMER_NAME_BYTES_MAX
    return checked_id(name, what="a consumer's name", bytes_max=most)


_MOST: Final = limits.CONSUMERS_MAX


def _changeable(view: View, ref: WorldRef, holder: Holder | None, *, lets_go: bool) -> Head:
    """Return the head of a world whose consumers may change. One that is closing lets go only."""
    try:
        head = active_head(view, ref)
    except WorldClosing:
        if not lets_go:
            raise
        return existing_head(view, ref)
    check_holder(head, holder)
    return head


def _check_not_own(name: str, done: str) -> None:
    if name in OWN:
        raise Invalid(expected=f"a consumer that can be {done}", found=f"the storage's own {name}")


def _reads(ref: WorldRef, name: str, *, all_of_them: bool = False) -> Reads:
    world = ref.partition
    keys = (head_key(world), required_key(world), consumer_key(world, name))
    return Reads(keys=keys, ranges=(_range(world),) if all_of_them else ())


def _range(world: Partition) -> Range[Consumer]:
    return Range(world, "consumer/", after("consumer/"), Consumer)


def _others(view: View, world: Partition) -> list[Consumer]:
    return [mark for mark in view.find(_range(world)) if mark.name not in OWN]


def _required(view: View, world: Partition) -> tuple[str, ...]:
    found = view.get(required_key(world))
    return () if found is None else found.names


def _glimpsed_required(view: View, head: Head) -> tuple[str, ...]:
    if not head.required:
        return ()
    found = view.peek(required_key(head.partition))
    return () if found is None else found.names


def _named(names: tuple[str, ...], name: str, *, required: bool) -> tuple[str, ...]:
    others = {each for each in names if each != name}
    return tuple(sorted({*others, name} if required else others))


def _told(head: Head, name: str, mark: Consumer | None, names: tuple[str, ...]) -> ConsumerInfo:
    seq = Seq(0) if mark is None else mark.seq
    lag = head.seq - seq
    if name == CONSUMER and mark is not None and mark.tick >= head.published:
        lag = 0  # it reads published ticks only, and there is none it has not read
    return ConsumerInfo(name=name, seq=seq, lag=max(0, lag), required=name in names)


def _changed(
    view: View,
    ref: WorldRef,
    head: Head,
    names: tuple[str, ...],
    facts: dict[str, Any],
    now: Instant,
) -> tuple[Head, tuple[Write, ...]]:
    """Return the head after a change, and the writes of it: entry, hint, who is required."""
    after_, entry = appended(head, "configured", facts, now, required=len(names))
    after_, hints = woken(view, after_, ref, Instant(now + UNREAD_MS))
    required: Write = Required(partition=head.partition, names=names)
    if not names:
        required = Removed(required_key(head.partition))
    writes: tuple[Write, ...] = (after_, entry, *hints)
    if head.required or names:
        writes = (*writes, required)
    return after_, writes
