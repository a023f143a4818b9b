"""The log of a document store is read in order, without a gap, and proved by its digests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.support.authority import FakeAuthority
from tests.support.documents import REF
from tests.support.store_logs import chain

from perdure.kernel.documents.errors import LogTrimmed, StaleCursor
from perdure.kernel.documents.log import (
    LOG_KEPT_MIN,
    LOG_PAGE_ENTRIES_MAX,
    TRIM_ENTRIES_MAX,
    LogPage,
    LogPlace,
    ProveLogGap,
    ReadLog,
    TrimLog,
    Trimmed,
)
from perdure.kernel.documents.records import Logged, StoreHead, logged_key, store_head_key
from perdure.kernel.errors import Contended, Corrupt, InvalidValue, LineageChanged, NotFound
from perdure.kernel.ids import Lineage, Seq

pytestmark = pytest.mark.stores


def authority(head: StoreHead, entries: Iterable[Logged]) -> FakeAuthority:
    fake = FakeAuthority()
    fake.put(head, *entries)
    return fake


def read(fake: FakeAuthority, place: LogPlace = LogPlace(), limit: int = 100) -> LogPage:  # noqa: B008
    return asyncio.run(fake.execute(ReadLog(REF, place, limit).checked()))


def seqs(page: LogPage) -> list[int]:
    return [entry.seq for entry in page.entries]


def test_pages_follow_one_another_up_to_the_head():
    fake = authority(*chain(5))

    first = read(fake, limit=2)
    second = read(fake, first.end, limit=2)
    third = read(fake, second.end, limit=2)
    beyond = read(fake, third.end)

    assert [seqs(each) for each in (first, second, third, beyond)] == [[1, 2], [3, 4], [5], []]
    assert [each.is_last for each in (first, second, third, beyond)] == [False, False, True, True]
    assert third.end.digest == third.head.digest


def test_a_store_without_a_commit_has_an_empty_log():
    page = read(authority(*chain(0)))

    assert (seqs(page), page.is_last, page.end.seq) == ([], True, 0)


def test_a_place_whose_digest_nobody_knows_is_read_on_from():
    page = read(authority(*chain(5)), LogPlace(Seq(3)))

    assert seqs(page) == [4, 5]


def test_a_page_ends_before_a_gap_which_is_no_damage_yet():
    head, entries = chain(4)
    fake = authority(head, [entries[0], entries[2], entries[3]])

    page = read(fake)

    assert (seqs(page), page.is_last) == ([1], False)


def test_a_commit_that_does_not_show_is_asked_for_again_and_proved_lost_on_a_snapshot():
    head, entries = chain(3)
    fake = authority(head, entries[:2])

    with pytest.raises(Contended):
        read(fake, LogPlace(Seq(2)))
    with pytest.raises(Corrupt, match="commit 3"):
        asyncio.run(fake.execute(ProveLogGap(REF, Seq(2))))

    asyncio.run(fake.execute(ProveLogGap(REF, Seq(1))))
    asyncio.run(fake.execute(ProveLogGap(REF, Seq(3))))


@pytest.mark.parametrize("place", [LogPlace(Seq(2), "f" * 64), LogPlace(Seq(4), "f" * 64)])
def test_a_place_in_another_history_is_refused(place: LogPlace):
    with pytest.raises(StaleCursor) as refused:
        read(authority(*chain(4)), place)

    assert refused.value.code == "stale_cursor"


def test_a_place_behind_the_last_commit_is_refused():
    with pytest.raises(StaleCursor, match="commit 5"):
        read(authority(*chain(4)), LogPlace(Seq(5)))


def test_a_place_of_another_lineage_is_refused():
    other = Lineage("another-lineage-000000")

    with pytest.raises(LineageChanged):
        read(authority(*chain(4)), LogPlace(Seq(2), lineage=other))


def test_a_store_that_does_not_exist_has_no_log():
    for request in (ReadLog(REF), TrimLog(REF, Seq(1)), ProveLogGap(REF, Seq(0))):
        with pytest.raises(NotFound):
            asyncio.run(FakeAuthority().execute(request))


@pytest.mark.parametrize("damaged", range(4))
def test_an_entry_with_other_writes_breaks_the_chain_wherever_it_is(damaged: int):
    head, entries = chain(4)
    entries[damaged] = replace(entries[damaged], writes=b'[{"w":"row.put"}]')

    with pytest.raises(Corrupt, match="digest"):
        read(authority(head, entries))


@pytest.mark.parametrize(
    "request_",
    [
        ReadLog(REF, LogPlace(Seq(-1))),
        ReadLog(REF, LogPlace(seq=True)),  # type: ignore[arg-type]
        ReadLog(REF, LogPlace("1")),  # type: ignore[arg-type]
        ReadLog(REF, limit=0),
        ReadLog(REF, limit=LOG_PAGE_ENTRIES_MAX + 1),
        ReadLog(REF, limit=True),
    ],
)
def test_what_is_no_place_and_no_limit_is_refused(request_: ReadLog):
    with pytest.raises(InvalidValue):
        request_.checked()


def trim(fake: FakeAuthority, through: int) -> Trimmed:
    return asyncio.run(fake.execute(TrimLog(REF, Seq(through))))


def test_a_trim_removes_what_one_commit_can_and_says_that_there_is_more():
    fake = authority(*chain(LOG_KEPT_MIN + 150))

    first = trim(fake, 140)
    second = trim(fake, 140)
    third = trim(fake, 140)

    assert first == Trimmed(Seq(TRIM_ENTRIES_MAX + 1), TRIM_ENTRIES_MAX, is_done=False)
    assert second == Trimmed(Seq(141), 140 - TRIM_ENTRIES_MAX, is_done=True)
    assert third == Trimmed(Seq(141), 0, is_done=True)
    assert fake.held(logged_key(REF.partition, Seq(140))) is None
    assert fake.held(logged_key(REF.partition, Seq(141))) is not None


def test_the_newest_entries_stay_whatever_is_asked_for():
    fake = authority(*chain(LOG_KEPT_MIN + 3))

    trimmed = trim(fake, 10**9)

    assert trimmed == Trimmed(Seq(4), 3, is_done=True)
    assert trim(authority(*chain(20)), 20).removed == 0


def test_what_was_trimmed_is_refused_and_what_stands_is_read():
    fake = authority(*chain(LOG_KEPT_MIN + 3))
    trim(fake, 3)

    with pytest.raises(LogTrimmed, match="begins at 4"):
        read(fake, LogPlace(Seq(2)))
    with pytest.raises(LogTrimmed):
        asyncio.run(fake.execute(ProveLogGap(REF, Seq(2))))

    assert seqs(read(fake, LogPlace(Seq(3)), limit=2)) == [4, 5]


def test_a_trim_changes_nothing_of_the_head_but_where_the_log_begins():
    head, entries = chain(LOG_KEPT_MIN + 3)
    fake = authority(head, entries)

    trim(fake, 3)

    assert fake.held(store_head_key(REF.partition)) == replace(head, log_from=Seq(4))
