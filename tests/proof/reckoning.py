"""After a load: whether what was acknowledged is there, and everything once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.emulator.harbour import app
from tests.proof.asking import WORLDS, size_of
from tests.proof.checker import check
from tests.proof.history import Call, read_history
from tests.proof.load import Killed
from tests.proof.records import Records, bytes_of, records_of

import perdure
from perdure.kernel import ranges
from perdure.lake import audit
from perdure.runtime.storage import Storage


@dataclass
class Reckoning:
    """What a load came to, and what was not as it must be."""

    batches: int = 0
    commands: int = 0
    unheard: int = 0
    """Requests of which nobody heard whether they happened."""

    undone: int = 0
    replayed: int = 0
    """Answers that repeated an earlier one, or told what nobody had heard."""

    ticks: int = 0
    epochs: int = 0
    """Times a fence changed hands."""

    rows: int = 0
    events: int = 0
    faults: list[str] = field(default_factory=list)


async def reckoned(killed: Killed) -> Reckoning:
    """Hold the history of a load against everything its storage says."""
    calls = read_history([killed.history])
    found = Reckoning()
    admissions = [call for call in calls if call.what == "admit"]
    found.unheard = sum(call.outcome == "unknown" for call in admissions)
    found.undone = sum(call.outcome == "undone" for call in admissions)
    found.replayed = sum(call.is_answered and call.answer["replayed"] for call in admissions)
    found.faults += _refused(calls)
    async with perdure.open(killed.root.as_uri(), app=app) as storage:
        authority: Any = storage.ticker.means.authority
        records = records_of(
            await bytes_of(authority.view, storage.landing.storage), storage.landing.storage
        )
        checked = check(calls, records)
        found.faults += checked.faults
        for world in WORLDS:
            await _count(storage, records, world, admissions, found)
        found.faults += await _landed(storage, records, found)
    return found


def _refused(calls: list[Call]) -> Iterator[str]:
    for call in calls:
        if call.outcome == "refused":
            yield f"{call}: nothing of this is to be refused"


async def _count(
    storage: Storage, records: Records, name: str, admissions: list[Call], found: Reckoning
) -> None:
    """Count the ships of each batch, and the settled sequences of a world."""
    held = records.worlds[name]
    manifests = held.manifests.values()
    settled = [each for manifest in manifests for each in ranges.members(manifest.settled)]
    wanted = list(range(1, held.head.next_sequence))
    if sorted(settled) != wanted or any(manifest.outcomes for manifest in manifests):
        found.faults.append(f"{name}: {len(settled)} sequences settled of {len(wanted)}")
    world = await storage.world(name)
    rows = await world.query("Position", ticks=held.head.published)
    ships = Counter(int(y) for y in rows["position__y"].to_pylist())
    acknowledged = {
        int(call.asked["batch"][1:])
        for call in admissions
        if call.is_answered and call.world == name
    }
    if ships != {number: size_of(number) for number in acknowledged}:
        odd = [n for n in {*ships, *acknowledged} if ships[n] != size_of(n)]
        found.faults.append(f"{name}: ships of batches {sorted(odd)[:9]} are missing or too many")
    found.faults += [f"{name}: {each}" for each in (await world.verify()).findings]
    found.batches += len(acknowledged)
    found.commands += sum(ships.values())
    found.ticks += len(held.manifests)
    found.epochs += held.head.fence.epoch


async def _landed(storage: Storage, records: Records, found: Reckoning) -> list[str]:
    """Compare what lies in the tables with what manifests and logs say."""
    faults = []
    lake = storage.landing.lake
    wanted: Counter[str] = Counter()
    for held in records.worlds.values():
        for manifest in held.manifests.values():
            for table in manifest.tables:
                wanted[table.table] += table.rows
    for name, count in wanted.items():
        table = lake.table(name)
        rows = [] if table is None else table.scan().to_arrow().to_pylist()
        places = {(each["world_id"], each["tick"], each["entity_id"]) for each in rows}
        if not len(rows) == len(places) == count:
            faults.append(f"{name}: {count} rows published, {len(rows)} landed, at {len(places)}")
        found.rows += len(rows)
    table = lake.opened_as(audit.AUDIT)
    events = [] if table is None else table.scan().to_arrow().to_pylist()
    found.events = len(events)
    told = Counter((each["world_id"], each["kind"], each["sequence"]) for each in events)
    kinds = Counter(each["kind"] for each in events)
    if set(told.values()) != {1}:
        faults.append(f"events told twice: {told.most_common(3)}")
    if kinds != {"created": len(WORLDS), "queued": found.commands, "applied": found.commands}:
        faults.append(f"events of {found.commands} commands: {dict(kinds)}")
    return faults
