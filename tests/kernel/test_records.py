"""Records: their exact spelling, and the two that must fit one write unit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.worldly import WORLD, World, due

from perdure.kernel import limits
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Epoch, Holder, Instant, Partition, Seq, Sequence, Tick
from perdure.kernel.log import LogEntry
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import PageName, WorldRef, number, wake_sort
from perdure.kernel.records import Drain, Fence, Head, Probe, head_key
from perdure.kernel.records import World as WorldRecord
from perdure.kernel.upkeep import Wake

LONG = 10**15
PLACE = Partition("w/" + "x" * 22 + "/" + "x" * 22)


def item_bytes(record):
    return len(record.key.partition) + len(record.key.sort) + len(record.body()) + limits.ITEM_BYTES


def longest_head():
    sequence = Sequence(LONG)
    return Head(
        partition=PLACE,
        status="destroyed",
        writer_mode="cleanup_only",
        fence=Fence(epoch=Epoch(LONG), holder=Holder("x" * 36), until=Instant(LONG)),
        published=Tick(limits.TICK_MAX),
        manifest_digest="f" * 64,
        seq=Seq(LONG),
        log_digest="f" * 64,
        next_sequence=sequence,
        next_entity_id=2**52,
        last_page=PageName(Tick(limits.TICK_MAX), -limits.PRIORITY_MAX, sequence),
        cancelled_below=sequence,
        open_commands=LONG,
        checkpoint=Tick(limits.TICK_MAX),
        drain=Drain(
            tick=Tick(limits.TICK_MAX),
            starts=1_000_000,
            probe=Probe(stage="compute", first=sequence, last=sequence),
            culprits=((sequence, 1_000),) * limits.CULPRITS_MAX,
        ),
        wake_at=Instant(LONG),
        required=limits.REQUIRED_CONSUMERS_MAX,
        configured=limits.CONFIGURATIONS_MAX,
    )


def test_the_longest_head_fits_one_write_unit():
    assert item_bytes(longest_head()) <= limits.HEAD_BYTES_MAX


def test_a_page_is_filled_up_to_one_write_unit_and_no_further():
    page = Page.of(PLACE, PageName(Tick(1), 0, Sequence(1)))
    sizes = []

    for seq in range(10**14, 10**14 + 200):
        if not page.has_room:
            break
        page = page.appended(PageEntry(seq=Seq(seq), group=0, count=1))
        sizes.append(item_bytes(page))

    assert limits.PAGE_BYTES_MAX - 2 * limits.PAGE_ENTRY_BYTES_MAX < sizes[-1] <= 1_024


def test_a_page_has_sixty_four_entries_at_most():
    page = Page.of(PLACE, PageName(Tick(1), 0, Sequence(1)))

    while page.has_room:
        page = page.appended(PageEntry(seq=Seq(1), group=0, count=1))

    assert len(page.entries) == limits.PAGE_ENTRIES_MAX


@pytest.mark.parametrize(
    "entry",
    [
        PageEntry(seq=Seq(1), group=0, count=1),
        PageEntry(seq=Seq(1), group=2, count=3, open=((1, 2), (5, 5))),
        PageEntry(seq=Seq(1), group=2, count=3, attempts=2),
        PageEntry(seq=Seq(1), group=2, count=3, open=((1, 1),), attempts=2, world=PLACE),
        PageEntry(seq=Seq(1), group=2, count=3, world=PLACE),
    ],
)
def test_a_page_reads_back_as_it_was_made(entry):
    page = Page.of(PLACE, PageName(Tick(7), -3, Sequence(9)), (entry, entry))

    again = Page.read(PLACE, page.key.sort, page.body())

    assert again == page
    assert again.entries == (entry, entry)
    assert again == Page.of(PLACE, page.name).appended(entry).appended(entry)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"[[1]]", b'[["a"'])
def test_a_page_that_is_none_is_corrupt(body):
    with pytest.raises(Corrupt):
        _ = Page.read(PLACE, PageName(Tick(7), 0, Sequence(9)).sort, body).entries


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"seq":"x"}'])
def test_a_record_that_is_none_is_corrupt(body):
    with pytest.raises(Corrupt):
        head_key(PLACE).of.read(PLACE, "head", body)


def test_every_record_of_a_lived_world_reads_back_to_its_very_bytes():
    world = World()
    world.admit(due(0), due(1, 5, command_id="mine"), due(9), batch="b")
    world.tick(fail={1: 1})
    world.cancel("b.2")
    world.cancel_all("request")

    for key, stored in world.paper.stored.items():
        record = key.of.read(key.partition, key.sort, stored.body)
        assert record.body() == stored.body
        assert record.key == key
        assert record.key.of is key.of
    kinds = {key.sort.split("/")[0] for key in world.paper.stored}
    assert kinds >= {"world", "name", "head", "log", "key", "due", "manifest", "cancelled"}


def test_a_wake_hint_knows_where_it_lies():
    hint = Wake(
        partition=WORLD.wake,
        sort=wake_sort(Instant(60_000), WORLD),
        storage=WORLD.storage,
        world=WORLD.world,
        at=Instant(60_000),
    )

    assert Wake.read(hint.partition, hint.key.sort, hint.body()) == hint


def test_numbers_and_pages_sort_as_they_should():
    names = [
        PageName(Tick(tick), priority, Sequence(first))
        for tick in (0, 2, 10)
        for priority in (-limits.PRIORITY_MAX, -1, 0, 7, limits.PRIORITY_MAX)
        for first in (1, 20)
    ]

    assert sorted(names, key=lambda name: name.sort) == sorted(names) == names
    assert [PageName.parse(name.sort) for name in names] == names
    assert number(9) < number(10) < number(limits.INTEGER_MAX)


def test_worlds_of_two_storages_never_meet():
    left = WorldRef(WORLD.storage, WORLD.world)
    right = replace(left, storage="another")

    assert left.partition != right.partition
    assert left.catalog != right.catalog


def test_a_log_entry_reads_back_to_its_digest_whatever_its_texts_say():
    tricky = '"},"kind":"x","payload":1,"previous":"","seq":9}\\'
    entry = LogEntry(
        partition=PLACE,
        seq=Seq(3),
        at=Instant(5),
        kind="admitted",
        facts={"batch": tricky, "kind": tricky, "payload": {"kind": "y"}},
        payload=b'{"a":"\\"},\\"previous\\":\\"\\",\\"seq\\":1}"}',
        previous="ab" * 32,
    )

    again = LogEntry.read(PLACE, "log/3", entry.body())

    assert again == entry
    assert again.digest == entry.digest
    assert isinstance(again, LogEntry)
    with pytest.raises(Corrupt):
        LogEntry.read(PLACE, "log/3", b"{}")


def test_a_created_world_has_its_record():
    world = World()

    (record,) = world.paper.held_under("world/")

    assert isinstance(record, WorldRecord)
    assert (record.name, record.run, record.ref) == ("harbour", "run", WORLD)
