"""A commit to a document store that shows in part is made once, and is no damage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, REF, means
from tests.support.half_shown import HalfShown

from perdure.kernel.documents.commit import CommitWrites
from perdure.kernel.documents.content import base
from perdure.kernel.documents.create import CreateDocumentStore, DescribeDocumentStore
from perdure.kernel.documents.errors import AddressTaken
from perdure.kernel.documents.keyed import CommitOnce
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import (
    document_key,
    document_store_key,
    logged_key,
    store_head_key,
)
from perdure.kernel.documents.wire import parsed_writes
from perdure.kernel.documents.writes import CreateDocument, RetireDocument
from perdure.kernel.errors import Corrupt, NotFound
from perdure.kernel.ids import CommitId, DocumentId, Seq, Token

pytestmark = pytest.mark.stores


async def made(store: HalfShown) -> Any:
    """Make a document store, and return an authority that knows nothing of it."""
    await means(store).authority.execute(CreateDocumentStore(REF, LINEAGE).checked())
    return means(store, prefix="u").authority


def attempt(name: str, at: str) -> CommitWrites:
    """Return a commit whose writer has seen none."""
    written = CreateDocument(Address("notes", "desk", "note", at), "latest", base(1, {"text": at}))
    return CommitWrites(REF, (written,), Token(name), seen=Seq(0))


def written_at(at: str) -> Any:
    """Return a creation as it comes over a wire."""
    of = {"owner": "notes", "namespace": "desk", "kind": "note", "key": at}
    return parsed_writes([{"write": "document.create", "value": at, **of}])


async def test_an_attempt_whose_log_entry_does_not_show_yet_is_not_made_again():
    store = HalfShown()
    authority = await made(store)
    first = await authority.execute(attempt("first", "a"))
    store.hide(logged_key(REF.partition, Seq(1)))

    again = await means(store, prefix="v").authority.execute(attempt("first", "a"))

    assert again == replace(first, replayed=True)
    assert store.looks


async def test_another_attempt_is_made_behind_a_commit_that_shows_in_part():
    store = HalfShown()
    authority = await made(store)
    await authority.execute(attempt("first", "a"))
    store.hide(logged_key(REF.partition, Seq(1)))

    second = await means(store, prefix="v").authority.execute(attempt("second", "b"))

    assert (second.seq, second.replayed) == (2, False)


async def test_nobody_can_tell_what_became_of_an_attempt_if_the_log_has_lost_an_entry():
    store = HalfShown()
    authority = await made(store)
    await authority.execute(attempt("first", "a"))
    store.lose(logged_key(REF.partition, Seq(1)))
    before = dict(store._records)

    with pytest.raises(Corrupt, match=r"log/0*1 "):
        await means(store, prefix="v").authority.execute(attempt("first", "a"))

    assert store._records == before


@pytest.mark.parametrize("hidden", ["catalog", "head"])
async def test_a_store_of_which_one_record_shows_is_described(hidden):
    store = HalfShown()
    authority = await made(store)
    store.hide(document_store_key(REF) if hidden == "catalog" else store_head_key(REF.partition))

    found = await authority.execute(DescribeDocumentStore(REF))

    assert found.store_id == REF.store


async def test_a_store_that_has_lost_its_head_is_not_found():
    store = HalfShown()
    authority = await made(store)
    store.lose(store_head_key(REF.partition))

    with pytest.raises(NotFound):
        await authority.execute(DescribeDocumentStore(REF))


async def test_an_address_whose_life_does_not_show_yet_is_taken():
    store = HalfShown()
    authority = await made(store)
    (first,) = (await authority.execute(attempt("first", "a"))).ids
    document = document_key(REF.partition, DocumentId(first))
    life = next(key for key in store._records if key.sort.startswith("addr/"))
    before = dict(store._records)

    for hidden in ([life], [life, document, logged_key(REF.partition, Seq(1))]):
        store.hide(*hidden)
        other = CommitOnce(REF, written_at("a"), CommitId("second"), Token("second"))
        for request in (attempt("second", "a"), other):
            with pytest.raises(AddressTaken):
                await means(store, prefix="v").authority.execute(request)

    assert store._records == before
    assert store.looks


async def test_an_address_that_was_freed_by_the_commit_before_is_free():
    store = HalfShown()
    authority = await made(store)
    (first,) = (await authority.execute(attempt("first", "a"))).ids
    await authority.execute(CommitWrites(REF, (RetireDocument(DocumentId(first)),), Token("end")))

    second = await means(store, prefix="v").authority.execute(attempt("second", "a"))

    assert second.seq == 3
