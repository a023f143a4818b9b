"""What lies in the tables, compared with what was published and what the logs say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.simulator.records import Json, due_of, expect, members
from tests.simulator.rows import Row
from tests.simulator.truth import Truth
from tests.simulator.world import WorldTruth

AUDIT = "audit"

TOLD = ("kind", "sequence", "command_id", "entity_id", "tick", "code")

Told = tuple[str, int | None, str | None, int | None, int | None, str | None]
"""Kind, sequence, command id, entity id, tick and code of an event."""


@dataclass(slots=True)
class Landed:
    """Follows every append. Raises Violation."""

    truth: Truth
    ticks: set[tuple[str, int, str]] = field(default_factory=set)
    """(world, tick, table) of what has landed."""

    events: set[tuple[str, int, int]] = field(default_factory=set)
    """(world, log entry, index) of what was projected."""

    ids: set[str] = field(default_factory=set)

    def appended(self, name: str, rows: pa.Table) -> None:
        """Rows were appended to a table."""
        self.truth.outcomes["appends"] += 1
        if name == AUDIT:
            for row in rows.to_pylist():
                self._projected(row)
            return
        by_tick: dict[tuple[str, int, str], list[Json]] = {}
        for row in rows.to_pylist():
            by_tick.setdefault((row["world_id"], row["tick"], row["commit"]), []).append(row)
        for (world, tick, token), held in by_tick.items():
            self._landed(name, world, tick, token, held)

    def _landed(self, name: str, world: str, tick: int, token: str, held: list[Json]) -> None:
        place = (world, tick, name)
        expect(place not in self.ticks, "I3", "{} landed twice", place)
        self.ticks.add(place)
        truth = self._world(world)
        manifest = truth.manifests.get(tick)
        published = None if manifest is None else manifest["token"]
        expect(published == token, "I3", "{} landed of {}, published {}", place, token, published)
        found = sorted(map(_told, held), key=str)
        wanted = sorted(map(_row_told, truth.rows[tick, name]), key=str)
        expect(found == wanted, "I3", "{} landed {}, published {}", place, found, wanted)
        self.truth.outcomes["rows landed"] += len(held)

    def _projected(self, row: Json) -> None:
        place = (row["world_id"], row["seq"], row["index"])
        expect(place not in self.events, "I4", "event {} twice", place)
        expect(row["event_id"] not in self.ids, "I4", "event id of {} twice", place)
        self.events.add(place)
        self.ids.add(row["event_id"])
        wanted = self.expected(self._world(row["world_id"]), row["seq"])
        expect(row["index"] < len(wanted), "I4", "event {} of {}", place, wanted)
        found = tuple(row[name] for name in TOLD)
        expect(found == wanted[row["index"]], "I4", "event {}: {}", found, wanted[row["index"]])
        self.truth.outcomes["events"] += 1

    def _world(self, world: str) -> WorldTruth:
        found = self.truth.named(world)
        expect(found is not None, "I3", "rows of no world: {}", world)
        assert found is not None
        return found

    def expected(self, world: WorldTruth, seq: int) -> list[Told]:
        """Return what the events of one log entry say."""
        entry = world.entries[seq]
        facts, ledger = entry["facts"], world.ledger
        match entry["kind"]:
            case "admitted":
                batch = ledger.by_entry[seq]
                return [
                    self._queued(world, batch.first_sequence + index, batch.published)
                    for index in range(len(batch.contents))
                ]
            case "published":
                return self._settled(world, world.manifests[facts["tick"]])
            case "cancelled":
                command = ledger.commands[facts["sequence"]]
                entity_id = _subject(command)
                return [
                    (
                        "cancelled",
                        command.sequence,
                        command.command_id,
                        entity_id,
                        None,
                        "cancelled",
                    )
                ]
            case kind:
                return [(kind, None, None, None, None, None)]

    def _queued(self, world: WorldTruth, sequence: int, published: int) -> Told:
        command = world.ledger.commands[sequence]
        tick, _ = due_of(command.content, published)
        return ("queued", sequence, command.command_id, _subject(command), tick, None)

    def _settled(self, world: WorldTruth, manifest: Json) -> list[Told]:
        outcomes = {each["sequence"]: each for each in manifest["outcomes"]}
        dropped = set(members(manifest["cancelled"]))
        told = sorted({*members(manifest["settled"]), *dropped, *outcomes})
        events: list[Told] = []
        for sequence in told:
            command = world.ledger.commands[sequence]
            outcome = outcomes.get(sequence)
            kind, code = "applied", None
            if outcome is not None:
                kind, code = outcome["status"], outcome["code"]
            elif sequence in dropped:
                kind = code = "cancelled"
            subject = _subject(command)
            events.append((kind, sequence, command.command_id, subject, manifest["tick"], code))
        return events

    def check_whole(self) -> None:
        """Hold everything that was published to have landed, and every event to be told."""
        for world in self.truth.worlds.values():
            for (tick, table), rows in world.rows.items():
                if rows and tick >= world.begins:
                    place = (world.world, tick, table)
                    expect(place in self.ticks, "I9", "{} never landed", place)
            for seq in world.entries:
                for index in range(len(self.expected(world, seq))):
                    place = (world.world, seq, index)
                    expect(place in self.events, "I9", "event {} was never told", place)


def _subject(command: Any) -> int | None:
    return command.entity_id


def _told(row: Json) -> tuple[int, bool, list[tuple[str, object]]]:
    values = sorted((name, value) for name, value in row.items() if "__" in name)
    return row["entity_id"], row["is_active"], values if row["is_active"] else []


def _row_told(row: Row) -> tuple[int, bool, list[tuple[str, object]]]:
    values = sorted(
        (f"{component}__{member}", value)
        for component, held in row.entity.items()
        for member, value in held.items()
    )
    return row.entity_id, row.is_active, values if row.is_active else []
