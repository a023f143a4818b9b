"""Every kind of record is read back as it was, or refused: whatever became of its bytes."""

from __future__ import annotations

import tracemalloc
import zlib
from functools import partial
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.mutated import BITS, OPAQUE, instances, kinds, mutations, quiet, read_or_refused

from perdure.authority import packing
from perdure.authority.packing import Pointer, packed, unpacked
from perdure.kernel import limits
from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Corrupt
from perdure.kernel.log import LogEntry
from perdure.kernel.pages import Page

pytestmark = pytest.mark.proof

KINDS = kinds()
READ = [kind for kind in KINDS if kind not in OPAQUE]
EXAMPLES = 8
EXAMPLES_SLOW = 3_000


def looked_into(kind, record, sort, body):
    """Read a record, and all that is read of it only when it is asked for."""
    found = kind.read(record.partition, sort, body)
    spelled = found.body()
    if isinstance(found, LogEntry):
        _ = found.content
        assert found.digest
    if isinstance(found, Page):
        assert isinstance(found.entries, tuple)
        assert found.has_room in {True, False}
    return found, spelled


def survives(kind, examples):
    records = instances(kind)

    @quiet(examples)
    @given(record=records, data=st.data())
    def mutated(record, data):
        others = instances(data.draw(st.sampled_from(READ))).map(lambda each: each.body())
        body = data.draw(mutations(st.just(record.body()), others))
        sort = record.key.sort

        found = read_or_refused(lambda: looked_into(kind, record, sort, body))

        if found is not None:
            _, spelled = looked_into(kind, record, sort, found[1])
            assert spelled == found[1]

    mutated()


def test_the_kinds_of_records_are_all_found():
    assert {"Head", "Manifest", "LogEntry", "Page", "Archive", "Intent", "Quota"} <= {
        kind.__name__ for kind in KINDS
    }
    sessions = {"Session", "SessionHead", "Entry", "SendKey", "RunKey", "RunEnd", "Submission"}
    assert sessions | {"Approval", "SessionWake", "FoldMark"} <= {kind.__name__ for kind in KINDS}
    assert len(KINDS) >= 37


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_record_is_read_back_as_it_was(kind):
    @quiet(EXAMPLES)
    @given(record=instances(kind))
    def same(record):
        body = record.body()
        again = kind.read(record.partition, record.key.sort, body)
        assert again == record
        assert again.body() == body
        assert again.key == record.key

    same()


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_record_whose_bytes_changed_is_refused_or_read_in_one_way(kind):
    survives(kind, EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_record_whose_bytes_changed_is_so_thousands_of_times(kind):
    survives(kind, EXAMPLES_SLOW)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_record_of_any_bytes_is_refused_or_read(kind):
    @quiet(EXAMPLES)
    @given(record=instances(kind), body=st.binary(max_size=60) | st.sampled_from(BITS))
    def any_bytes(record, body):
        read_or_refused(lambda: looked_into(kind, record, record.key.sort, body))

    any_bytes()


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_record_with_something_strange_in_each_of_its_places(kind):
    @quiet(1)
    @given(record=instances(kind))
    def strange(record):
        body = record.body()
        places = range(0, len(body), max(1, len(body) // 6))
        for bit, at in product(BITS, places):
            for end in (at, at + 1):
                changed = body[:at] + bit + body[end:]
                read_or_refused(partial(looked_into, kind, record, record.key.sort, changed))

    strange()


@quiet(200)
@given(body=st.binary(max_size=3_000) | st.binary(max_size=20).map(lambda each: each * 300))
def test_body_is_unpacked_as_it_was_packed(body):
    assert unpacked(packed(body)) == body


@quiet(300)
@given(
    data=st.binary(max_size=40)
    | mutations(st.binary(max_size=20).map(lambda each: packed(each * 300)), st.binary())
    | mutations(st.just(Pointer.to(b"x" * 999, "name").spelled()), st.binary())
)
@example(data=packing.POINTER + b'["name",1e999,"x"]')
@example(data=packing.POINTER + b'["name",99999999999999999999,"x"]')
@example(data=packing.POINTER + b'["name",-1,"x"]')
@example(data=packing.POINTER + b"[" * 60_000)
@example(data=packing.DEFLATED + zlib.compress(b"x", 6, -15) + b"more")
def test_packed_bytes_that_changed_are_refused_or_unpacked(data):
    found = read_or_refused(lambda: unpacked(data))

    if isinstance(found, Pointer):
        assert len(found.keys) <= limits.BODY_PACKED_BYTES_MAX // limits.BODY_CHUNK_BYTES


def test_bytes_that_unpack_to_more_than_a_body_are_refused_before_they_do(monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 1 << 20)
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 20)
    bomb = packing.DEFLATED + b"".join(compress.compress(zeros) for _ in range(64))
    bomb += compress.flush()
    tracemalloc.start()

    with pytest.raises(Corrupt):
        unpacked(bomb)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_facts_and_payload_of_a_newer_version_are_carried_and_not_lost():
    @quiet(EXAMPLES)
    @given(entry=instances(LogEntry))
    def newer(entry):
        facts = {**entry.facts, "newer": {"of": 1}}
        body = entry.body().replace(canonical(entry.facts), canonical(facts), 1)
        found = read_or_refused(lambda: LogEntry.read(entry.partition, entry.key.sort, body))
        if found is not None:
            assert found.body() == body

    newer()
