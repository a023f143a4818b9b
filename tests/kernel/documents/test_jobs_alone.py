"""Where jobs lie only jobs write: a document of anybody else's would be a job that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.documents import REF
from tests.support.jobs import JOB, JobStore

from perdure.kernel.documents.commit import CommitWrites
from perdure.kernel.documents.content import base
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import InvalidValue

pytestmark = pytest.mark.stores

ELSE = base(1, "no job")


@pytest.fixture
def store() -> JobStore:
    store = JobStore()
    store.start(state={"read": 0})
    return store


def strays(store: JobStore) -> list[Any]:
    """Return writes of what is a job's alone."""
    found = store.found()
    assert found is not None
    addresses = [Address("notes", name, "notes.import", "k") for name in ("jobs", "job-ends")]
    created = [CreateDocument(each, "none", ELSE) for each in (*addresses, JOB.end)]
    ids = (found.document.id, found.record.state)
    return [
        *created,
        *(ChangeDocument(id, ELSE) for id in ids),
        *(RetireDocument(id) for id in ids),
    ]


def test_what_is_a_jobs_alone_is_written_by_no_commit(store: JobStore) -> None:
    before = dict(store.fake.records)

    for each in strays(store):
        with pytest.raises(InvalidValue):
            store.ask(CommitWrites(REF, (each,), store.token()))

    assert store.fake.records == before


def test_what_is_a_jobs_alone_is_written_by_no_finish(store: JobStore) -> None:
    grip = store.taken().grip
    store.settle(grip)
    before = dict(store.fake.records)

    for each in strays(store):
        with pytest.raises(InvalidValue):
            store.end(grip, each)

    assert store.fake.records == before
    store.end(grip)
    assert store.told().phase == "ended"
