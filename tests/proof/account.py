"""An account of a storage: all that must be the same, however often somebody died on the way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from perdure.kernel import ranges
from perdure.kernel.ids import NO_TICK, Tick
from perdure.kernel.landing import landing_head_key
from perdure.kernel.places import LANES, landing_partition
from perdure.kernel.reading import FindManifests
from perdure.kernel.view import Reads
from perdure.lake.audit import AUDIT_TABLE
from perdure.runtime.storage import Storage, World

DIFFERS = frozenset(
    {
        "epoch",
        "token",
        "commit",
        "run",
        "run_id",
        "at",
        "holder",
        "digest",
        "event_id",
        "created_at",
    }
    | {"manifest"}
)
"""What names an attempt or a moment: another one after a death."""

EMPTY = frozenset({"findings", "events told twice", "open landings"})
"""Parts of an account in which there must be nothing."""

Account = dict[str, Any]


def without(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts without what names an attempt or a moment."""
    return {name: value for name, value in facts.items() if name not in DIFFERS}


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count rows by what they say; of an event of a world also what its detail says."""
    return Counter(repr(sorted(without(_detailed(row)).items())) for row in rows)


def _detailed(row: dict[str, Any]) -> dict[str, Any]:
    detail = row.get("detail") or ""
    return {**row, "detail": without(json.loads(detail))} if detail[:1] == "{" else row


async def account(storage: Storage) -> Account:
    """Tell everything of a storage, from worlds to audit; verify each world on the way."""
    infos = await storage.discover(show="all")
    told: Account = {"worlds": [info.world_id for info in infos]}
    for info in infos:
        told |= {
            f"{info.world_id}: {what}": found
            for what, found in (await _world(await storage.world(info.world_id))).items()
        }
    lake = storage.landing.lake
    for name in lake.names():
        table = lake.table(name)
        assert table is not None
        told[f"table {name}"] = counted(table.scan().to_arrow().to_pylist())
    repeated = [row for row, times in told.get(f"table {AUDIT_TABLE}", {}).items() if times > 1]
    told["events told twice"] = repeated
    told["open landings"] = await _open_intents(storage)
    return told


async def _world(world: World) -> Account:
    info = await world.info()
    log = [entry async for entry in _log(world)]
    told: Account = {
        "info": (
            info.name,
            info.status,
            info.parent_world_id,
            info.next_tick,
            info.entities,
            info.pending_commands,
            info.every_ms,
            sorted((each.name, each.seq, each.required) for each in info.consumers),
        ),
        "log": [(entry.seq, entry.kind, without(entry.facts), entry.payload) for entry in log],
        "commands": await _commands(world),
    }
    if info.published_tick is not None:
        first = Tick(0 if info.parent_world_id is None else info.published_tick - 1)
        told["manifests"] = await _manifests(world, first, info.published_tick)
        told["rows"] = await _rows(world, info.published_tick)
        told["findings"] = (await world.verify()).findings
    return told


async def _log(world: World) -> Any:
    seq = 0
    while page := await world.log(after=seq, limit=1_000):
        for entry in page:
            yield entry
        seq = page[-1].seq


async def _commands(world: World) -> list[Any]:
    commands, after = await world.storage.worlds.commands(world.world_id, limit=1_000)
    assert after is None, "a day in small has few commands"
    return [
        (each.command_id, each.sequence, each.status, each.attempts, each.applied_tick, each.code)
        for each in commands
    ]


async def _manifests(world: World, first: Tick, last: Tick) -> list[Any]:
    execute = world.storage.ticker.means.authority.execute
    ref = world.storage.worlds.ref(world.world_id)
    found: list[Any] = []
    at = first
    while at <= last:
        page = await execute(FindManifests(ref.partition, at, last))
        found += page
        at = Tick(page[-1].tick + 1)
    return [
        (
            each.tick,
            each.seq,
            each.drained_seq,
            list(ranges.members(each.settled)),
            list(ranges.members(each.cancelled)),
            each.outcomes,
            each.processors,
            sorted((held.table, held.rows) for held in each.tables),
            None
            if each.checkpoint is None
            else sorted((held.table, held.rows) for held in each.checkpoint),
            each.entities,
            each.next_in_tick_entity_id,
        )
        for each in found
    ]


async def _rows(world: World, last: Tick) -> dict[str, Any]:
    """Return the rows of every tick, and the state at the last."""
    names = [model.component.name for model in world.storage.ticker.means.app.registry]
    found: dict[str, Any] = {}
    for name in names:
        rows = await world.query(name, ticks=range(last + 1))
        state = await world.query(name, ticks=last)
        found[name] = (counted(rows.to_pylist()), counted(state.to_pylist()))
    return found


async def _open_intents(storage: Storage) -> list[str]:
    landing = storage.landing
    keys = {lane: landing_head_key(landing_partition(landing.storage, lane)) for lane in LANES}
    view = await storage.ticker.means.authority.view(Reads(peeks=tuple(keys.values())))
    heads = {lane: view.peek(key) for lane, key in keys.items()}
    return [lane for lane, head in heads.items() if head is not None and head.intent is not None]


def wrong(told: Account) -> list[str]:
    """Name what no day may end with, whether somebody died or nobody did."""
    return [
        f"{what}: {_short(found)}"
        for what, found in told.items()
        if what.rpartition(": ")[2] in EMPTY and found
    ]


def differences(expected: Account, found: Account) -> list[str]:
    """Name what two accounts tell differently, with both sides."""
    return [
        f"{what}: expected {_short(expected.get(what))}; found {_short(found.get(what))}"
        for what in sorted({*expected, *found})
        if expected.get(what, NO_TICK) != found.get(what, NO_TICK)
    ]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 2_000 else f"{text[:2_000]}…"
