"""Shortcuts of a commit come to what the plain way comes to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.documents import LINEAGE, REF

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.commit import OwnerGrip, check_owners, renewed
from perdure.kernel.documents.order import in_order
from perdure.kernel.documents.records import Document, HeldOwner, StoreHead
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.successors import head_after, with_content
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.underway import Importing
from perdure.kernel.errors import MissingField, WrongType
from perdure.kernel.ids import Epoch, Holder, Instant, Seq
from perdure.kernel.view import View

pytestmark = pytest.mark.stores

SOME = settings(max_examples=60, deadline=None, derandomize=True)

numbers = st.integers(0, 2**53)
texts = st.text(max_size=5)
heads = st.builds(
    StoreHead,
    partition=st.just(REF.partition),
    lineage=st.just(LINEAGE),
    seq=numbers,
    digest=texts,
    next_id=numbers,
    epoch=numbers,
    schema=numbers,
    held=st.lists(
        st.builds(HeldOwner, owner=texts, epoch=numbers, holder=texts, until=numbers), max_size=2
    ).map(tuple),
    log_from=numbers,
    diverged=st.none() | texts,
    follows=st.booleans(),
    importing=st.none() | st.from_type(Importing),
)
documents = st.builds(
    Document,
    partition=st.just(REF.partition),
    id=numbers,
    owner=texts,
    namespace=texts,
    kind=texts,
    member=st.none() | texts,
    history=st.sampled_from(["none", "latest", "rewindable"]),
    version=numbers,
    revision=numbers,
    base=numbers,
    last=numbers,
    deltas=numbers,
    meta=st.none() | st.dictionaries(texts, numbers, max_size=2),
    created_at=numbers,
    retired_at=st.none() | numbers,
)


@SOME
@given(heads, numbers, texts, numbers, numbers)
def test_the_head_behind_a_commit_is_the_one_before_but_for_what_the_commit_changes(
    head: StoreHead, seq: int, digest: str, next_id: int, schema: int
) -> None:
    plain = replace(head, seq=Seq(seq), digest=digest, next_id=next_id, schema=schema)

    assert head_after(head, Seq(seq), digest, next_id, schema) == plain


@SOME
@given(documents, numbers, numbers, numbers, numbers)
def test_a_document_with_its_next_content_is_the_one_before_but_for_that(
    document: Document, version: int, base: int, last: int, deltas: int
) -> None:
    if deltas % 2:  # its key was asked for before
        assert document.key == Document.key._compute(document)
    plain = replace(
        document,
        version=version,
        revision=document.revision + 1,
        base=Seq(base),
        last=Seq(last),
        deltas=deltas,
    )

    found = with_content(document, version=version, base=Seq(base), last=Seq(last), deltas=deltas)

    assert found == plain
    assert (found.key, found.body()) == (plain.key, plain.body())
    assert document.revision == plain.revision - 1


@SOME
@given(st.sampled_from(["row.insert", "row.put"]), texts, st.dictionaries(texts, numbers))
def test_a_log_tells_of_a_row_in_canonical_json(kind: str, table: str, row: Any) -> None:
    step = Step(View({}), StoreHead(partition=REF.partition, lineage=LINEAGE), 2)

    step.tell_row(kind, table, canonical(row))

    assert step.told == canonical([{"w": kind, "table": table, "row": row}])


@SOME
@given(heads, st.sets(texts, max_size=2), numbers, numbers)
def test_grips_that_say_nothing_leave_the_head_as_it_is(
    head: StoreHead, owners: set[str], now: int, lease_ms: int
) -> None:
    grips = [OwnerGrip(each.owner, each.epoch, each.holder) for each in head.held]
    at = Instant(now)

    assert renewed(head, grips, at) is head
    assert check_owners(head, set(), grips, at) is head
    lasting = renewed(head, grips, at, lease_ms)
    assert [each.until for each in lasting.held] == [
        max(each.until, now + lease_ms) if lease_ms else each.until for each in head.held
    ]


def test_writes_that_need_no_order_stay_as_they_were_staged() -> None:
    staged = [ReserveIds(1), ReserveIds(2)]

    assert in_order(staged) == staged
    assert in_order([]) == []


@pytest.mark.parametrize("value", [True, 1.0, "1", 2**53, -(2**53), None])
def test_a_number_of_a_key_is_a_number_within_what_every_reader_keeps(value: Any) -> None:
    table = Table("notes", "lines", {"id": "int", "text": "str"}, ("id",), {}).checked()

    with pytest.raises(WrongType):
        table.spelled_row({"id": value, "text": ""})
    with pytest.raises(WrongType):
        table.check_key((value,))


def test_the_first_column_that_is_missing_is_told() -> None:
    table = Table("notes", "lines", {"id": "int", "a": "str", "b": "str"}, ("id",), {}).checked()

    with pytest.raises(MissingField, match="a in a row"):
        table.spelled_row({"id": 1})


def test_one_holder_of_two_owners_is_told_apart() -> None:
    held = tuple(
        HeldOwner(owner=owner, epoch=Epoch(number), holder=Holder("h"), until=Instant(9))
        for number, owner in enumerate(("a", "b"))
    )
    head = StoreHead(partition=REF.partition, lineage=LINEAGE, held=held)

    assert check_owners(head, {"b"}, [OwnerGrip("b", Epoch(1), Holder("h"))], Instant(1)) is head
