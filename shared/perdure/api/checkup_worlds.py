"""Checks of worlds: which of them wait for somebody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from perdure.api.checkup import Check, Finding, ok, skip, warn
from perdure.api.settings import Settings
from perdure.api.wiring import opened_authority
from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.component import Registry
from perdure.kernel.consumers import ListConsumers
from perdure.kernel.floor import EnterCatalog
from perdure.kernel.ids import Instant, RunId
from perdure.kernel.places import WorldRef
from perdure.kernel.rest import ReadAgenda
from perdure.runtime.worlds import Worlds

LAG_MAX: Final = 1_000
"""Log entries that a consumer may be behind: a page of the log, which one reading catches up."""

OVERDUE_MS_MAX: Final = 120_000
"""Two turns of the schedule that looks for due worlds; the first may just have missed one."""

ASKED_MAX: Final = 200
"""Worlds that are looked at one by one."""

NAMED_MAX: Final = 5
PRIVATE: Final = "cleanup_only"
WORLDS_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Worlds as the interface tells of them, and what is known of some beyond that."""

    worlds: list[Mapping[str, Any]]
    lags: Mapping[str, int]
    """By world, the most log entries that one of its consumers is behind."""
    due_at: Mapping[str, int] | None
    """By world, since when its next tick is due; None where nobody tells."""
    asked: int


def storage_checks(chosen: Settings, *, after: tuple[str, ...]) -> list[Check]:
    """Return the checks that read records: what the storage asks of a version, and its worlds."""
    return [
        Check(
            "floor",
            lambda: asyncio.run(_floor(chosen)),
            "install the version that wrote the storage, or let a migration end",
            after=after,
            seconds=WORLDS_SECONDS,
        ),
        Check(
            "worlds",
            lambda: judged(asyncio.run(_seen(chosen)), system.now()),
            "ask for one of them: perdure world show",
            after=("floor",),
            seconds=WORLDS_SECONDS,
        ),
    ]


def judged(seen: Seen, now: Instant) -> list[Finding]:
    """Say which worlds wait for somebody, one finding a kind."""
    live = [each for each in seen.worlds if each["status"] in {"active", "closing"}]
    stalled = [each["world_id"] for each in live if each["stalled"]]
    abandoned = [each["world_id"] for each in live if _is_abandoned(each, now)]
    lagging = [world for world, lag in seen.lags.items() if lag > LAG_MAX]
    overdue = [
        world for world, since in (seen.due_at or {}).items() if now - since > OVERDUE_MS_MAX
    ]
    found = [
        *_named(stalled, "stalled", "see what kills its writers: perdure log WORLD"),
        *_named(overdue, "overdue", "see that the schedule and the function tick run"),
        *_named(
            abandoned,
            "private and abandoned",
            "let the schedule retire it, or perdure world destroy",
        ),
        *_named(
            lagging,
            f"with a consumer more than {LAG_MAX} entries behind",
            "see that it reads: perdure consumers list WORLD; land if it is the landing",
        ),
    ]
    return found or [
        ok(f"{len(live)} of {len(seen.worlds)} worlds go on, none waits"),
        *_gaps(seen),
    ]


def _gaps(seen: Seen) -> Iterator[Finding]:
    if seen.asked < len(seen.worlds):
        yield skip(f"consumers and schedules of the first {seen.asked} worlds only were looked at")
    if seen.due_at is None:
        yield skip("whether a tick is overdue is not told over HTTP: see the alarm worlds_stalled")


def _is_abandoned(world: Mapping[str, Any], now: Instant) -> bool:
    held_until = world["fence_held_until"]
    return world["writer_mode"] == PRIVATE and (held_until is None or held_until <= now)


def _named(worlds: Iterable[str], what: str, remedy: str) -> Iterator[Finding]:
    named = sorted(worlds)
    if named:
        more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
        shown = ", ".join(named[:NAMED_MAX]) + more
        yield warn(f"{len(named)} worlds {what}: {shown}", remedy)


async def _floor(chosen: Settings) -> list[Finding]:
    async with _untouched(chosen) as authority:
        await authority.execute(EnterCatalog(chosen.storage))
    return [ok("this version knows every feature that the storage asks for")]


async def _seen(chosen: Settings) -> Seen:
    async with _untouched(chosen) as authority:
        worlds = Worlds(
            authority, chosen.storage, Registry(), new_token=system.new_token, new_run=_no_run
        )
        found = await worlds.every(show="all")
        lags: dict[str, int] = {}
        due_at: dict[str, int] = {}
        for info in found[:ASKED_MAX]:
            ref = WorldRef(chosen.storage, info.world_id)
            consumers = await authority.execute(ListConsumers(ref))
            lags[info.world_id] = max((each.lag for each in consumers), default=0)
            agenda = await authority.execute(ReadAgenda(ref))
            if agenda.tick_due is not None:
                due_at[info.world_id] = agenda.tick_due
    told = [asdict(info) for info in found]
    return Seen(worlds=[*told], lags=lags, due_at=due_at, asked=min(len(found), ASKED_MAX))


@asynccontextmanager
async def _untouched(chosen: Settings) -> AsyncIterator[Authority]:
    """Open an authority to be read: of a local one not even the log of its file is made."""
    if chosen.backend == "dynamodb":
        async with opened_authority(chosen) as authority:
            yield authority
        return
    store = await SqliteStore.open(chosen.catalog, untouched=True)
    authority = Authority(store, system.now, system.new_token)
    try:
        yield authority
    finally:
        await authority.close()


def _no_run() -> RunId:
    raise AssertionError("nothing is created here")
