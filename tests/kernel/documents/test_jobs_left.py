"""Jobs that are aborted in an odd way: those that no code knows, and those without a word."""

from __future__ import annotations

import pytest
from tests.support.jobs import JobStore

from perdure.kernel.documents.jobs.value import Aborted, Failed
from perdure.kernel.errors import StaleWriter

pytestmark = pytest.mark.stores


@pytest.fixture
def store():
    return JobStore()


def test_an_abort_ends_a_job_that_no_code_knows_once_nobody_has_it_in_hand(store):
    store.start(state={"read": 0})
    grip = store.taken().grip

    assert store.abort("gone", is_orphan=True) == "marked"
    assert (store.told().phase, store.told().abort) == ("running", "gone")
    store.died()
    assert store.abort("again", is_orphan=True) == "marked"
    assert store.told().outcome == Failed(Aborted("again"))
    assert store.abort(is_orphan=True) == "terminal"
    with pytest.raises(StaleWriter):
        store.settle(grip)


def test_an_abort_without_words_is_no_restart(store):
    store.start()
    store.abort("")

    assert store.taken().record.outcome == Failed(Aborted(""))
