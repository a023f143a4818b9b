"""A retry lets a blocked job go on where it was, and nothing else."""

from __future__ import annotations

import pytest
from tests.support.jobs import JobStore

from perdure.kernel.errors import Conflict
from perdure.kernel.ids import Instant

pytestmark = pytest.mark.stores


@pytest.fixture
def store() -> JobStore:
    return JobStore()


def test_a_job_that_was_blocked_before_it_began_begins_after_a_retry_and_not_too_early(store):
    store.start(due_at=Instant(store.fake.now + 9_000))
    store.take(version=2)

    store.retry()

    assert (store.take(resume="abandon").why, store.record.phase) == ("waits", "pending")
    store.later(9_000)
    assert store.taken(resume="abandon").task == "run"


def test_a_job_that_has_ended_is_not_retried_and_not_unknown(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip)

    with pytest.raises(Conflict, match="ended"):
        store.retry()
