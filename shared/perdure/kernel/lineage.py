"""Lineage: which ticks of a fork's history lie with which ancestor, and whether they fit together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from perdure.kernel.errors import CorruptLineage
from perdure.kernel.ids import NO_TICK, Instant, Partition, Tick
from perdure.kernel.landing import CONSUMER, landing_start
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import WorldState
from perdure.kernel.records import Ancestor, Manifest, World, head_key, manifest_key, world_key
from perdure.kernel.seen import SeenInPart
from perdure.kernel.upkeep import consumer_key
from perdure.kernel.view import Decision, Key, Reads, View


def ancestor_ref(world: World, ancestor: Ancestor) -> WorldRef:
    """Name an ancestor: it lives in the storage of its descendants."""
    return WorldRef(world.storage, ancestor.world)


def partition_of(world: World, tick: Tick) -> Partition:
    """Return where the manifest of a tick of this world's history lies."""
    for ancestor in world.lineage:
        if tick <= ancestor.up_to:
            return ancestor_ref(world, ancestor).partition
    return world.ref.partition


@dataclass(frozen=True, slots=True)
class FindAncestors:
    """Look up the ancestors of a world, oldest first, as far as they are published and landed.

    An ancestor may be destroyed: what it published stays. Raises CorruptLineage where they
    do not add up to the ``published`` ticks of the world.
    """

    world: World
    published: Tick

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{self.world.ref.partition}#lineage")

    def reads(self) -> Reads:
        refs = [ancestor_ref(self.world, each) for each in self.world.lineage]
        return Reads(
            peeks=tuple(
                key
                for ref in refs
                for key in (
                    world_key(ref),
                    head_key(ref.partition),
                    consumer_key(ref.partition, CONSUMER),
                )
            )
        )

    def decide(self, view: View, now: Instant) -> Decision[tuple[WorldState, ...]]:
        _check_record(self.world, self.published)
        if self._lacks_its_start(view):
            lost = _corrupt("ancestors, or ticks from 0 of its own", self.world, "neither")
            raise SeenInPart((self._start,), lost)
        found: list[WorldState] = []
        for place, ancestor in enumerate(self.world.lineage):
            ref = ancestor_ref(self.world, ancestor)
            state = _state(view, ref)
            if state is None:
                lost = _corrupt(f"ancestor {ancestor.world!r}", self.world, "no such world")
                raise SeenInPart((world_key(ref), head_key(ref.partition)), lost)
            if state.world.run != ancestor.run:
                raise _corrupt(f"run {ancestor.run!r}", self.world, f"run {state.world.run!r}")
            if state.published < ancestor.up_to:
                raise _corrupt(
                    f"tick {ancestor.up_to} of ancestor {ancestor.world!r} published",
                    self.world,
                    f"tick {state.published} the last",
                )
            if state.world.lineage != self.world.lineage[:place]:
                raise _corrupt(
                    f"the ancestors of {ancestor.world!r} before it", self.world, "others"
                )
            found.append(state)
        return Decision(tuple(found))

    def _lacks_its_start(self, view: View) -> bool:
        """Say whether a child names no ancestor and does not begin with a tick of its own."""
        world = self.world
        if world.parent is None or world.lineage or self.published < world.begins:
            return False
        return view.peek(self._start) is None

    @property
    def _start(self) -> Key[Manifest]:
        return manifest_key(self.world.ref.partition, self.world.begins)


def _state(view: View, ref: WorldRef) -> WorldState | None:
    world, head = view.peek(world_key(ref)), view.peek(head_key(ref.partition))
    if world is None or head is None:
        return None
    mark = view.peek(consumer_key(ref.partition, CONSUMER))
    return WorldState(world, head, landing_start(world) if mark is None else mark.tick)


def _check_record(world: World, published: Tick) -> None:
    """Check what the record alone can say. Raises CorruptLineage."""
    lineage = world.lineage
    names = [world.world, *(each.world for each in lineage)]
    if len(set(names)) < len(names):
        raise _corrupt("each ancestor once, and not the world itself", world, "a cycle")
    caps = [NO_TICK, *(each.up_to for each in lineage), published]
    if lineage and any(later < earlier for earlier, later in pairwise(caps)):
        raise _corrupt("ancestors that end one after the other", world, f"ends at {caps[1:]}")
    if lineage and lineage[-1].world != world.parent:
        raise _corrupt(
            f"its parent {world.parent!r} as the last ancestor", world, repr(lineage[-1].world)
        )


def _corrupt(expected: str, world: World, found: str) -> CorruptLineage:
    return CorruptLineage(expected=f"{expected} in the lineage of {world.world!r}", found=found)
