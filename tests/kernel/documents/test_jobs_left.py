"""Jobs that are aborted in an odd way: those that no code knows, and those without a word."""

from __future__ import annotations

import pytest
from tests.support.documents import REF
from tests.support.jobs import JOB, JobStore

from perdure.kernel.documents.jobs.hints import HintJob, RestJob
from perdure.kernel.documents.jobs.value import Aborted, Failed, minute_of
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


def test_who_aborts_a_job_of_a_wrong_clock_lets_it_be_found_at_once(store):
    store.start()
    store.later(365 * 86_400_000)
    store.take(holder="wrong")
    store.later(-365 * 86_400_000)

    store.abort("stuck")
    (hint,) = store.hints()

    assert minute_of(hint.at) == minute_of(store.fake.now) == store.record.hint
    assert store.ask(RestJob(REF, JOB, hint.sort)) == "due"
    assert store.ask(HintJob(REF, JOB)) is False
    assert store.taken().record.outcome == Failed(Aborted("stuck"))


def test_a_hint_is_made_anew_where_its_job_says_that_it_lies(store):
    store.start()
    store.later(365 * 86_400_000)
    store.take(holder="wrong")
    (hint,) = store.hints()
    store.later(-365 * 86_400_000)
    del store.fake.records[hint.key]

    assert store.ask(HintJob(REF, JOB)) is True

    assert [each.sort for each in store.hints()] == [hint.sort]
