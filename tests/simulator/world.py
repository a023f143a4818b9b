"""What is true of one world, and of a fork when it begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.simulator.commands import Ledger, Standing
from tests.simulator.records import Json, expect
from tests.simulator.rows import IN_TICK_FIRST, Row, State


@dataclass(frozen=True, slots=True)
class Mark:
    """How a world stood as of one log entry."""

    open: dict[int, Standing]
    below: int
    next_sequence: int
    next_entity_id: int
    published: int

    @classmethod
    def of(cls, world: WorldTruth) -> Mark:
        """Return how a world stands now."""
        ledger = world.ledger
        return cls(
            dict(ledger.open),
            ledger.below,
            world.next_sequence,
            world.next_entity_id,
            world.published,
        )


@dataclass(slots=True)
class WorldTruth:
    """What is true of one world."""

    suffix: str
    world: str = ""
    head: Json = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    seq: int = 0
    next_sequence: int = 1
    next_entity_id: int = 1
    in_tick_next: int = IN_TICK_FIRST
    published: int = -1
    status: str = "active"
    entries: dict[int, Json] = field(default_factory=dict)
    manifests: dict[int, Json] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=lambda: {-1: {}})
    """What is alive after each tick."""

    marks: dict[int, Mark] = field(default_factory=dict)
    """How the world stood as of each log entry: a fork begins there."""

    in_tick_at: dict[int, int] = field(default_factory=dict)
    """The next id of what processors make, as of each tick."""

    digests: dict[int, str] = field(default_factory=dict)
    """Digest of each tick's manifest, as the head said it."""

    forked_from: str | None = None
    begins: int = 0
    """The first tick that is its own."""

    rows: dict[tuple[int, str], list[Row]] = field(default_factory=dict)
    """What each tick wrote in each table."""

    @property
    def state(self) -> State:
        """What is alive at the published tick."""
        return self.states[self.published]


def born(child: WorldTruth, source: WorldTruth, entry: Json) -> None:
    """Let a fork begin as its source was at the log entry that it names."""
    facts = entry["facts"]
    mark = source.marks[facts["source_seq"]]
    told = (facts["next_sequence"], -1 if facts["tick"] is None else facts["tick"])
    expect(told == (mark.next_sequence, mark.published), "I6", "fork {} of {}", facts, mark)
    child.world = facts["world"]
    child.published, child.begins = mark.published, mark.published + 1
    child.next_sequence, child.next_entity_id = mark.next_sequence, mark.next_entity_id
    child.in_tick_next = source.in_tick_at.get(mark.published, IN_TICK_FIRST)
    child.in_tick_at = {mark.published: child.in_tick_next}
    child.states = {tick: held for tick, held in source.states.items() if tick <= mark.published}
    child.rows = {place: held for place, held in source.rows.items() if place[0] <= mark.published}
    child.head = {"manifest_digest": source.digests.get(mark.published, "")}
    child.forked_from = source.suffix
    ledger = child.ledger
    ledger.commands = {
        sequence: command
        for sequence, command in source.ledger.commands.items()
        if sequence < mark.next_sequence
    }
    ledger.told = {each for each in source.ledger.told if each < mark.next_sequence}
    if facts["pending"] == "drop":
        ledger.below = mark.next_sequence
        return
    ledger.below = mark.below
    ledger.open = {each: replace(standing, seq=1) for each, standing in mark.open.items()}
