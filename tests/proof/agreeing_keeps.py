"""Rules of those who land, audit, trim, let rest and migrate."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.proof.agreeing import LEASE_MS, STORAGE, Agreeing, few, holders, lots

from perdure.kernel.carry import Carrier, ImportRaw, Raw, ReadRaw
from perdure.kernel.claim import NameAuthority
from perdure.kernel.create import CreateWorld
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.moving import (
    ActivateStore,
    FindStoreHead,
    FreeStore,
    PartStore,
    StillStore,
)
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import document_store_key
from perdure.kernel.floor import EnterCatalog
from perdure.kernel.ids import (
    DocumentStoreId,
    Epoch,
    Holder,
    Lineage,
    RunId,
    Seq,
    StorageId,
    TableId,
    Tick,
    Token,
    WorldId,
)
from perdure.kernel.landing import (
    FinishIntent,
    IntentPart,
    IntentTable,
    OpenIntent,
    ReleaseLandingFence,
    TakeLandingFence,
    intent_key,
    landing_head_key,
    landing_start,
)
from perdure.kernel.migration import (
    ActivateWorld,
    Advance,
    CheckUnclaimed,
    FindMigration,
    FreeWorld,
    PartWorld,
    Release,
    Reserve,
    StillWorld,
)
from perdure.kernel.places import LANES, Lane, WorldRef, landing_partition
from perdure.kernel.rest import Rest
from perdure.kernel.trim import RecordArchive, RecordTrim, RemoveArchived, trim_key
from perdure.kernel.upkeep import consumer_key

OLD, NEW = StorageId("old"), StorageId("new")
"""Storages of their own: one that is on the move takes no new world."""

PAPERS = DocumentStoreId("papers")
ENDPOINTS = {"source": "old", "destination": "new"}


class Keeping(Agreeing):
    """Whoever keeps a storage in order."""

    @rule(lot=lots, lane=st.sampled_from(LANES), holder=holders, step=st.integers(0, 5))
    def land(self, lot: int, lane: Lane, holder: str, step: int) -> None:
        """Land what there is of a world, as far as this process comes."""
        grip = self.ask(TakeLandingFence(STORAGE, Holder(holder), LEASE_MS, lane))
        epoch = Epoch(step) if grip is None else grip.epoch
        intent = None if grip is None else grip.intent
        if intent is None:
            part = self.part(self.ref(lot), lane, is_wrong=step == 5)
            tables = (IntentTable(table=TableId(lane), parent=None, rows=step),)
            batch = Token(f"batch-{next(self.numbers)}")
            self.ask(OpenIntent(STORAGE, epoch, LEASE_MS, batch, (part,), tables, lane))
            intent = self.opened(lane)
        if intent is not None and step:
            for _ in range(1 + (step == 4)):
                self.ask(FinishIntent(STORAGE, epoch, LEASE_MS, intent, lane))
        if step % 2:
            self.ask(ReleaseLandingFence(STORAGE, epoch, lane))

    def part(self, ref: WorldRef, lane: Lane, *, is_wrong: bool) -> IntentPart:
        """Name what a world has that is not landed."""
        head, mark = self.head(ref), self.three.held(consumer_key(ref.partition, lane))
        record = self.record(ref)
        if lane == "audit":
            reached, last = 0 if mark is None else mark.seq, int(head.seq)
        else:
            start = -1 if record is None else landing_start(record)
            reached, last = start if mark is None else mark.tick, int(head.published)
        first = reached + 1 + is_wrong
        return IntentPart(world=ref.world, first=first, last=last, seq=head.seq)

    def opened(self, lane: Lane) -> Any:
        """Return the intent that is open."""
        landing = landing_partition(STORAGE, lane)
        head = self.three.held(landing_head_key(landing))
        if head is None or head.intent is None:
            return None
        return self.three.held(intent_key(landing, head.intent))

    @rule(lot=lots, through=st.integers(-1, 3), checkpoints=st.integers(-1, 3))
    def trim(self, lot: int, through: int, checkpoints: int) -> None:
        ref = self.ref(lot)
        kept = tuple(Tick(tick) for tick in range(0, checkpoints + 1, 2))
        if self.record(ref) is not None:
            self.ask(RecordTrim(ref, Tick(through), Tick(checkpoints), kept))

    @rule(lot=lots, count=st.integers(1, 3), removes=st.booleans())
    def archive(self, lot: int, count: int, *, removes: bool) -> None:
        """Archive entries of a world that nobody asks for any more."""
        ref = self.ref(lot)
        trim = self.three.held(trim_key(ref.partition))
        first = 1 if trim is None else trim.log_through + 1
        last = first + count - 1
        if self.head(ref).status != "destroyed" or last > self.head(ref).seq:
            return
        self.ask(RecordArchive(ref, Seq(first), Seq(last), f"archive/{last}", "0" * 64))
        if removes:
            self.ask(RemoveArchived(ref))

    @rule(lot=lots)
    def rest(self, lot: int) -> None:
        ref = self.ref(lot)
        self.ask(Rest(ref, self.hint(ref)))

    @rule(name=few)
    def name_the_authority(self, name: int) -> None:
        self.ask(NameAuthority(STORAGE, Token(f"authority-{name}")))

    @rule(steps=st.integers(1, 20), skipped=st.integers(0, 30), migration=few, gives_up=few)
    def migrate(self, steps: int, skipped: int, migration: int, gives_up: int) -> None:
        """Move a storage so far, perhaps without one of the steps, and perhaps give up then."""
        name = "other" if migration == 3 else "m"
        for number in range(steps):
            if number != skipped:
                self.step(number, name)
        if gives_up == 3:
            for request in (
                Release(NEW, name, {"source": "elsewhere"} if skipped % 2 else ENDPOINTS),
                Release(OLD, name, ENDPOINTS),
                FreeWorld(WorldRef(OLD, WorldId("moved")), name),
                FreeStore(DocumentStoreRef(OLD, PAPERS)),
            ):
                self.ask(request)

    def step(self, number: int, name: str) -> None:
        """Do one step of a migration."""
        old, new = WorldRef(OLD, WorldId("moved")), WorldRef(NEW, WorldId("moved"))
        papers, new_papers = DocumentStoreRef(OLD, PAPERS), DocumentStoreRef(NEW, PAPERS)
        record, store = self.record(old), self.three.held(document_store_key(papers))
        steps: list[Any] = [
            CreateWorld(old, "moved", RunId("run"), every_ms=60_000),
            CreateDocumentStore(papers, Lineage("papers")),
            CheckUnclaimed(NEW, name),
            Reserve(OLD, name, "source", ENDPOINTS),
            Reserve(NEW, name, "destination", ENDPOINTS),
            EnterCatalog(NEW),
            None if record is None else StillWorld(old, name),
            StillStore(papers, name),
            Advance(NEW, name, "stilled", plan={"worlds": 1}, plan_digest="d"),
            ReadRaw(old.partition),
            ReadRaw(papers.partition),
            Advance(NEW, name, "verified"),
            None if record is None else ActivateWorld(new, record),
            None if store is None else ActivateStore(new_papers, store),
            FindStoreHead(new_papers),
            Advance(NEW, name, "activated"),
            PartWorld(old, name, "new"),
            PartStore(papers),
            Advance(OLD, name, "activated", receipt={"worlds": 1}),
            FindMigration(NEW, name),
        ]
        found = None if steps[number] is None else self.ask(steps[number])
        if isinstance(steps[number], ReadRaw) and found is not None:
            partition = Carrier(OLD, NEW).partition(steps[number].partition)
            self.ask(ImportRaw(NEW, name, partition, carried(found)))


def carried(records: tuple[Raw, ...]) -> tuple[Raw, ...]:
    carrier = Carrier(OLD, NEW)
    return tuple(filter(None, map(carrier.carried, records)))
