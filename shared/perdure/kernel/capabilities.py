"""Capabilities: which processors, hooks and resources of its application a world uses, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from perdure.kernel import limits
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import (
    Contended,
    Invalid,
    NotFound,
    OutOfRange,
    PerdureError,
    TooLarge,
    UnknownHook,
    UnknownProcessor,
    UnknownResource,
)
from perdure.kernel.ids import Holder, Instant, Partition, checked_id
from perdure.kernel.places import WorldRef
from perdure.kernel.record import Record
from perdure.kernel.records import Head, World, head_key, world_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.seen import SeenInPart, seen_world
from perdure.kernel.shown import shown
from perdure.kernel.view import Decision, Key, Reads, View
from perdure.kernel.wake import UNREAD_MS, active_head, appended, woken
from perdure.kernel.writers import check_app, check_holder

CapabilityKind = Literal["processor", "hook", "resource"]

UNKNOWN: Final[Mapping[CapabilityKind, type[PerdureError]]] = {
    "processor": UnknownProcessor,
    "hook": UnknownHook,
    "resource": UnknownResource,
}


@dataclass(frozen=True, slots=True)
class Use:
    """Something a world uses. Without a ``priority`` it is the application's own."""

    name: str
    priority: int | None = None


Uses = tuple[Use, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities(Record):
    """What a world uses, by name. None is all that the application has, also what it will have.

    ``configured`` is the head's count when this was written: a reader that meets a lesser
    one has met a running commit.
    """

    configured: int
    processors: Uses | None = None
    hooks: Uses | None = None
    resources: Uses | None = None

    @property
    def key(self) -> Key[Capabilities]:
        return capabilities_key(self.partition)

    def uses(self, kind: CapabilityKind) -> Uses | None:
        """Return what is used of one kind, by name; None is all there is."""
        found: Uses | None = getattr(self, _lists(kind))
        return found

    def using(self, kind: CapabilityKind, uses: Uses) -> Capabilities:
        """Return the same choice with another list of one kind."""
        match kind:
            case "processor":
                return replace(self, processors=uses)
            case "hook":
                return replace(self, hooks=uses)
            case "resource":
                return replace(self, resources=uses)

    def copied(self, partition: Partition) -> Capabilities:
        """Return the same choice for another world, whose head has the same ``configured``."""
        return replace(self, partition=partition)


@dataclass(frozen=True, slots=True)
class Configure(WorldRequest):
    """Let a world use something, or no longer; ticks that begin after go by it.

    The first change of a kind writes down what the application has now. Adding what is used
    with the same priority, and removing what is not, changes nothing.
    """

    kind: CapabilityKind
    action: Literal["add", "remove"]
    name: str
    app: str
    known: tuple[str, ...]
    """What the application of the caller has of this kind."""

    priority: int | None = None
    holder: Holder | None = None
    """Who asks, as the fence of a private world knows it."""

    by: Caller = LOCAL

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), capabilities_key(world)), peeks=(world_key(self.ref),))

    def checked(self) -> Configure:
        """Return self if name and priority are well formed. Raises Invalid kinds."""
        checked_id(self.name, what=f"a name of a {self.kind}")
        if self.priority is None:
            return self
        if self.kind != "processor":
            raise Invalid(expected=f"a {self.kind} without a priority", found=str(self.priority))
        if abs(self.priority) > limits.PRIORITY_MAX:
            raise OutOfRange(
                expected=f"a priority within ±{limits.PRIORITY_MAX}", found=str(self.priority)
            )
        return self

    def decide(self, view: View, now: Instant) -> Decision[Capabilities | None]:
        head = active_head(view, self.ref)
        checked_app(view.peek(world_key(self.ref)), self.ref, self.app)
        check_holder(head, self.holder)
        held = view.get(capabilities_key(self.ref.partition))
        present = None if held is None else held.uses(self.kind)
        # A world that never chose uses all there is: from here on that is spelled out.
        spelled = tuple(map(Use, self.known)) if present is None else present
        before = {use.name: use for use in spelled}
        after = self._changed(before)
        if after == before:
            return Decision(held)
        self._check_limits(head, after)
        facts: dict[str, str | int] = {
            "kind": self.kind,
            "action": self.action,
            "name": self.name,
            **self.by.facts,
        }
        if self.priority is not None:
            facts["priority"] = self.priority
        head, entry = appended(head, "configured", facts, now, configured=head.configured + 1)
        head, hints = woken(view, head, self.ref, Instant(now + UNREAD_MS))
        fresh = held or Capabilities(partition=self.ref.partition, configured=0)
        uses = tuple(after[name] for name in sorted(after))
        chosen = replace(fresh.using(self.kind, uses), configured=head.configured)
        return Decision(chosen, (head, entry, chosen, *hints))

    def _changed(self, before: Mapping[str, Use]) -> dict[str, Use]:
        if self.name not in self.known and (self.action == "add" or self.name not in before):
            raise UNKNOWN[self.kind](
                expected=f"one of the {_lists(self.kind)} of application {self.app!r}:"
                f" {', '.join(sorted(self.known)) or 'it has none'}",
                found=shown(self.name),
            )
        if self.action == "add":
            return {**before, self.name: Use(self.name, self.priority)}
        return {name: use for name, use in before.items() if name != self.name}

    def _check_limits(self, head: Head, after: Mapping[str, Use]) -> None:
        if len(after) > limits.CAPABILITIES_MAX:
            raise TooLarge(
                expected=f"at most {limits.CAPABILITIES_MAX} {_lists(self.kind)} of a world",
                found=str(len(after)),
            )
        if head.configured >= limits.CONFIGURATIONS_MAX:
            raise TooLarge(
                expected=f"at most {limits.CONFIGURATIONS_MAX} changes of a world's configuration",
                found=f"change {head.configured + 1}",
            )


@dataclass(frozen=True, slots=True)
class FoundCapabilities:
    """A world, how often its choice has changed, and the choice as it was read with that."""

    world: World
    configured: int
    capabilities: Capabilities | None


@dataclass(frozen=True, slots=True)
class FindCapabilities(WorldRequest):
    """Read what a world uses. Raises NotFound; Contended beside a running change."""

    @property
    def stream(self) -> Partition:
        # A line of its own, so that a reader never stands in a writer's.
        return Partition(f"{self.ref.partition}#read")

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(peeks=(world_key(self.ref), head_key(world), capabilities_key(world)))

    def decide(self, view: View, now: Instant) -> Decision[FoundCapabilities]:
        world, head = seen_world(view, self.ref)
        held = view.peek(capabilities_key(self.ref.partition))
        written = 0 if held is None else held.configured
        if written < head.configured:
            raise Contended(
                expected=f"change {head.configured} of the configuration of {self.ref.world!r}",
                found=f"change {written}: a running commit was seen in part",
            )
        return Decision(FoundCapabilities(world, head.configured, held))


def checked_app(world: World | None, ref: WorldRef, app: str) -> World:
    """Return a world that was made for an application, or for any. Raises NotFound, WrongApp."""
    if world is None:
        unknown = NotFound(expected="a world that exists", found=f"no world {ref.world!r}")
        raise SeenInPart((world_key(ref),), unknown)
    check_app(world, app)
    return world


def capabilities_key(world: Partition) -> Key[Capabilities]:
    return Key(world, "processors", Capabilities)


def _lists(kind: CapabilityKind) -> str:
    return f"{kind}s"
