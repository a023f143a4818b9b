"""The truth of a play, told by each commit as it happens: who breaks an invariant is named.

I1 one effective epoch for each tick            I6 heads are contiguous, no id is given twice
I2 a command settles once, in one manifest      I7 one id, one content, one answer for ever
I3 visible rows are rows of published ticks     I8 attempts end, in a dead letter; nothing is lost
I4 each event is projected once                 I9 when faults stop, everything settles
I5 no admission after the end                   I0 what a record points at is whole
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.fences import Clock, check_fence
from tests.simulator.records import Json, Violation, expect, members
from tests.simulator.rows import Row, State, overlaid, processed, rows_of, settled_births
from tests.simulator.world import Mark, WorldTruth, born

from perdure.kernel.commit import Commit, Put, Remove

ReadSegment = Callable[[str], "dict[str, list[object]]"]


@dataclass(slots=True)
class Change:
    """What one commit did to one world."""

    puts: dict[str, Json] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    manifests: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class Truth:
    """What is true of all worlds of a storage."""

    read_segment: ReadSegment
    read_body: Callable[[bytes], Any]
    """Return what the packed body of a record says."""

    worlds: dict[str, WorldTruth] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Components by table, as the catalog says."""

    tokens: set[str] = field(default_factory=set)
    not_published: set[tuple[str, int, str]] = field(default_factory=set)
    """(world, tick, writer) of what a writer was told not to be published by it."""

    clock: Clock = lambda life: None
    commits: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def was_not_published(self, place: tuple[str, int, str], code: str) -> None:
        """A writer was told that its tick is not published, and never will be."""
        world, tick, writer = place
        token = self.worlds[world].manifests.get(tick, {}).get("token", "")
        mine = token.startswith(writer)
        expect(not mine, "I2", "tick {} is told {}, but published as {}", tick, code, token)
        self.not_published.add(place)

    def named(self, world: str) -> WorldTruth | None:
        """Return the truth of a world by its id; None before it was created."""
        return next((each for each in self.worlds.values() if each.world == world), None)

    def commit(self, commit: Commit) -> None:
        """Learn of a commit that has just happened. Raises Violation."""
        self.commits += 1
        changes: dict[str, Change] = {}
        for action in commit.actions:
            kind, _, suffix = action.key.partition.partition("/")
            sort = action.key.sort
            if kind == "c" and isinstance(action, Put):
                self._cataloged(sort, action)
            elif kind == "m" and isinstance(action, Put):
                expect(action.seen is None, "I2", "manifest {} of {} again", sort, suffix)
                changes.setdefault(suffix, Change()).manifests.append(self.read_body(action.body))
            elif kind == "m" and isinstance(action, Remove):
                raise Violation("I2", f"manifest {sort} of {suffix} removed")
            elif kind == "w" and isinstance(action, Put):
                changes.setdefault(suffix, Change()).puts[sort] = self.read_body(action.body)
                if sort.startswith(("key/", "log/", "cancelled/")):
                    expect(action.seen is None, "I7", "{} of {} again", sort, suffix)
            elif kind == "w" and isinstance(action, Remove):
                changes.setdefault(suffix, Change()).removed.append(sort)
        for suffix, change in changes.items():
            self._changed(suffix, change, commit.token)

    def _cataloged(self, sort: str, action: Put) -> None:
        if sort.startswith("signature/"):
            said = self.read_body(action.body)
            self.tables[said["table"]] = tuple(each.lower() for each in said["components"])

    def _changed(self, suffix: str, change: Change, token: str) -> None:
        world = self.worlds.get(suffix)
        head = change.puts.get("head")
        entries = sorted(
            (each for sort, each in change.puts.items() if sort.startswith("log/")),
            key=lambda each: each["seq"],
        )
        if world is None:
            world = WorldTruth(suffix)
        if head is None:
            expect(not entries and not change.manifests, "I6", "{} without its head", suffix)
            expect(
                not any(sort.startswith("due/") for sort in (*change.puts, *change.removed)),
                "I6",
                "pages of {} without its head",
                suffix,
            )
            return
        if suffix not in self.worlds:
            expect(entries and entries[0]["seq"] == 1, "I6", "{} begins with {}", suffix, entries)
            self.worlds[suffix] = world
        touched = self._told(world, change, entries, token)
        self._pages(world, change, touched)
        self._check_head(world, head, change)
        world.head = head
        world.digests[world.published] = head["manifest_digest"]

    def _told(self, world: WorldTruth, change: Change, entries: list[Json], token: str) -> set[int]:
        """Follow the log; return the sequences whose standing has changed."""
        touched: set[int] = set()
        previous = world.head.get("log_digest", "")
        manifests = list(change.manifests)
        for index, entry in enumerate(entries):
            expect(entry["seq"] == world.seq + 1, "I6", "entry {} of {}", entry, world.suffix)
            if index == 0:
                expect(entry["previous"] == previous, "I6", "entry {} is unchained", entry["seq"])
            world.seq = entry["seq"]
            world.entries[entry["seq"]] = entry
            before = set(world.ledger.open)
            match entry["kind"]:
                case "created":
                    world.world = entry["facts"]["world"]
                case "forked":
                    self._forked(world, entry)
                case "admitted":
                    self._admitted(world, entry)
                    key = f"key/batch/{entry['facts']['batch']}"
                    expect(key in change.puts, "I7", "{} leaves no {}", entry["seq"], key)
                case "cancelled":
                    self._check_open_world(world, entry)
                    world.ledger.cancel(entry["facts"]["sequence"])
                case "cancelled_all":
                    self._check_open_world(world, entry)
                    facts = entry["facts"]
                    below = facts["cancelled_below"]
                    expect(below == world.next_sequence, "I6", "all below {} cancelled", below)
                    world.ledger.cancel_all(facts["request"], below)
                case "published":
                    expect(manifests, "I2", "tick {} without a manifest", entry["facts"])
                    self._published(world, entry, manifests.pop(0))
                    touched |= world.ledger.open.keys() & before
                case "closing" | "destroyed":
                    self._ended(world, entry)
            touched |= before ^ world.ledger.open.keys()
            world.marks[world.seq] = Mark.of(world)
        expect(not manifests, "I2", "manifest without a log entry: {}", manifests)
        return touched

    def _check_open_world(self, world: WorldTruth, entry: Json) -> None:
        expect(world.status == "active", "I5", "{} in a world {}", entry["kind"], world.status)

    def _admitted(self, world: WorldTruth, entry: Json) -> None:
        self._check_open_world(world, entry)
        facts = entry["facts"]
        expect(facts["published"] == world.published, "I6", "{} behind {}", facts, world.published)
        batch = world.ledger.admit(entry, world.next_sequence, world.next_entity_id)
        spawns = sum(each["operation"] == "spawn" for each in batch.contents)
        world.next_sequence += len(batch.contents)
        world.next_entity_id += spawns
        self.outcomes["admitted"] += len(batch.contents)

    def _published(self, world: WorldTruth, entry: Json, manifest: Json) -> None:
        self._check_open_world(world, entry)
        tick, fence = manifest["tick"], world.head["fence"]
        expect(tick == world.published + 1, "I6", "tick {} behind {}", tick, world.published)
        expect(tick == entry["facts"]["tick"], "I4", "entry {} of tick {}", entry, tick)
        expect(manifest["seq"] == entry["seq"], "I4", "tick {} in entry {}", tick, entry["seq"])
        expect(
            manifest["epoch"] == fence["epoch"] and fence["holder"] is not None,
            "I1",
            "tick {} published under epoch {}, the fence is {}",
            tick,
            manifest["epoch"],
            fence,
        )
        token = manifest["token"]
        expect(
            token.startswith(f"{fence['holder']}-"),
            "I1",
            "tick {} published by {}, the fence is {}",
            tick,
            token,
            fence,
        )
        expect(token not in self.tokens, "I1", "token {} twice", token)
        place = (world.suffix, tick, f"{fence['holder']}-")
        expect(place not in self.not_published, "I2", "{} was told not to be published", place)
        self.tokens.add(token)
        digest = world.head["manifest_digest"]
        expect(manifest["previous"] == digest, "I6", "manifest {} is unchained", tick)
        state = dict(world.state)
        counts = world.ledger.settle(manifest, state)
        world.ledger.deaths = 0
        self.outcomes.update(counts)
        self.outcomes["ticks"] += 1
        self._check_rows(world, manifest, state)
        world.published = tick
        world.manifests[tick] = manifest

    def _check_rows(self, world: WorldTruth, manifest: Json, expected: State) -> None:
        """Compare what a tick wrote with what its commands and processors make of the state."""
        tick = manifest["tick"]
        births = processed(expected, tick)
        rows: list[Row] = []
        for table in manifest["tables"]:
            found = self._rows(table)
            expect(len(found) == table["rows"], "I3", "{} rows in {}", len(found), table)
            world.rows[tick, table["table"]] = found
            rows += found
        visible = overlaid(world.state, rows)
        world.in_tick_next = settled_births(expected, births, visible, world.in_tick_next)
        world.in_tick_at[tick] = world.in_tick_next
        counted = (manifest["entities"], manifest["next_in_tick_entity_id"])
        wanted = (len(expected), world.in_tick_next)
        expect(counted == wanted, "I6", "tick {} says {}, expected {}", tick, counted, wanted)
        expect(visible == expected, "I3", "tick {}: {}, not {}", tick, visible, expected)
        if manifest["checkpoint"] is not None:
            whole = [row for table in manifest["checkpoint"] for row in self._rows(table)]
            found_state = {row.entity_id: row.entity for row in whole if row.is_active}
            expect(found_state == expected, "I3", "checkpoint {}: {}", tick, found_state)
            self.outcomes["checkpoints"] += 1
        world.states[tick] = expected

    def _rows(self, table: Json) -> list[Row]:
        inline = table["inline"]
        columns = self.read_segment(table["segment"]) if inline is None else inline
        self.outcomes["segments" if inline is None else "inline"] += 1
        rows = rows_of(columns)
        components = set(self.tables[table["table"]])
        for row in rows:
            if row.is_active:
                for absent in components - row.entity.keys():
                    row.entity[absent] = {}  # type: ignore[index]
        return rows

    def _ended(self, world: WorldTruth, entry: Json) -> None:
        kind = entry["kind"]
        order = {"closing": "active", "destroyed": "closing"}
        expect(world.status == order[kind], "I5", "{} becomes {}", world.status, kind)
        world.status = kind
        if kind == "destroyed":
            facts, ledger = entry["facts"], world.ledger
            told = (facts["next_sequence"], facts["cancelled_below"], facts["rejected"])
            wanted = (world.next_sequence, ledger.below, len(ledger.open))
            expect(told == wanted, "I5", "the end says {}, expected {}", told, wanted)
            ledger.end()
        self.outcomes[kind] += 1

    def _pages(self, world: WorldTruth, change: Change, touched: set[int]) -> None:
        ledger = world.ledger
        for sort in change.removed:
            if sort.startswith("due/"):
                touched |= ledger.show_page(sort, None)
        pages = [sort for sort in change.puts if sort.startswith("due/")]
        for sort in pages:
            touched |= ledger.show_page(sort, self._held(world, change.puts[sort]))
        if world.status == "destroyed":
            return
        ledger.check_named(touched)
        for sort in pages:
            ledger.check_places(sort)

    def _held(self, world: WorldTruth, page: list[list]) -> dict[int, int]:  # type: ignore[type-arg]
        """Return the sequences that a page names, with their attempts."""
        held: dict[int, int] = {}
        for spelled in page:
            absent = (None, 0, None)[len(spelled) - 3 :]
            seq, group, count, ranges, attempts, origin = (*spelled, *absent)
            source = world if origin is None else self.worlds[origin.partition("/")[2]]
            batch = source.ledger.by_entry[seq]
            named = batch.groups[group] if ranges is None else members(ranges)
            expect(ranges is not None or len(named) == count, "I8", "entry {}", spelled)
            expect(set(named) <= set(batch.groups[group]), "I8", "entry {}", spelled)
            held |= dict.fromkeys(named, attempts or 0)
        return held

    def _forked(self, world: WorldTruth, entry: Json) -> None:
        source = self.named(entry["facts"]["source"])
        assert source is not None, "a fork has a source"
        born(world, source, entry)
        self.outcomes["forked"] += 1

    def _check_head(self, world: WorldTruth, head: Json, change: Change) -> None:
        """Hold the head to say what the log says."""
        before, ledger = world.head if "fence" in world.head else None, world.ledger
        found = {name: head[name] for name in _HEAD}
        wanted = (
            world.seq,
            world.next_sequence,
            world.next_entity_id,
            world.published,
            ledger.below,
            len(ledger.open),
        )
        expect(tuple(found.values()) == wanted, "I6", "head {}, expected {}", found, wanted)
        expect(head["status"] == world.status, "I5", "head {} is {}", head["status"], world.status)
        if before:
            self._count_deaths(world, head)
            check_fence(before, head, self.clock)
            old, new = before["fence"], head["fence"]
            expect(new["epoch"] >= old["epoch"], "I1", "epoch {} after {}", new, old)
            is_taken = new["holder"] is not None and new["holder"] != old["holder"]
            expect(not is_taken or new["epoch"] > old["epoch"], "I1", "{} after {}", new, old)

    def _count_deaths(self, world: WorldTruth, head: Json) -> None:
        """A fence that passes from one holder to another says that the first has died."""
        holders = (world.head["fence"]["holder"], head["fence"]["holder"])
        if None not in holders and holders[0] != holders[1]:
            world.ledger.deaths += 1


_HEAD = ("seq", "next_sequence", "next_entity_id", "published", "cancelled_below", "open_commands")
