"""Moving a whole storage: copied while it stands still, verified, and only then alive elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.carry import PAGE_RECORDS, Carrier, ImportRaw, Raw
from perdure.kernel.errors import Conflict, FenceHeld, NotEmpty, NotQuiescent
from perdure.kernel.ids import Holder, Instant, short_hash
from perdure.kernel.landing import LandingGrip, ReleaseLandingFence, TakeLandingFence
from perdure.kernel.migration import (
    STAGES,
    ActivateWorld,
    Advance,
    CheckUnclaimed,
    FindMigration,
    FreeWorld,
    Migration,
    PartWorld,
    Release,
    Reserve,
    Stage,
    StillWorld,
    checked_migration_id,
)
from perdure.kernel.places import LANES, Lane
from perdure.kernel.stillness import FindOpenIntent
from perdure.lake.copying import copied
from perdure.runtime.inventory import (
    GETS,
    Inventory,
    Progress,
    Side,
    Streams,
    compare,
    inventory,
    objects_digest,
    silent,
    store_facts,
    world_facts,
)
from perdure.runtime.migrate_quiet import check_no_session, check_quiet
from perdure.runtime.migrate_stores import StoresMoved, check_cold
from perdure.runtime.session.ports import Pause

IMPORT_BYTES_MAX: Final = 1_500_000
"""Bytes of records written together; a single larger one still goes, alone."""

LEASE_MS: Final = 600_000
"""How long the source's tables and segments stay as they are after a mover has died."""

Receipt = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mover:
    """Takes one migration as far as it goes; the same call again takes it on from there."""

    source: Side
    destination: Side
    migration: str
    now: Callable[[], Instant]
    look: Callable[[], Awaitable[dict[str, Any]]]
    """Tells what worlds and document stores of the source hold, by id."""

    look_cold: Callable[[], Awaitable[dict[str, Any]]]
    """Tells the same of the destination, from a new process, and resumes what is active."""

    pause: Pause
    progress: Progress = silent
    by: Caller = LOCAL

    async def move(self) -> Receipt:
        """Move everything and return the receipt; moved before, return the same one.

        Raises: InvalidId, NotQuiescent, NotEmpty, Conflict, FenceHeld, Unavailable kinds.
        """
        record = await self._reserved()
        if record.receipt is not None:
            return record.receipt
        held = await self.source.streams()
        steps: tuple[tuple[Stage, Callable[[Streams], Awaitable[None]]], ...] = (
            ("stilled", self._still),
            ("objects", self._copy_objects),
            ("records", self._copy_records),
            ("tables", self._copy_tables),
            ("verified", self._verify),
            ("activated", self._activate),
            ("complete", self._complete),
        )
        for stage, work in steps:
            if not record.has(stage):
                self.progress(stage, 0, None)
                await work(held)
                record = await self._advanced(stage)
        assert record.receipt is not None, "the last stage writes it"
        return record.receipt

    async def give_up(self) -> None:
        """Let the source go on, while nothing of the destination can be alive. Idempotent.

        What was copied stays where it is. Raises: Conflict once the copy was verified.
        """
        for side in (self.destination, self.source):
            release = Release(side.storage, self.migration, self._endpoints)
            await side.authority.execute(release)
        held = await self.source.streams()
        for world in held.worlds:
            free = FreeWorld(self.source.ref(world), self.migration, self.by)
            await self.source.authority.execute(free)
        await self._stores(self.source, held).free()
        await self._let_land()

    def _stores(self, side: Side, held: Streams) -> StoresMoved:
        return StoresMoved(side, held.stores, self.pause, self.progress)

    @property
    def _endpoints(self) -> dict[str, str]:
        return {
            **{f"from_{name}": value for name, value in self.source.described.items()},
            **{f"to_{name}": value for name, value in self.destination.described.items()},
        }

    async def _reserved(self) -> Migration:
        checked_migration_id(self.migration)
        ends = self._endpoints
        if self.source.described == self.destination.described:
            raise Conflict(expected="two storages", found="one and the same")
        find = FindMigration(self.destination.storage, self.migration)
        known = await self.destination.authority.execute(find)
        if known is None:
            for side in (self.source, self.destination):
                await side.authority.execute(CheckUnclaimed(side.storage, self.migration))
            await check_quiet(self.source, self.now(), self.pause)
            await self._check_empty()
        record = await self.destination.authority.execute(
            Reserve(self.destination.storage, self.migration, "destination", ends)
        )
        if not record.has("stilled"):
            await self._check_no_world()
        if not record.has("activated"):
            await self._reserve_source(record)
        return record

    async def _reserve_source(self, record: Migration) -> None:
        ends = self._endpoints
        try:
            await self.source.authority.execute(
                Reserve(self.source.storage, self.migration, "source", ends)
            )
        except Conflict:
            if not record.has("stilled"):  # a rival came first: the destination is not needed
                await self.destination.authority.execute(
                    Release(self.destination.storage, self.migration, ends)
                )
            raise

    async def _check_empty(self) -> None:
        if await self.destination.tables() or await self.destination.names():
            raise NotEmpty(expected="an empty destination", found="tables or objects")

    async def _check_no_world(self) -> None:
        """Look again: since the reservation no world can be added any more."""
        held = await self.destination.streams()
        named = {
            "a world": held.worlds,
            "a session": held.sessions,
            "a document store": held.stores,
        }
        found = next((what for what, there in named.items() if there), None)
        if found is not None:
            await self.destination.authority.execute(
                Release(self.destination.storage, self.migration, self._endpoints)
            )
            raise NotEmpty(expected="an empty destination", found=found)

    async def _advanced(self, stage: Stage, **more: Any) -> Migration:
        behind = STAGES[STAGES.index(stage) - 1]
        return await self.destination.authority.execute(
            Advance(self.destination.storage, self.migration, stage, behind, **more)
        )

    async def _keep_still(self) -> None:
        """Keep everybody from landing, projecting and trimming at the source."""
        for lane in LANES:
            await self._held_still(lane)

    async def _held_still(self, lane: Lane) -> LandingGrip:
        holder = Holder(f"move-{short_hash(self.migration)}")
        take = TakeLandingFence(self.source.storage, holder, LEASE_MS, lane)
        return await self.source.authority.execute(take)

    async def _let_land(self) -> None:
        """Let the source's lanes go, unless somebody else has them by now."""
        for lane in LANES:
            with contextlib.suppress(FenceHeld):
                grip = await self._held_still(lane)
                await self.source.authority.execute(
                    ReleaseLandingFence(self.source.storage, grip.epoch, lane)
                )

    async def _still(self, held: Streams) -> None:
        try:
            await self._keep_still()
            await self._check_no_intent()
            # Again: since the reservation none can be added any more.
            check_no_session(held.sessions)
            for done, world in enumerate(held.worlds):
                self.progress("stilling worlds", done, len(held.worlds))
                still = StillWorld(self.source.ref(world), self.migration, self.by)
                await self.source.authority.execute(still)
            await self._stores(self.source, held).still(self.migration, self.now())
        except NotQuiescent:
            await self.give_up()
            raise
        plan = await self._planned(held)
        seal = digest("perdure.migration.plan.v1", canonical(plan))
        await self._advanced("stilled", plan=plan, plan_digest=seal)

    async def _planned(self, held: Streams) -> Inventory:
        """Describe all of the source, as it stands."""
        return {
            "worlds": await world_facts(self.source, held.worlds),
            "stores": await store_facts(self.source, held.stores),
            **await self._inventory(self.source, held, self._carrier),
        }

    async def _check_no_intent(self) -> None:
        intent = await self.source.authority.execute(FindOpenIntent(self.source.storage))
        if intent is not None:
            raise NotQuiescent(expected="no open landing", found=f"open intent {intent}")

    @property
    def _carrier(self) -> Carrier:
        return Carrier(self.source.storage, self.destination.storage)

    async def _inventory(self, side: Side, held: Streams, carrier: Carrier | None) -> Inventory:
        numbers = count(1)
        what = "looking at the source" if carrier else "looking at the copy"
        return await inventory(
            side, held, carrier, lambda: self.progress(what, next(numbers), None)
        )

    async def _copy_objects(self, held: Streams) -> None:
        names = await self.source.names()
        there = set(await self.destination.names())
        lacking = [name for name in names if name not in there]

        async def copy(name: str) -> None:
            await self.destination.objects.put(name, await self.source.objects.get(name))

        for first in range(0, len(lacking), GETS):
            self.progress("copying objects", first, len(lacking))
            await self._keep_still()
            await asyncio.gather(*map(copy, lacking[first : first + GETS]))

    async def _copy_records(self, held: Streams) -> None:
        total = sum(each["records"] for each in (await self._plan())["records"].values())
        done = 0
        for partition in self.source.partitions(held).values():
            async for page in self.source.pages(partition):
                self.progress("copying records", done, total)
                await self._keep_still()
                carried = [self._carrier.carried(record) for record in page]
                await self._import([record for record in carried if record is not None])
                done += len(page)

    async def _import(self, records: Sequence[Raw]) -> None:
        for group in _grouped(records):
            await self.destination.authority.execute(
                ImportRaw(
                    self.destination.storage, self.migration, group[0].partition, tuple(group)
                )
            )

    async def _copy_tables(self, held: Streams) -> None:
        for name in await self.source.tables():
            await self._keep_still()
            numbers = count(1)

            def step(numbers: count[int] = numbers) -> None:
                self.progress("copying rows", next(numbers), None)

            await asyncio.to_thread(
                copied, self.source.lake, self.destination.lake, name, self.migration, step
            )

    async def _verify(self, held: Streams) -> None:
        await self._keep_still()
        plan = await self._plan()
        plan = {"stores": {}, **plan}  # those of one that was begun by a version before
        now = await self._planned(held)
        there = await self._inventory(self.destination, held, None)
        compare(plan, now, "the source as it stood when it was stilled")
        compare({name: plan[name] for name in there}, there, "a destination equal to the source")
        numbers = count(1)

        def step() -> None:
            self.progress("comparing objects", next(numbers), None)

        before = await objects_digest(self.source, step)
        after = await objects_digest(self.destination, step)
        compare({"objects": before}, {"objects": after}, "objects equal to the source's")

    async def _activate(self, held: Streams) -> None:
        for done, world in enumerate(held.worlds):
            self.progress("activating worlds", done, len(held.worlds))
            ref = self.destination.ref(world)
            await self.destination.authority.execute(ActivateWorld(ref, world))
        await self._stores(self.destination, held).activate()

    async def _complete(self, held: Streams) -> None:
        to = self.destination.described["uri"]
        for done, world in enumerate(held.worlds):
            self.progress("leaving the source", done, len(held.worlds))
            part = PartWorld(self.source.ref(world), self.migration, to, self.by)
            await self.source.authority.execute(part)
        await self._stores(self.source, held).part()
        at_source = Advance(self.source.storage, self.migration, "activated")
        await self.source.authority.execute(at_source)
        receipt = await self._receipt(await self._verified_cold())
        self.progress("writing the receipt", 0, 1)
        finish = Advance(self.source.storage, self.migration, "complete", receipt=receipt)
        await self.source.authority.execute(finish)
        await self._advanced("complete", receipt=receipt)
        await self._let_land()

    async def _verified_cold(self) -> dict[str, Any]:
        """Let a process that knows only the destination find, read and resume all that moved."""
        self.progress("verifying from a new process", 0, 1)
        plan = await self._plan()
        expected, found = await self.look(), await self.look_cold()
        compare(
            {world: each["rows"] for world, each in expected["worlds"].items()},
            {world: each["rows"] for world, each in found["worlds"].items()},
            "the rows of the source",
        )
        check_cold(expected["stores"], found["stores"])
        for world, facts in plan["worlds"].items():
            if facts["status"] == "active" and not (
                found["worlds"][world]["epoch"] > facts["epoch"]
            ):
                raise Conflict(
                    expected=f"an epoch above {facts['epoch']} for world {world!r}",
                    found=str(found["worlds"][world]["epoch"]),
                )
        return found

    async def _receipt(self, cold: dict[str, Any]) -> Receipt:
        record = await self._record()
        return {
            "migration": self.migration,
            "from": self.source.described,
            "to": self.destination.described,
            "plan_digest": record.plan_digest,
            **record.plan,
            "verified": cold["worlds"],
            "verified_stores": cold["stores"],
            "started_at": record.started_at,
            "completed_at": self.now(),
        }

    async def _record(self) -> Migration:
        find = FindMigration(self.destination.storage, self.migration)
        record = await self.destination.authority.execute(find)
        assert record is not None, "it was reserved"
        return record

    async def _plan(self) -> dict[str, Any]:
        return (await self._record()).plan


def _grouped(records: Sequence[Raw]) -> list[list[Raw]]:
    groups: list[list[Raw]] = []
    size = 0
    for record in records:
        size += len(record.spelled)
        if not groups or size > IMPORT_BYTES_MAX or len(groups[-1]) >= PAGE_RECORDS:
            groups.append([])
            size = len(record.spelled)
        groups[-1].append(record)
    return groups
