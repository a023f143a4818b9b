"""Stories: what a world's log says happened, told by a model that decides for itself what they mean.

Records are read with the kernel's own readers: batches, ranges, the digests of entries.

Each place of the log is a moment of the world; each command has a fate from some place on.
What contradicts itself is told as a fault: a gap, a broken chain, a command settled twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.proof.order import Spans, spans
from tests.proof.records import Records, WorldRecords

from perdure.kernel.ids import indexed_command_id
from perdure.kernel.limits import BACKOFF_TICKS_MAX
from perdure.kernel.log import LogEntry
from perdure.kernel.ranges import members
from perdure.kernel.records import Manifest
from perdure.kernel.stored import StoredBatch

OPEN = frozenset({"pending", "retryable"})
STATUSES = {"closing": "closing", "destroyed": "destroyed", "moving": "moving", "moved": "moved"}


@dataclass(frozen=True, slots=True)
class Fate:
    """What is true of one command."""

    status: str
    attempts: int = 0
    code: str | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


@dataclass(frozen=True, slots=True)
class Moment:
    """What is true of a world after one entry of its log. Before the first there is none."""

    status: str
    published: int
    pending: int


NOTHING = Moment("absent", -1, 0)


@dataclass
class Story:
    """What happened in one world, and what is wrong with it."""

    world: WorldRecords
    moments: list[Moment] = field(default_factory=lambda: [NOTHING])
    fates: dict[int, list[tuple[int, Fate]]] = field(default_factory=dict)
    """Of each sequence: from which place on which fate."""

    sequences: dict[str, int] = field(default_factory=dict)
    """Of each command, by its name."""

    entities: dict[int, int] = field(default_factory=dict)
    """The entity that a spawning command reserved, by its sequence."""

    operations: dict[int, dict[str, Any]] = field(default_factory=dict)
    dues: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Of each sequence: from which place on it is due at which tick."""

    applied: list[tuple[int, int]] = field(default_factory=list)
    """(tick, sequence) of what was applied, in order."""

    published: dict[int, int] = field(default_factory=dict)
    """Place of the entry that published a tick."""

    tokens: dict[int, str] = field(default_factory=dict)
    """Token of every published tick, an ancestor's too."""

    admitted: dict[str, int] = field(default_factory=dict)
    """Place of each admission, by its batch."""

    batches: dict[tuple[str, int], StoredBatch] = field(default_factory=dict)
    """Every batch, an ancestor's too, by the log and the place that hold it."""

    faults: list[str] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    """Entities that were reserved."""

    @property
    def name(self) -> str:
        return self.world.record.world

    @property
    def last(self) -> int:
        """The last place."""
        return len(self.moments) - 1

    def since(self, place: int) -> Spans:
        return ((place, self.last),) if place <= self.last else ()

    def where(self, status: str) -> Spans:
        """Return the places at which the world has a status."""
        return spans(at for at, moment in enumerate(self.moments) if moment.status == status)

    def where_fate(self, sequence: int, is_so: Callable[[Fate], bool]) -> Spans:
        """Return the places at which something is true of a command's fate."""
        told = self.fates[sequence]
        ends = [place - 1 for place, _ in told[1:]] + [self.last]
        return tuple(
            (place, end) for (place, fate), end in zip(told, ends, strict=True) if is_so(fate)
        )

    def fate_at(self, sequence: int, place: int) -> Fate:
        """Return the fate that a command had at a place at or behind its admission."""
        return [fate for since, fate in self.fates[sequence] if since <= place][-1]

    def due_at(self, sequence: int, place: int) -> int:
        """Return the tick at which a command was due, as it stood at a place."""
        return [due for since, due in self.dues[sequence] if since <= place][-1]

    def turn(self, sequence: int) -> tuple[int, int, int]:
        """Return what says who comes first: due tick, priority, sequence."""
        priority = self.operations[sequence].get("priority", 0)
        return self.dues[sequence][-1][1], priority, sequence

    def fault(self, text: str) -> None:
        self.faults.append(f"{self.name}: {text}")

    def set_fate(self, sequence: int, place: int, fate: Fate, why: str) -> bool:
        """Give an open command another fate; one that is settled keeps the one it has."""
        if sequence not in self.open:
            known = self.fates.get(sequence)
            found = "was never admitted" if known is None else f"is {known[-1][1]}"
            self.fault(f"I2: {why} at {place} says {fate} of sequence {sequence}, which {found}")
            return False
        self.fates[sequence].append((place, fate))
        if not fate.is_open:
            self.open.discard(sequence)
        return True

    def begin(self, sequence: int, place: int, fate: Fate) -> None:
        self.fates[sequence] = [(place, fate)]
        if fate.is_open:
            self.open.add(sequence)


def stories(records: Records) -> dict[str, Story]:
    """Tell the story of every world, of a source before its forks."""
    told: dict[str, Story] = {}
    waiting = dict(records.worlds)
    while waiting:
        ready = [
            name for name, world in waiting.items() if (world.record.parent or "") not in waiting
        ]
        for name in ready:
            told[name] = _Teller(waiting.pop(name), told).tell()
    return told


class _Teller:
    """Goes through one log from its beginning."""

    def __init__(self, world: WorldRecords, told: dict[str, Story]) -> None:
        self._world, self._told = world, told
        self._story = Story(world)

    def tell(self) -> Story:
        story, previous = self._story, ""
        for place, entry in enumerate(self._world.log, 1):
            if entry.seq != place or entry.previous != previous:
                story.fault(f"I6: entry {entry.seq} of the log is no link behind entry {place - 1}")
                break
            previous = entry.digest
            now = story.moments[-1]
            if now.status not in {"absent", "active"} and entry.kind in {"admitted", "published"}:
                story.fault(f"I5: {entry.kind} at {place} in a world that is {now.status}")
            self._happens(place, entry)
            status = STATUSES.get(entry.kind, "active")
            story.moments.append(Moment(status, self._tick, len(story.open)))
        self._check_head(previous)
        return story

    @property
    def _tick(self) -> int:
        return max(self._story.tokens, default=-1)

    def _happens(self, place: int, entry: LogEntry) -> None:
        story, facts = self._story, entry.facts
        if (place == 1) != (entry.kind in {"created", "forked"}) and facts.get("retired") is None:
            story.fault(f"I4: {entry.kind} at {place}")
        if entry.kind == "forked":
            self._fork(facts)
        elif entry.kind == "admitted":
            self._admit(place, entry)
        elif entry.kind == "published":
            self._publish(place, facts)
        elif entry.kind == "cancelled":
            story.set_fate(facts["sequence"], place, CANCELLED, "a cancellation")
            if facts["sequence"] not in self._world.cancelled:
                story.fault(f"I4: cancelled at {place} without a mark")
        elif entry.kind == "cancelled_all":
            self._end(place, CANCELLED, (s for s in story.open if s < facts["cancelled_below"]))
        elif entry.kind == "destroyed":
            self._end(place, DESTROYED, story.open)

    def _end(self, place: int, fate: Fate, which: Iterable[int]) -> None:
        for sequence in sorted(which):
            self._story.set_fate(sequence, place, fate, "an end")

    def _fork(self, facts: dict[str, Any]) -> None:
        story, source = self._story, self._told.get(facts["source"])
        if source is None:
            story.fault(f"I4: forked from {facts['source']}, of which there is nothing")
            return
        tick = facts["tick"]
        last = -1 if tick is None else tick
        story.batches = dict(source.batches)
        story.tokens = {at: token for at, token in source.tokens.items() if at <= last}
        story.applied = [each for each in source.applied if each[0] in story.tokens]
        below = facts["next_sequence"]
        story.sequences = {name: s for name, s in source.sequences.items() if s < below}
        for sequence in [each for each in source.fates if each < below]:
            fate = source.fate_at(sequence, facts["source_seq"])
            if fate.is_open and facts["pending"] == "drop":
                fate = CANCELLED
            story.begin(sequence, 1, fate)
            story.operations[sequence] = source.operations[sequence]
            story.dues[sequence] = [(1, source.due_at(sequence, facts["source_seq"]))]
            if sequence in source.entities:
                story.entities[sequence] = source.entities[sequence]
                story.given.add(source.entities[sequence])

    def _admit(self, place: int, entry: LogEntry) -> None:
        story, batch = self._story, StoredBatch.of(entry)
        name = entry.facts["batch"]
        key = self._world.batches.get(name)
        if name in story.admitted:
            story.fault(f"I7: batch {name} admitted at {story.admitted[name]} and at {place}")
        if key is None or key.seq != place:
            story.fault(f"I4: batch {name} admitted at {place}, but its key says {key}")
        story.admitted[name] = place
        story.batches[entry.partition, place] = batch
        for index, command in enumerate(batch.commands(0, batch.size)):
            if command.sequence in story.fates:
                story.fault(f"I2: sequence {command.sequence} given again at {place}")
            story.begin(command.sequence, place, PENDING)
            story.sequences[batch.command_id(index)] = command.sequence
            # Known by its place, too, if its caller chose an id.
            story.sequences[indexed_command_id(name, index)] = command.sequence
            story.operations[command.sequence] = command.operation
            wanted = command.operation.get("tick", 0)
            story.dues[command.sequence] = [(place, max(wanted, self._tick + 1))]
            if command.entity_id is not None:
                if command.entity_id in story.given:
                    story.fault(f"I2: entity {command.entity_id} given again at {place}")
                story.given.add(command.entity_id)
                story.entities[command.sequence] = command.entity_id

    def _publish(self, place: int, facts: dict[str, Any]) -> None:
        story, tick = self._story, facts["tick"]
        manifest = self._world.manifests.get(tick)
        if tick != self._tick + 1:
            story.fault(f"I6: tick {tick} published at {place} behind tick {self._tick}")
        if tick in story.tokens:
            story.fault(f"I1: tick {tick} published again at {place}")
        story.tokens[tick], story.published[tick] = facts["token"], place
        if manifest is None or manifest.digest != facts["manifest"] or manifest.seq != place:
            story.fault(f"I1: tick {tick} at {place} is not what its manifest says")
            return
        self._check_turns(place, manifest)
        self._settle(place, manifest)

    def _check_turns(self, place: int, manifest: Manifest) -> None:
        """Check that nothing is taken before it is due, or before one whose turn comes first."""
        story = self._story
        taken = {outcome.sequence for outcome in manifest.outcomes}
        taken = (taken | {*members(manifest.settled)}) & story.open
        turns = {sequence: story.turn(sequence) for sequence in taken}
        for sequence, (due, *_) in sorted(turns.items()):
            if due > manifest.tick:
                story.fault(f"I2: sequence {sequence}, due at tick {due}, taken at {manifest.tick}")
        last = max(turns.values(), default=(-1, 0, 0))
        for sequence in sorted(story.open - taken):
            is_seen = story.fates[sequence][0][0] <= manifest.drained_seq
            if is_seen and story.turn(sequence) < last:
                story.fault(f"I2: sequence {last[-1]} at {place} overtook sequence {sequence}")

    def _settle(self, place: int, manifest: Manifest) -> None:
        story, why = self._story, f"manifest {manifest.tick}"
        said = {outcome.sequence: outcome for outcome in manifest.outcomes}
        for sequence, outcome in said.items():
            # While it is tried again nobody is told why.
            code = None if outcome.status == "retryable" else outcome.code
            fate = Fate(outcome.status, outcome.attempts, code)
            if story.set_fate(sequence, place, fate, why) and fate.is_open:
                wait = min(2 ** (fate.attempts - 1), BACKOFF_TICKS_MAX)
                story.dues[sequence].append((place, manifest.tick + wait))
        for sequence in members(manifest.settled):
            if sequence not in said and story.set_fate(sequence, place, APPLIED, why):
                story.applied.append((manifest.tick, sequence))
        for sequence in members(manifest.cancelled):
            known = story.fates.get(sequence, [(place, PENDING)])
            if known[-1][1] != CANCELLED:
                story.fault(f"I2: {why} drops sequence {sequence}, which nobody cancelled")

    def _check_head(self, digest: str) -> None:
        story, world, head = self._story, self._world, self._world.head
        sequences = [*story.fates]
        wanted = {
            "seq": len(world.log),
            "log_digest": digest,
            "published": self._tick,
            "status": story.moments[-1].status,
            "open_commands": len(story.open),
            "next_sequence": max(sequences, default=0) + 1,
        }
        for name, value in wanted.items():
            if getattr(head, name) != value:
                story.fault(f"I6: the head's {name} is {getattr(head, name)}, the log says {value}")
        if set(world.manifests) != set(story.published):
            story.fault(
                f"I3: manifests {set(world.manifests) ^ set(story.published)} have no entry"
            )
        if set(world.batches) != set(story.admitted):
            story.fault(f"I4: batches {set(world.batches) ^ set(story.admitted)} have no entry")
        epochs = [world.manifests[tick].epoch for tick in sorted(world.manifests)]
        if epochs != sorted(epochs):
            story.fault(f"I1: epochs of ticks go back: {epochs}")


PENDING = Fate("pending")
APPLIED = Fate("applied")
CANCELLED = Fate("rejected", 0, "cancelled")
DESTROYED = Fate("rejected", 0, "world_destroyed")


def living_at(story: Story, tick: int) -> dict[int, dict[str, Any]]:
    """Return the entities that live at a tick, each with the components it was spawned with."""
    spawned: dict[int, dict[str, Any]] = {}
    gone: set[int] = set()
    for at, sequence in story.applied:
        operation = story.operations[sequence]
        if at <= tick and operation["operation"] == "spawn":
            spawned[story.entities[sequence]] = operation["components"]
        elif at <= tick and operation["operation"] == "despawn":
            gone.add(operation["entity_id"])
    return {entity: values for entity, values in spawned.items() if entity not in gone}
