"""Batches read back from the log, command by command only where somebody looks at one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, repeat
from typing import Any, NamedTuple, cast

from perdure.kernel import limits, ranges
from perdure.kernel.batch import grouped
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import BatchId, CommandId, EntityId, Tick, indexed_command_id
from perdure.kernel.ids import Sequence as CommandSequence
from perdure.kernel.kept import kept
from perdure.kernel.log import LogEntry
from perdure.kernel.ranges import Ranges
from perdure.kernel.shown import shown


class StoredCommand(NamedTuple):
    """A command read back from the log, as it is applied."""

    sequence: CommandSequence
    entity_id: EntityId | None
    """The id reserved for a spawn; None for other operations."""
    operation: dict[str, Any]
    types: dict[str, str]

    @property
    def max_attempts(self) -> int:
        return int(self.operation.get("max_attempts", limits.ATTEMPTS_DEFAULT))


@dataclass(frozen=True)
class StoredBatch:
    """A batch read back from its log entry."""

    batch: BatchId
    first_sequence: CommandSequence
    first_entity_id: EntityId
    published: Tick
    dues: tuple[tuple[Tick, int], ...]
    """(tick, priority) of each group, by group number."""
    size: int
    entry: LogEntry
    """Where it stands. What its commands say is decoded when one of them is first looked at."""

    @classmethod
    def of(cls, entry: LogEntry) -> StoredBatch:
        """Read the batch of an ``admitted`` entry."""
        facts = entry.facts
        return cls(
            batch=BatchId(facts["batch"]),
            first_sequence=CommandSequence(facts["first_sequence"]),
            first_entity_id=EntityId(facts["first_entity_id"]),
            published=Tick(facts["published"]),
            dues=tuple((Tick(tick), priority) for tick, priority, *_ in facts["groups"]),
            size=sum(count for _, _, count, *_ in facts["groups"]),
            entry=entry,
        )

    @property
    def operations(self) -> list[dict[str, Any]]:
        """What was sent, command by command. Raises Corrupt."""
        operations: list[dict[str, Any]] = self._told("commands", list)
        return operations

    @property
    def types(self) -> dict[str, str]:
        """Fingerprint by name of every component that a command names. Raises Corrupt."""
        types: dict[str, str] = self._told("types", dict)
        return types

    def _told(self, name: str, kind: type) -> Any:
        content = self.entry.content
        found = content.get(name) if type(content) is dict else None
        if type(found) is not kind:
            raise Corrupt(
                expected=f"{name} in log entry {self.entry.seq} at {self.entry.partition}",
                found=shown(found),
            )
        return found

    @kept
    def groups(self) -> list[tuple[tuple[Tick, int], Sequence[int]]]:
        """(tick, priority) and indices of each group, by group number."""
        if len(self.dues) == 1:  # as most batches: no command need be looked at
            return [(self.dues[0], range(self.size))]
        asked = [(each.get("tick"), each.get("priority", 0)) for each in self.operations]
        return list(grouped(asked, self.published).items())

    @kept
    def group_ranges(self) -> list[Ranges]:
        """Sequences of each group, by group number."""
        first = self.first_sequence
        if len(self.dues) == 1:
            return [((first, CommandSequence(first + self.size - 1)),)]
        return [ranges.ranges(map(first.__add__, indices)) for _, indices in self.groups]

    @kept
    def group_of(self) -> dict[int, int]:
        """Group number by index of command."""
        return {index: number for number, (_, held) in enumerate(self.groups) for index in held}

    @kept
    def reserved(self) -> Sequence[EntityId | None]:
        """The entity id reserved for each command: None but for spawns."""
        spawning = [each["operation"] == "spawn" for each in self.operations]
        if all(spawning):  # as most batches: ten thousand ids are two numbers
            first = self.first_entity_id
            return cast("Sequence[EntityId]", range(first, first + self.size))
        following = accumulate(spawning, initial=self.first_entity_id)
        return [
            entity_id if spawns else None
            for spawns, entity_id in zip(spawning, following, strict=False)
        ]

    def command_id(self, index: int) -> CommandId:
        """Return the id of the command at ``index``: its caller's, or the batch's."""
        own = self.operations[index].get("command_id")
        return indexed_command_id(self.batch, index) if own is None else CommandId(own)

    def command(self, index: int) -> StoredCommand:
        """Return the command at ``index``."""
        (command,) = self.commands(index, index + 1)
        return command

    def commands(self, start: int, stop: int) -> Iterator[StoredCommand]:
        """Yield the commands from index ``start`` to before ``stop``."""
        fields = zip(
            count(self.first_sequence + start),
            self.reserved[start:stop],
            self.operations[start:stop],
            repeat(self.types),
            strict=False,
        )
        # What `_make` does, without a frame for each of ten thousand.
        return map(tuple.__new__, repeat(StoredCommand), fields)
