"""The rule of those who read: every reading there is, several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.proof.agreeing import STORAGE, Agreeing, lots
from tests.support.worldly import Tag

from perdure.kernel.audit import FindAudited, FindAuditTable
from perdure.kernel.capabilities import FindCapabilities
from perdure.kernel.carry import ReadRaw
from perdure.kernel.consumers import CheckConsumers, ListConsumers
from perdure.kernel.create import Describe, Discover
from perdure.kernel.destroy import CheckClosingRead
from perdure.kernel.drain import DrainDue
from perdure.kernel.floor import EnterCatalog
from perdure.kernel.fork_source import FindSource, ReadPages
from perdure.kernel.ids import CommandId, Instant, Seq, TableId, Tick
from perdure.kernel.inspect import FindPages, Inspect
from perdure.kernel.ledger import Ledger
from perdure.kernel.lineage import FindAncestors
from perdure.kernel.log import log_key
from perdure.kernel.logfeed import LogFeed
from perdure.kernel.migration import CheckUnclaimed, FindMigration
from perdure.kernel.places import PageName, WorldRef
from perdure.kernel.reading import FindManifests, FindSignatures, FindTables, FindWorld
from perdure.kernel.records import head_key
from perdure.kernel.rest import ReadAgenda, Wakes
from perdure.kernel.status import StatusOf
from perdure.kernel.stillness import FindOpenIntent
from perdure.kernel.trim import FindArchives, FindUnread
from perdure.lake.schema import signature_record

Reading = Callable[[Agreeing, WorldRef, int], Any]


def _status(machine: Agreeing, ref: WorldRef, lot: int) -> Any:
    if not machine.sent:
        return StatusOf(ref, CommandId("none"))
    sent = machine.sent[lot % len(machine.sent)]
    own = [command for _, command, _ in sent.batch.own_ids]
    return StatusOf(ref, own[0] if own and lot % 2 else CommandId(f"{sent.batch.id}.0"))


def _manifests(machine: Agreeing, ref: WorldRef, lot: int) -> Any:
    last = Tick(max(0, machine.head(ref).published))
    return FindManifests(ref.partition, Tick(0), last, descending=lot % 2 == 0)


def _ancestors(machine: Agreeing, ref: WorldRef, lot: int) -> Any:
    world = machine.record(ref) or machine.record(machine.ref(0))
    return FindAncestors(world, machine.head(ref).published)


def _pages(machine: Agreeing, ref: WorldRef, lot: int) -> Any:
    sorts = machine.three.keys_under(ref.partition, "due/")
    return ReadPages(ref, tuple(PageName.parse(sort) for sort in sorts[:5]))


TAGS = signature_record(WorldRef(STORAGE, "any").catalog, [Tag.component]).table

READINGS: tuple[Reading, ...] = (
    lambda _, ref, lot: Describe(ref, with_consumers=lot % 2 == 0),
    lambda _, ref, lot: Discover(STORAGE, ref.world if lot % 2 else None, 1 + lot % 4),
    _status,
    lambda _, ref, lot: Ledger(ref, (lot % 4, lot % 2), 1 + lot % 5),
    lambda _, ref, lot: LogFeed(ref, Seq(lot % 6), 1 + lot % 7),
    lambda _, ref, lot: FindWorld(ref),
    _manifests,
    lambda _, ref, lot: FindSignatures(STORAGE),
    lambda _, ref, lot: FindTables(STORAGE, (TAGS if lot % 3 else TableId("none"),)),
    _ancestors,
    lambda _, ref, lot: FindCapabilities(ref),
    lambda _, ref, lot: ListConsumers(ref),
    lambda _, ref, lot: CheckConsumers(ref),
    lambda _, ref, lot: ReadAgenda(ref),
    lambda machine, ref, lot: Wakes(lot % 8, Instant(machine.three.now + lot * 10_000)),
    lambda _, ref, lot: FindAudited(ref),
    lambda _, ref, lot: FindAuditTable(STORAGE, TableId("audit")),
    lambda _, ref, lot: FindUnread(ref),
    lambda _, ref, lot: FindArchives(ref, Seq(lot % 3)),
    lambda _, ref, lot: FindOpenIntent(STORAGE),
    lambda _, ref, lot: FindMigration(STORAGE, "m"),
    lambda _, ref, lot: CheckUnclaimed(STORAGE, "m"),
    lambda _, ref, lot: EnterCatalog(STORAGE),
    lambda _, ref, lot: ReadRaw(ref.partition, "key/" if lot % 2 else ""),
    lambda _, ref, lot: Inspect(
        ref.partition, (head_key(ref.partition), log_key(ref.partition, Seq(lot)))
    ),
    lambda _, ref, lot: FindPages(ref.partition),
    lambda _, ref, lot: CheckClosingRead(ref),
    lambda _, ref, lot: FindSource(ref),
    _pages,
    lambda machine, ref, lot: DrainDue(ref, machine.head(ref).next_tick, Seq(0)),
)


class Asking(Agreeing):
    """Whoever asks and changes nothing."""

    @rule(lot=lots, number=lots, which=st.lists(st.sampled_from(READINGS), min_size=1, max_size=8))
    def read(self, lot: int, number: int, which: list[Reading]) -> None:
        ref = self.ref(lot)
        self.three.ask_at_once([each(self, ref, number) for each in which])
