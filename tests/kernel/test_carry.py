"""Records carried elsewhere: exact bytes, but for what names the place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World

from perdure.kernel.carry import Carrier, Raw, ReadRaw, RecordsDigest
from perdure.kernel.documents.held import HeldOwner
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.ids import (
    DocumentStoreId,
    Epoch,
    Holder,
    Instant,
    Lineage,
    Seq,
    Sequence,
    StorageId,
    Tick,
    WorldId,
)
from perdure.kernel.landing import LandingHead
from perdure.kernel.migration import (
    Reserve,
)
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName, WorldRef, landing_partition
from perdure.kernel.records import Fence
from perdure.kernel.upkeep import Required

pytestmark = pytest.mark.lifecycle

HERE = WORLD.storage
THERE = StorageId("elsewhere")
ENDS = {"from": "a", "to": "b"}


@pytest.fixture
def world():
    return World()


def reserve(world, role="source", migration="m", storage=HERE, **ends):
    return world.paper.ask(Reserve(storage, migration, role, ENDS | ends))


def unchanged(world, request, error):
    """Check that a request is refused and changes nothing."""
    before = dict(world.paper.stored)
    with pytest.raises(error) as refused:
        world.paper.ask(request)
    assert world.paper.stored == before
    return refused.value


CARRIER = Carrier(HERE, THERE)
ELSEWHERE = WorldRef(THERE, WORLD.world)


def raw(record):
    return Raw(partition=record.partition, sort=record.key.sort, spelled=record.body())


def test_records_of_any_kind_arrive_with_their_exact_bytes(world):
    strange = Raw(partition=WORLD.partition, sort="cubes/1", spelled=b'{"b": 2,"a":1}')
    known = raw(Required(partition=WORLD.partition, names=("audit",)))

    for record in (strange, known):
        assert CARRIER.carried(record) == replace(record, partition=ELSEWHERE.partition)


def test_head_arrives_with_its_epoch_and_without_holder_and_wake(world):
    world.take()
    world.change(lambda head: replace(head, wake_at=5))

    arrived = CARRIER.carried(raw(world.head))

    assert (
        arrived.spelled
        == replace(world.head, fence=Fence(epoch=world.head.fence.epoch), wake_at=None).body()
    )


def test_pages_name_the_logs_of_the_destination(world):
    ancestor = WorldRef(HERE, WorldId("ancestor"))
    entries = (
        PageEntry(seq=Seq(1), group=0, count=2),
        PageEntry(seq=Seq(2), group=0, count=1, world=ancestor.partition),
    )
    page = Page.of(WORLD.partition, PageName(Tick(3), 0, Sequence(1)), entries)

    arrived = CARRIER.carried(raw(page))

    there = Page.read(arrived.partition, arrived.sort, arrived.spelled)
    assert [entry.world for entry in there.entries] == [
        None,
        WorldRef(THERE, WorldId("ancestor")).partition,
    ]


def test_landing_arrives_without_its_fence():
    head = LandingHead(partition=landing_partition(HERE), fence=Fence(epoch=4, holder=Holder("x")))

    arrived = CARRIER.carried(raw(head))

    assert arrived.spelled == replace(head, fence=Fence()).body()


def test_what_belongs_to_the_place_or_comes_last_is_kept_back(world):
    reserve(world)
    catalog = world.paper.ask(ReadRaw(WORLD.catalog))

    assert {record.sort.partition("/")[0] for record in catalog} == {
        "floor",
        "migration",
        "name",
        "world",
    }
    assert [CARRIER.carried(record) for record in catalog] == [None] * len(catalog)


def test_digest_tells_order_and_boundaries_apart():
    one = Raw(partition=WORLD.partition, sort="a", spelled=b"bc")
    others = [
        [replace(one, sort="ab", spelled=b"c")],
        [replace(one, spelled=b"bd")],
        [one, one],
    ]

    def folded(records):
        digest = RecordsDigest()
        digest.add(records)
        return digest.digest

    assert folded([one]) == folded([replace(one, partition=ELSEWHERE.partition)])
    assert folded([one]) not in {folded(other) for other in others}


@pytest.mark.stores
def test_head_of_a_document_store_arrives_so_that_nobody_sees_it_and_with_all_that_it_says():
    ref = DocumentStoreRef(HERE, DocumentStoreId("notes"))
    held = HeldOwner(owner="notes", epoch=Epoch(3), holder=Holder("one"), until=Instant(5))
    head = StoreHead(
        partition=ref.partition,
        lineage=Lineage("l"),
        seq=Seq(7),
        digest="d",
        epoch=Epoch(3),
        held=(held,),
        status="moving",
    )

    arrived = CARRIER.carried(raw(head))

    there = DocumentStoreRef(THERE, ref.store)
    assert StoreHead.read(there.partition, "head", arrived.spelled) == replace(
        head, partition=there.partition, status="staged"
    )
    assert arrived.partition == there.partition
