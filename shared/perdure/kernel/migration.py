"""Migration: a whole storage moves, under one id, and whoever dies on the way is continued."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.errors import Conflict, InvalidId, NotEmpty
from perdure.kernel.floor import (
    Floor,
    check_features,
    check_run_by,
    check_unclaimed,
    floor_key,
)
from perdure.kernel.ids import Instant, Partition, StorageId
from perdure.kernel.landing import CONSUMER, landing_start
from perdure.kernel.places import WorldRef, after, catalog_partition
from perdure.kernel.private import is_tombstone
from perdure.kernel.record import Record
from perdure.kernel.records import Fence, Head, Name, World, head_key, name_key, world_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.stillness import unquiet
from perdure.kernel.upkeep import consumer_key, schedule_key
from perdure.kernel.view import Decision, Key, Range, Reads, Removed, View, Write
from perdure.kernel.wake import UNREAD_MS, appended, existing_head, woken

Stage = Literal[
    "reserved", "stilled", "objects", "records", "tables", "verified", "activated", "complete"
]
STAGES: Final[tuple[Stage, ...]] = (
    "reserved",
    "stilled",
    "objects",
    "records",
    "tables",
    "verified",
    "activated",
    "complete",
)
"""Each names what is done; the next step is taken up by the same call again."""

Role = Literal["source", "destination"]

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration(Record):
    """How far one migration has come, kept in the catalogs of both storages.

    The destination's says it; the source's stays behind and names where its worlds went.
    """

    migration: str
    role: Role
    endpoints: dict[str, str]
    stage: Stage = "reserved"
    plan: dict[str, Any] = field(default_factory=dict)
    """What the source held when it stood still: ids, counts, digests."""

    plan_digest: str = ""
    started_at: Instant
    receipt: dict[str, Any] | None = None

    @property
    def key(self) -> Key[Migration]:
        return migration_key(self.partition, self.migration)

    def has(self, stage: Stage) -> bool:
        """Say whether a stage is done."""
        return STAGES.index(self.stage) >= STAGES.index(stage)


def migration_key(catalog: Partition, migration: str) -> Key[Migration]:
    return Key(catalog, f"migration/{migration}", Migration)


def checked_migration_id(text: str) -> str:
    """Return ``text`` if a migration may be called so. Raises InvalidId."""
    if not _ID.fullmatch(text):
        raise InvalidId(
            expected="a migration id of 1 to 128 letters, digits, '.', '_', ':' and '-'",
            found=repr(text[:40]),
        )
    return text


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """Base of the requests that one side of a migration makes of its catalog."""

    storage: StorageId
    migration: str

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return catalog_partition(self.storage)

    def _named(self) -> tuple[Key[Any], ...]:
        return floor_key(self.stream), migration_key(self.stream, self.migration)

    def _floor(self, view: View) -> Floor:
        return view.get(floor_key(self.stream)) or Floor(partition=self.stream)

    def _known(self, view: View) -> Migration | None:
        return view.get(migration_key(self.stream, self.migration))


@dataclass(frozen=True, slots=True)
class FindMigration(CatalogRequest):
    """Look up how far a migration has come; None if it was never begun here."""

    def reads(self) -> Reads:
        return Reads(peeks=self._named())

    def decide(self, view: View, now: Instant) -> Decision[Migration | None]:
        return Decision(view.peek(migration_key(self.stream, self.migration)))


@dataclass(frozen=True, slots=True)
class CheckUnclaimed(CatalogRequest):
    """Refuse a storage that another migration has. Raises Conflict."""

    def reads(self) -> Reads:
        return Reads(peeks=(floor_key(self.stream),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        floor = view.peek(floor_key(self.stream))
        if floor is not None and floor.migration != self.migration:
            check_unclaimed(floor)
        return Decision(None)


@dataclass(frozen=True, slots=True)
class Reserve(CatalogRequest):
    """Claim one side for a migration; the same claim again changes nothing.

    Raises: Conflict for another migration or other endpoints, NotEmpty, NewerSchema.
    """

    role: Role
    endpoints: dict[str, str]

    def _worlds(self) -> Range[World]:
        return Range(self.stream, "world/", after("world/"), World, limit=1)

    def reads(self) -> Reads:
        return Reads(keys=self._named(), ranges=(self._worlds(),))

    def decide(self, view: View, now: Instant) -> Decision[Migration]:
        floor = self._floor(view)
        check_features(floor)
        known = self._known(view)
        if known is not None:
            return Decision(self._same(known))
        check_unclaimed(floor)
        found = view.find(self._worlds())
        if self.role == "destination" and found:
            raise NotEmpty(expected="an empty destination", found=f"world {found[0].world!r}")
        claimed = Migration(
            partition=self.stream,
            migration=self.migration,
            role=self.role,
            endpoints=self.endpoints,
            started_at=now,
        )
        state: Literal["staged", "moving"] = "staged" if self.role == "destination" else "moving"
        return Decision(claimed, (claimed, replace(floor, state=state, migration=self.migration)))

    def _same(self, known: Migration) -> Migration:
        if (known.role, known.endpoints) != (self.role, self.endpoints):
            raise _other_ends(known, self.endpoints)
        return known


def _other_ends(known: Migration, endpoints: dict[str, str]) -> Conflict:
    return Conflict(
        expected=f"migration {known.migration} as it was begun, {known.endpoints}",
        found=str(endpoints),
    )


@dataclass(frozen=True, slots=True)
class Release(CatalogRequest):
    """Give one side back as it was before a migration that has activated nothing. Idempotent.

    Raises: Conflict for other endpoints: another destination may be alive.
    """

    endpoints: dict[str, str]

    def reads(self) -> Reads:
        return Reads(keys=self._named())

    def decide(self, view: View, now: Instant) -> Decision[None]:
        floor, known = self._floor(view), self._known(view)
        if known is None:
            return Decision(None)
        if known.endpoints != self.endpoints:
            raise _other_ends(known, self.endpoints)
        if known.has("verified"):  # from there on worlds of the destination may be alive
            raise Conflict(
                expected="a migration that has not verified its copy yet",
                found=f"stage {known.stage}",
            )
        opened = replace(floor, state="open", migration=None)
        return Decision(None, (Removed(known.key), opened))


@dataclass(frozen=True, slots=True)
class Advance(CatalogRequest):
    """Write down that a stage is done. A stage that was passed before stays passed.

    Raises: Conflict if it was never begun, or is not as far as ``behind`` says: it was given up
    meanwhile, and begun again.
    """

    stage: Stage
    behind: Stage | None = None
    """Stage that must be done already."""

    plan: dict[str, Any] | None = None
    plan_digest: str = ""
    receipt: dict[str, Any] | None = None

    def reads(self) -> Reads:
        return Reads(keys=self._named())

    def decide(self, view: View, now: Instant) -> Decision[Migration]:
        floor, known = self._floor(view), self._known(view)
        if known is None:
            raise Conflict(expected=f"migration {self.migration} as it was begun", found="none")
        if known.has(self.stage):
            return Decision(known)
        if self.behind is not None and not known.has(self.behind):
            raise Conflict(
                expected=f"migration {self.migration} at stage {self.behind}",
                found=f"stage {known.stage}: it was given up meanwhile, and begun again",
            )
        further = replace(known, stage=self.stage)
        if self.plan is not None:
            further = replace(further, plan=self.plan, plan_digest=self.plan_digest)
        if self.receipt is not None:
            further = replace(further, receipt=self.receipt)
        if not further.has("activated") or known.has("activated"):
            return Decision(further, (further,))
        state: Literal["open", "moved"] = "open" if known.role == "destination" else "moved"
        return Decision(further, (further, replace(floor, state=state)))


@dataclass(frozen=True, slots=True)
class StillWorld(WorldRequest):
    """Stop a world that is to be moved: it takes no command and publishes no tick.

    Asked again, it changes nothing. Raises NotQuiescent; Conflict once it was given up.
    """

    migration: str
    by: Caller = LOCAL

    def reads(self) -> Reads:
        world = self.ref.partition
        named = (head_key(world), consumer_key(world, CONSUMER), floor_key(self.ref.catalog))
        return Reads(keys=named, peeks=(world_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[Head]:
        check_run_by(view, self.ref.catalog, "moving", self.migration)
        head = existing_head(view, self.ref)
        world = view.peek(world_key(self.ref))
        mark = view.get(consumer_key(self.ref.partition, CONSUMER))
        assert world is not None, "it was found in its catalog"
        if head.status == "moving":
            return Decision(head)
        refused = unquiet(world, head, landing_start(world) if mark is None else mark.tick, now)
        if refused is not None:
            raise refused
        if head.status != "active":
            return Decision(head)
        facts = {"migration": self.migration, **self.by.facts}
        still = Fence(epoch=head.fence.epoch)
        head, entry = appended(head, "moving", facts, now, status="moving", fence=still)
        return Decision(head, (head, entry))


@dataclass(frozen=True, slots=True)
class FreeWorld(WorldRequest):
    """Let a world go on where it is, whose migration was given up. Idempotent.

    Raises: Conflict while any migration has the storage.
    """

    migration: str
    by: Caller = LOCAL

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition), floor_key(self.ref.catalog)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        floor = view.get(floor_key(self.ref.catalog))
        if floor is not None:
            check_unclaimed(floor)
        head = existing_head(view, self.ref)
        if head.status != "moving":
            return Decision(None)
        facts = {"migration": self.migration, **self.by.facts}
        head, entry = appended(head, "stayed", facts, now, status="active")
        head, hints = _awaited(view, head, self.ref, now)
        return Decision(None, (head, entry, *hints))


@dataclass(frozen=True, slots=True)
class PartWorld(WorldRequest):
    """Say of a world that it lives in another storage from now on. Idempotent."""

    migration: str
    destination: str
    by: Caller = LOCAL

    def reads(self) -> Reads:
        return Reads(keys=(head_key(self.ref.partition),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        head = existing_head(view, self.ref)
        if head.status != "moving":
            return Decision(None)
        facts = {"migration": self.migration, "to": self.destination, **self.by.facts}
        head, entry = appended(head, "moved", facts, now, status="moved")
        head, hints = woken(view, head, self.ref, Instant(now + UNREAD_MS))
        return Decision(None, (head, entry, *hints))


@dataclass(frozen=True, slots=True)
class ActivateWorld(WorldRequest):
    """Let a world that was carried here appear: identity, name, status and wake in one commit.

    Its epoch stays, without a holder, so whoever resumes it gets a higher one than any writer
    of the source had. Asked again, it changes nothing. Raises Conflict.
    """

    world: World
    """As the source has it."""

    def reads(self) -> Reads:
        partition = self.ref.partition
        name = name_key(self.ref.catalog, self.world.name)
        return Reads(keys=(world_key(self.ref), name, head_key(partition), schedule_key(partition)))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        catalog = self.ref.catalog
        arrived = replace(self.world, partition=catalog, storage=self.ref.storage)
        name = Name(partition=catalog, name=arrived.name, world=arrived.world)
        known = view.get(arrived.key)
        if known is not None:
            if known == arrived:
                return Decision(None)
            raise Conflict(expected=f"world {arrived.world!r} as it was carried", found=str(known))
        head = existing_head(view, self.ref)
        claim = view.get(name.key)
        if claim not in {None, name} and not is_tombstone(head):
            raise Conflict(expected=f"the name {arrived.name!r} free", found=str(claim))
        claims = () if is_tombstone(head) else (name,)
        if head.status == "moving":
            head = replace(head, status="active")
        head, hints = _awaited(view, head, self.ref, now)
        return Decision(None, (arrived, *claims, head, *hints))


def _awaited(view: View, head: Head, ref: WorldRef, now: Instant) -> tuple[Head, tuple[Write, ...]]:
    """Let a world be looked at when its schedule or an unread log asks for it."""
    schedule = view.get(schedule_key(ref.partition))
    at = Instant(now + UNREAD_MS)
    if schedule is not None and head.status == "active":
        at = min(at, schedule.next_at)
    return woken(view, replace(head, wake_at=None), ref, at)
