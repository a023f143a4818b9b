"""The head of a world against its log and manifests: what it counts, they count too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.ids import EntityId, Sequence, Tick
from perdure.kernel.log import LogEntry
from perdure.kernel.reading import WorldState
from perdure.kernel.records import Manifest, head_key
from perdure.kernel.stored import StoredBatch
from perdure.runtime.findings import Finding, inspected
from perdure.runtime.ports import Executes
from perdure.runtime.verify_open import Open

_STATUS = {
    "created": ("active",),
    "forked": ("active",),
    "stayed": ("active",),
    "closing": ("closing",),
    "destroyed": ("destroyed",),
    # The copy of a world that was moved begins where the original stood still.
    "moving": ("moving", "active"),
    "moved": ("moved",),
}


@dataclass(slots=True)
class Counted:
    """What log and manifests say that a head must say; None where they do not tell."""

    status: tuple[str, ...] | None = None
    next_sequence: Sequence | None = None
    next_entity_id: EntityId | None = None
    checkpoint: Tick | None = None

    def follow(self, entry: LogEntry) -> None:
        """Take in what one log entry says."""
        self.status = _STATUS.get(entry.kind, self.status)
        if entry.kind == "created":
            self.next_sequence, self.next_entity_id = Sequence(1), EntityId(1)
        elif entry.kind == "forked":
            self.next_sequence = Sequence(entry.facts["next_sequence"])
        elif entry.kind == "admitted":
            batch = StoredBatch.of(entry)
            spawns = sum(each["operation"] == "spawn" for each in batch.operations)
            self.next_sequence = Sequence(batch.first_sequence + batch.size)
            self.next_entity_id = EntityId(batch.first_entity_id + spawns)

    def settle(self, manifest: Manifest) -> None:
        """Take in what one manifest says."""
        if manifest.checkpoint is not None:
            self.checkpoint = manifest.tick


async def checked_head(
    authority: Executes, found: WorldState, counted: Counted, opened: Open
) -> list[Finding]:
    """Compare the head that a walk began from with what the walk came by."""
    head = found.head
    (held,) = await inspected(authority, head.partition, [head_key(head.partition)])
    where = f"head of world {found.world.world}"
    findings = [] if held.flaw is None else [Finding("head", where, "a head", held.flaw)]
    if not opened.is_whole:
        return findings
    return findings + [
        Finding("head", where, f"{what} {' or '.join(map(str, expected))}", str(said))
        for what, said, expected in _pairs(found, counted, opened)
        if said not in expected
    ]


def _pairs(
    found: WorldState, counted: Counted, opened: Open
) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return what the head says, and what it may say, of everything that is known."""
    head = found.head
    pairs: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("writer mode", head.writer_mode, (found.world.writer_mode,))
    ]
    if counted.status is not None:
        pairs.append(("status", head.status, counted.status))
    for name in ("next_sequence", "next_entity_id", "checkpoint"):
        known = getattr(counted, name)
        if known is not None:
            pairs.append((name.replace("_", " "), getattr(head, name), (known,)))
    if found.world.parent is None:  # a fork took over what another log tells
        waiting = 0 if head.status == "destroyed" else len(opened.places)
        pairs.append(("open commands", head.open_commands, (waiting,)))
        below = {opened.below, *(() if head.status != "destroyed" else (head.next_sequence,))}
        pairs.append(("everything cancelled below", head.cancelled_below, tuple(sorted(below))))
    return pairs
