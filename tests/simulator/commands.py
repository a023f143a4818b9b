"""What is true of the commands of one world: admitted, open, settled, cancelled, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from tests.simulator.records import Json, due_of, expect, groups_of, members, page_place
from tests.simulator.rows import State, applied, refusal

RETRIED = "fickle"
"""Component whose values may fail for now."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it was admitted."""

    sequence: int
    command_id: str
    content: Json
    entity_id: int
    reserved: int | None
    """The id that was reserved for a spawn."""

    place: str
    """The name that its batch gives it, whatever its own is."""

    @property
    def attempts_max(self) -> int:
        return int(self.content.get("max_attempts") or 3)

    @property
    def may_fail(self) -> bool:
        """Say whether it may fail for now, or kill its writer."""
        components = self.content.get("components")
        return isinstance(components, dict) and RETRIED in map(str.lower, components)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an open command waits."""

    tick: int
    priority: int
    seq: int
    """Log entry of this world since which it is open."""

    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was admitted."""

    batch_id: str
    contents: list[Json]
    first_sequence: int
    published: int
    groups: list[list[int]]


@dataclass(slots=True)
class Ledger:
    """The commands of one world."""

    commands: dict[int, Command] = field(default_factory=dict)
    open: dict[int, Standing] = field(default_factory=dict)
    fates: dict[int, tuple[str, int]] = field(default_factory=dict)
    """What a command came to for ever, and at which tick."""

    batches: dict[str, Batch] = field(default_factory=dict)
    by_entry: dict[int, Batch] = field(default_factory=dict)
    receipts: dict[str, tuple[str, int, int | None, int, int]] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    """What each request to cancel all has cancelled: what is below a sequence."""

    sendings: Counter[str] = field(default_factory=Counter)
    """How often each batch was sent."""

    told: set[int] = field(default_factory=set)
    """Sequences of which somebody was told that they are admitted."""

    denied: set[str] = field(default_factory=set)
    """Batches that were sent once, and told not to be admitted."""

    below: int = 0
    deaths: int = 0
    """Writers that died on the next tick."""

    pages: dict[str, dict[int, int]] = field(default_factory=dict)
    """Attempts of each sequence that a page names."""

    named: Counter[int] = field(default_factory=Counter)
    """In how many pages each sequence is."""

    def admit(self, entry: Json, first_sequence: int, first_entity_id: int) -> Batch:
        """Take a batch in. Its numbers must be the next ones of its world."""
        facts, contents = entry["facts"], entry["payload"]["commands"]
        batch_id, published = facts["batch"], facts["published"]
        expect(batch_id not in self.batches, "I7", "batch {} admitted twice", batch_id)
        expect(batch_id not in self.denied, "I7", "{} was told not to be admitted", batch_id)
        found = (facts["first_sequence"], facts["first_entity_id"], facts["count"])
        wanted = (first_sequence, first_entity_id, len(contents))
        expect(found == wanted, "I6", "{} takes {}, expected {}", batch_id, found, wanted)
        groups = groups_of(contents, first_sequence, published)
        batch = Batch(batch_id, contents, first_sequence, published, groups)
        self.batches[batch_id] = self.by_entry[entry["seq"]] = batch
        entity_id = first_entity_id
        for index, content in enumerate(contents):
            sequence = first_sequence + index
            reserved = None
            if content["operation"] == "spawn":
                reserved, entity_id = entity_id, entity_id + 1
            self._take(batch_id, index, sequence, content, reserved)
            tick, priority = due_of(content, published)
            self.open[sequence] = Standing(tick, priority, entry["seq"])
            command_id = self.commands[sequence].command_id
            self.receipts[command_id] = (command_id, sequence, reserved, tick, priority)
        return batch

    def _take(
        self, batch_id: str, index: int, sequence: int, content: Json, reserved: int | None
    ) -> None:
        place = f"{batch_id}.{index}"
        command_id = content.get("command_id") or place
        expect(command_id not in self.receipts, "I7", "command {} admitted twice", command_id)
        subject = content["entity_id"] if reserved is None else reserved
        self.commands[sequence] = Command(sequence, command_id, content, subject, reserved, place)

    def sequence_of(self, name: str) -> int | None:
        """Find a command by its id or its place: an own one before those of ancestors."""
        found = (
            each for each, held in self.commands.items() if name in (held.command_id, held.place)
        )
        return max(found, default=None)

    def cancel(self, sequence: int) -> None:
        """One command is cancelled."""
        expect(sequence in self.open, "I2", "{} cancelled, but {}", sequence, self.fate(sequence))
        del self.open[sequence]
        self.fates[sequence] = ("cancelled", -1)

    def cancel_all(self, request: str, below: int) -> None:
        """Everything below a sequence is cancelled."""
        expect(request not in self.requests, "I7", "request {} cancels twice", request)
        self.requests[request] = self.below = below
        for sequence in [each for each in self.open if each < below]:
            self.cancel(sequence)

    def fate(self, sequence: int) -> str:
        """Say in words what became of a command."""
        if sequence in self.open:
            return "open"
        return "{} at tick {}".format(*self.fates.get(sequence, ("unknown", -1)))

    def settle(self, manifest: Json, state: State) -> Counter[str]:
        """Settle what a manifest says, in order, on a state; return how many came to what."""
        tick = manifest["tick"]
        outcomes = {each["sequence"]: each for each in manifest["outcomes"]}
        settled = members(manifest["settled"])
        retried = [each for each, said in outcomes.items() if said["status"] == "retryable"]
        expect(len(set(settled)) == len(settled), "I2", "tick {} settles {}", tick, settled)
        self._check_open(tick, settled, retried, manifest)
        self._check_order(manifest, settled, outcomes)
        order = sorted(settled, key=lambda each: (*self._place(each), each))
        for sequence in order:
            self._settle_one(sequence, outcomes.get(sequence), state, tick)
        for sequence in retried:
            self._retry(sequence, outcomes[sequence], tick)
        counts = Counter(said["status"] for said in outcomes.values())
        counts["applied"] += len(settled) - counts["rejected"] - counts["dead_letter"]
        return counts

    def _place(self, sequence: int) -> tuple[int, int]:
        standing = self.open[sequence]
        return standing.tick, standing.priority

    def _check_open(
        self, tick: int, settled: list[int], retried: list[int], manifest: Json
    ) -> None:
        for sequence in (*settled, *retried):
            expect(
                sequence in self.open,
                "I2",
                "tick {} settles {}, which is {}",
                tick,
                sequence,
                self.fate(sequence),
            )
        both = set(settled) & set(retried)
        expect(not both, "I2", "tick {} settles and retries {}", tick, both)
        for sequence in members(manifest["cancelled"]):
            fate = self.fates.get(sequence, ("open", 0))[0]
            expect(fate == "cancelled", "I2", "tick {} drops {}: {}", tick, sequence, fate)

    def _check_order(self, manifest: Json, settled: list[int], outcomes: dict[int, Json]) -> None:
        """Hold a tick to take nothing before what was due earlier when it looked."""
        if not settled or any(said["status"] != "rejected" for said in outcomes.values()):
            return  # what failed for now stops a tick, and keeps its place
        last = max((*self._place(each), each) for each in settled)
        taken = set(settled)
        for sequence, standing in self.open.items():
            was_there = standing.seq <= manifest["drained_seq"]
            if was_there and sequence not in taken:
                place = (standing.tick, standing.priority, sequence)
                expect(
                    place > last, "I2", "tick {} takes {} before {}", manifest["tick"], last, place
                )

    def _settle_one(self, sequence: int, said: Json | None, state: State, tick: int) -> None:
        command, standing = self.commands[sequence], self.open.pop(sequence)
        expected = refusal(state, command.content, command.entity_id)
        status = "applied" if said is None else said["status"]
        self.fates[sequence] = (status, tick)
        if status == "dead_letter":
            assert said is not None, "a dead letter has an outcome"
            expect(
                said["attempts"] >= command.attempts_max and said["attempts"] > standing.attempts,
                "I8",
                "{} is a dead letter after {} of {} attempts",
                sequence,
                said["attempts"],
                command.attempts_max,
            )
            self._check_cause(command, said["attempts"] - standing.attempts, said)
            return
        found = None if said is None else said["code"]
        expect(found == expected, "I2", "{} is {}, expected {}", sequence, found, expected)
        if said is None:
            applied(state, command.content, command.entity_id)

    def _retry(self, sequence: int, said: Json, tick: int) -> None:
        command, standing = self.commands[sequence], self.open[sequence]
        again = said["again"]
        attempts = said["attempts"]
        expect(
            standing.attempts < attempts < command.attempts_max,
            "I8",
            "{} is tried again after {} of {} attempts",
            sequence,
            attempts,
            command.attempts_max,
        )
        expect(
            again["tick"] > tick and again["priority"] == standing.priority,
            "I8",
            "{} is tried again at {}, at tick {}",
            sequence,
            again,
            tick,
        )
        self._check_cause(command, attempts - standing.attempts, said)
        self.open[sequence] = replace(standing, tick=again["tick"], attempts=attempts)

    def _check_cause(self, command: Command, cost: int, said: Json) -> None:
        """Hold a failure to what can have caused it: the command itself, or deaths of writers."""
        if said["code"] == "writer_died":
            died = (said["sequence"], cost, self.deaths)
            expect(cost <= self.deaths, "I8", "{} is charged {} deaths of {}", *died)
        else:
            expect(command.may_fail, "I8", "{} cannot fail, but: {}", command, said)
            expect(cost == 1, "I8", "{} is charged {} attempts", command, cost)

    def end(self) -> None:
        """The world ends: what is open there is rejected."""
        for sequence in self.open:
            self.fates[sequence] = ("ended", -1)
        self.open.clear()

    def show_page(self, sort: str, held: dict[int, int] | None) -> set[int]:
        """A page was written, or removed; return what it named or names."""
        before = self.pages.pop(sort, {})
        self.named.subtract(before.keys())
        touched = set(before)
        if held is not None:
            self.pages[sort] = held
            self.named.update(held.keys())
            touched |= held.keys()
        return touched

    def check_named(self, touched: set[int]) -> None:
        """Hold what is open to be in one page, at its place, and what is not to be in none."""
        for sequence in touched:
            standing = self.open.get(sequence)
            count = self.named[sequence]
            if standing is not None:
                expect(count == 1, "I8", "{} is open in {} pages", sequence, count)
            elif count:
                cancelled = sequence < self.below
                expect(cancelled, "I2", "{} is in a page, but {}", sequence, self.fate(sequence))

    def check_places(self, sort: str) -> None:
        """Hold a page to name what is due at its tick, with the attempts it has had."""
        place = page_place(sort)
        for sequence, attempts in self.pages.get(sort, {}).items():
            standing = self.open.get(sequence)
            if standing is not None:
                found = (standing.tick, standing.priority, standing.attempts)
                expect(
                    (*place, attempts) == found,
                    "I8",
                    "{} is in page {} with {} attempts, expected {}",
                    sequence,
                    sort,
                    attempts,
                    found,
                )
