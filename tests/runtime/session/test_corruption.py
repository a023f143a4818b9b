"""Whatever byte of a stored journal flips: opening it fails loud, and nothing is repaired or deleted.

What no digest covers is what a head says beside seq, digest, lineage and features: a flip in that
changes nothing of what a journal comes to.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace

import pytest
from tests.runtime.session.golden_journal import (
    LINEAGE,
    REF,
    Write,
    kept,
    records,
    stored_kept,
    told,
)

from perdure.authority import packing, system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.errors import Contended, Corrupt, NewerWriter, PayloadMissing, PerdureError
from perdure.kernel.ids import Holder, Seq
from perdure.kernel.session.frames import sealed
from perdure.runtime.session.journal import Journal

pytestmark = pytest.mark.sessions

LOUD = {"corrupt", "newer_writer", "payload_missing", "lineage_changed"}
STEP = 11
"""Every so many bytes; every byte in the slow suite."""


def opened(means):
    """Return what a journal comes to for whoever opens it, or the error that it refuses with."""
    try:
        journal = asyncio.run(Journal.open(means, REF, Holder("reader"), 20_000))
    except PerdureError as error:
        return error
    return told(journal.fold)


def whole():
    _, means = stored_kept()
    return opened(means)


WHOLE = whole()


def snapshot(store, means):
    records = {key: (each.version, bytes(each.body)) for key, each in store._records.items()}
    return records, dict(means.objects.held)


def entry_keys(store):
    keys = [key for key in store._records if key.partition == REF.partition]
    return sorted((key for key in keys if key.sort.startswith("log/")), key=lambda key: key.sort)


def packing_hides(before, after):
    """Say whether two packed bodies unpack to the same: a deflated one has bits that say nothing."""
    try:
        return packing.unpacked(before) == packing.unpacked(after)
    except PerdureError:
        return False


def every_flip_is_refused(step):
    """Flip a bit of bytes of each entry in turn, and hold each to its refusal; return how many."""
    store, means = stored_kept()
    flips = 0
    for key in entry_keys(store):
        stored = store._records[key]
        for at in range(0, len(stored.body), step):
            body = bytearray(stored.body)
            body[at] ^= 1 << (at % 8)
            store._records[key] = stored._replace(body=bytes(body))
            before = snapshot(store, means)

            found = opened(means)

            if packing_hides(stored.body, bytes(body)):
                assert found == WHOLE
                continue
            assert isinstance(found, PerdureError), (key.sort, at)
            assert found.code in LOUD, (key.sort, at, found)
            assert snapshot(store, means) == before
            flips += 1
        store._records[key] = stored
    return flips


def test_a_byte_of_an_entry_that_flips_is_refused_and_nothing_is_repaired():
    assert every_flip_is_refused(STEP) > 100


@pytest.mark.slow
def test_every_byte_of_every_entry_that_flips_is_refused():
    assert every_flip_is_refused(1) > 1_000


def test_a_byte_of_a_head_that_flips_never_changes_what_a_journal_comes_to():
    store, _ = stored_kept()
    (key,) = [key for key in store._records if (key.partition, key.sort) == (REF.partition, "head")]
    refused = 0
    for at in range(0, len(store._records[key].body), 3):
        store, means = stored_kept()
        body = bytearray(store._records[key].body)
        body[at] ^= 1
        store._records[key] = store._records[key]._replace(body=bytes(body))
        before = snapshot(store, means)

        found = opened(means)

        if isinstance(found, PerdureError):
            refused += 1
            assert snapshot(store, means) == before
        else:
            assert found == WHOLE
    assert refused > 30


@pytest.mark.parametrize("at", [0, 40_000, 84_000])
def test_a_byte_of_a_payload_object_that_flips_is_refused(at):
    store, means = stored_kept()
    for name, data in list(means.objects.held.items()):
        broken = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        means.objects.held[name] = broken
        before = snapshot(store, means)

        found = opened(means)

        assert isinstance(found, Corrupt)
        assert snapshot(store, means) == before
        means.objects.held[name] = data


def test_a_payload_object_that_is_gone_or_short_is_told_from_each_other():
    _, means = stored_kept()
    name, data = next(iter(means.objects.held.items()))

    means.objects.held[name] = data[:-1]
    short = opened(means)
    del means.objects.held[name]
    gone = opened(means)

    assert type(short) is Corrupt
    assert type(gone) is PayloadMissing


@pytest.mark.parametrize("name", sorted(name for name in kept() if name.startswith("log_")))
def test_an_entry_that_is_gone_is_damage_wherever_it_was(name):
    store, means = stored_kept(without=name)
    before = snapshot(store, means)

    found = opened(means)

    assert isinstance(found, Corrupt), found
    assert snapshot(store, means) == before


@pytest.mark.parametrize("by", [-1, -3, 1, 7])
def test_a_head_that_is_behind_its_entries_or_ahead_of_them_is_damage(by):
    store, means = stored_kept()
    (key,) = [key for key in store._records if (key.partition, key.sort) == (REF.partition, "head")]
    _, _, head, _ = records()
    moved = replace(head, seq=Seq(head.seq + by))
    store._records[key] = store._records[key]._replace(body=packing.packed(moved.body()))
    before = snapshot(store, means)

    found = opened(means)

    assert isinstance(found, (Corrupt, Contended)), found
    assert snapshot(store, means) == before


def newer_at_the_end(*, head_says):
    """Return the golden records with one more frame, which needs a feature unknown here."""
    _, entries, head, _ = records()
    last = entries[-1]
    frame = replace(
        last.frames[0], ver=3, seq=Seq(last.last + 1), requires=("mood/v9",), type="mood"
    )
    link = sealed(last.digest, last.at, "newer")
    frame = replace(frame, digest=frame.checked_digest(LINEAGE, link))
    more = replace(last, append="newer", previous=last.digest, frames=(frame,))
    requires = (*head.requires, "mood/v9") if head_says else head.requires
    return more, replace(head, seq=frame.seq, digest=frame.digest, requires=requires)


@pytest.mark.parametrize("head_says", [True, False])
def test_an_unknown_feature_in_the_last_frame_refuses_and_leaves_every_byte(head_says):
    store, means = stored_kept()
    asyncio.run(means.authority.execute(Write(newer_at_the_end(head_says=head_says))))
    before = snapshot(store, means)

    found = opened(means)

    assert isinstance(found, NewerWriter)
    assert snapshot(store, means) == before


def test_damage_is_told_before_an_unknown_feature_behind_it():
    store, means = stored_kept()
    asyncio.run(means.authority.execute(Write(newer_at_the_end(head_says=True))))
    key = entry_keys(store)[-1]
    stored = store._records[key]
    damaged = stored.body.replace(b"mood/v9", b"mood/v8")
    assert damaged != stored.body
    store._records[key] = stored._replace(body=damaged)

    found = opened(means)

    assert type(found) is Corrupt


def dump(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM record ORDER BY partition, sort").fetchall()
    connection.close()
    return rows


def test_the_last_row_of_a_journal_on_sqlite_is_no_torn_tail(tmp_path):
    path = tmp_path / "catalog.db"

    async def with_sqlite(work):
        authority = Authority(await SqliteStore.open(path), system.now, system.new_token)
        _, means = golden
        try:
            return await work(replace(means, authority=authority))
        finally:
            await authority.close()

    async def write(means):
        session, entries, head, _ = records()
        await means.authority.execute(Write((session, *entries, head)))

    async def open_it(means):
        with pytest.raises(Corrupt):
            await Journal.open(means, REF, Holder("reader"), 20_000)

    golden = stored_kept()
    asyncio.run(with_sqlite(write))
    rows = [row for row in dump(path) if row[1].startswith("log/")]
    partition, sort, body = rows[-1][0], rows[-1][1], rows[-1][4]
    for at in range(0, len(body), 60):
        broken = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        with sqlite3.connect(path) as connection:
            update = "UPDATE record SET body = ? WHERE partition = ? AND sort = ?"
            connection.execute(update, (broken, partition, sort))
        connection.close()
        before = dump(path)

        asyncio.run(with_sqlite(open_it))

        assert dump(path) == before
