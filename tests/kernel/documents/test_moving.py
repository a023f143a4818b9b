"""Stilling, freeing and activating a document store: who may, and that nobody may twice or too late."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.documents import LINEAGE, REF
from tests.support.jobs import JOB, JobStore

from perdure.kernel.documents.commit import TakeOwner
from perdure.kernel.documents.jobs.hints import RestJob
from perdure.kernel.documents.moving import (
    ActivateStore,
    FindStoreHead,
    FreeStore,
    PartStore,
    StillStore,
)
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import DocumentStore, StoreHead, document_store_key
from perdure.kernel.errors import Conflict, NotQuiescent, PerdureError
from perdure.kernel.floor import Floor, FloorState
from perdure.kernel.ids import Holder, StorageId
from perdure.runtime.migrate_stores import check_cold

pytestmark = [pytest.mark.lifecycle, pytest.mark.stores]

ARRIVED = DocumentStoreRef(StorageId("there"), REF.store)


@pytest.fixture
def store() -> JobStore:
    """A store in a storage that migration "m" has reserved."""
    made = JobStore()
    reserve(made, "moving", "m")
    return made


def reserve(store: JobStore, state: FloorState, migration: str | None) -> None:
    store.fake.put(Floor(partition=REF.catalog, state=state, migration=migration))


def unchanged(store: JobStore, request, kind: type[PerdureError], match: str = "") -> None:
    before = dict(store.fake.records)

    with pytest.raises(kind, match=match):
        store.ask(request)

    assert store.fake.records == before


def status(store: JobStore, ref: DocumentStoreRef = REF) -> str:
    return store.ask(FindStoreHead(ref)).status


def test_a_store_is_stilled_by_the_migration_that_has_its_storage_and_by_no_other(store):
    unchanged(store, StillStore(REF, "rival"), Conflict, "moving by migration rival")
    store.ask(StillStore(REF, "m"))
    before = dict(store.fake.records)
    store.ask(StillStore(REF, "m"))

    assert (status(store), store.fake.records) == ("moving", before)
    reserve(store, "open", None)
    unchanged(store, StillStore(REF, "m"), Conflict, "open by None")


def test_whoever_took_an_owner_before_a_store_is_stilled_is_seen_by_the_commit_that_would(store):
    store.ask(TakeOwner(REF, "notes", Holder("somebody"), 30_000).checked())
    unchanged(store, StillStore(REF, "m"), NotQuiescent, "held for 30000 ms more")

    store.later(30_000)

    assert store.ask(StillStore(REF, "m")).status == "moving"


def test_nobody_frees_a_store_that_a_migration_has(store):
    store.ask(StillStore(REF, "m"))
    unchanged(store, FreeStore(REF), Conflict, "no other migration has")

    reserve(store, "open", None)
    store.ask(FreeStore(REF))

    assert status(store) == "open"


def test_a_store_that_was_not_stilled_is_not_left_behind_and_one_that_was_left_is_not_freed(store):
    store.ask(PartStore(REF))
    assert status(store) == "open"

    store.ask(StillStore(REF, "m"))
    store.ask(PartStore(REF))
    reserve(store, "open", None)
    store.ask(FreeStore(REF))

    assert status(store) == "moved"


def carried(store: JobStore, **how: object) -> DocumentStore:
    """Return what the source has in its catalog, with a head carried to the destination."""
    head = StoreHead(partition=ARRIVED.partition, lineage=LINEAGE, status="staged")
    store.fake.put(replace(head, **how))
    found: DocumentStore = store.fake.held(document_store_key(REF))
    return found


def test_a_store_appears_with_its_identity_and_head_and_once(store):
    source = carried(store)

    store.ask(ActivateStore(ARRIVED, source))
    before = dict(store.fake.records)
    store.ask(ActivateStore(ARRIVED, source))

    arrived = replace(source, partition=ARRIVED.catalog, storage=ARRIVED.storage)
    assert store.fake.held(document_store_key(ARRIVED)) == arrived
    assert status(store, ARRIVED) == "open"
    assert store.fake.records == before


@pytest.mark.parametrize("found", ["open", "moving", "moved"])
def test_a_head_that_nobody_has_carried_there_is_not_brought_to_life(store, found):
    unchanged(store, ActivateStore(ARRIVED, carried(store, status=found)), Conflict, found)


def test_another_store_of_that_id_is_not_taken_for_the_one_that_was_carried(store):
    source = carried(store)
    another = replace(source, partition=ARRIVED.catalog, storage=ARRIVED.storage, app="another")
    store.fake.put(another)

    unchanged(store, ActivateStore(ARRIVED, source), Conflict, "as it was carried")


@pytest.mark.parametrize("found", ["staged", "moving"])
def test_the_hint_of_a_job_whose_store_is_on_its_way_stays_and_is_not_followed(store, found):
    reserve(store, "open", None)
    store.start()
    (hint,) = store.hints()
    store.fake.put(replace(store.ask(FindStoreHead(REF)), status=found))
    before = dict(store.fake.records)

    assert store.ask(RestJob(REF, JOB, hint.sort)) == "waits"
    assert store.fake.records == before


LEFT = {"lineage": "l", "seq": 7, "epoch": 2, "export": "same"}


@pytest.mark.parametrize(
    "right",
    [
        None,
        {**LEFT, "lineage": "another"},
        {**LEFT, "seq": 6},
        {**LEFT, "export": "another"},
    ],
)
def test_a_copy_that_a_new_process_finds_otherwise_is_refused(right):
    with pytest.raises(Conflict, match="notes"):
        check_cold({"notes": LEFT}, {} if right is None else {"notes": right})


@pytest.mark.parametrize("further", [{"seq": 8}, {"epoch": 3}])
def test_a_copy_may_have_gone_on_before_a_new_process_looks(further):
    check_cold({"notes": LEFT}, {"notes": {**LEFT, **further, "export": "another"}})
