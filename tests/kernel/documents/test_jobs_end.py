"""How a job ends: each row of its table about aborts and what is blocked."""

from __future__ import annotations

import pytest
from tests.support.documents import REF
from tests.support.jobs import DONE, JOB, JobStore

from perdure.kernel.documents.errors import UnknownJob
from perdure.kernel.documents.jobs.records import find_end
from perdure.kernel.documents.jobs.step import JobGrip
from perdure.kernel.documents.jobs.take import Taken
from perdure.kernel.documents.jobs.value import (
    Aborted,
    Failed,
)
from perdure.kernel.errors import Conflict, StaleWriter
from perdure.kernel.ids import Epoch, Holder

pytestmark = pytest.mark.stores


@pytest.fixture
def store() -> JobStore:
    return JobStore()


# 5: abort, from every phase


@pytest.mark.parametrize("phase", ["pending", "running", "stopped", "finishing"])
def test_an_abort_marks_a_job_in_any_phase(store, phase):
    store.start()
    if phase != "pending":
        grip = store.taken().grip
    if phase == "stopped":
        store.stop(grip)
    if phase == "finishing":
        store.settle(grip)

    assert store.abort() == "marked"

    assert (store.record.phase, store.record.abort) == (phase, "enough")


def test_an_abort_of_a_job_that_has_ended_is_terminal(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip)

    assert store.abort() == "terminal"
    assert store.told().outcome == DONE


def test_the_first_reason_of_an_abort_stands(store):
    store.start()

    assert [store.abort("first"), store.abort("second")] == ["marked", "marked"]
    assert store.record.abort == "first"


def test_an_abort_wakes_a_job_that_waits_for_its_time(store):
    store.start(due_at=store.fake.now + 86_400_000)

    store.abort()

    [hint] = store.hints()
    assert (store.record.due_at, hint.at) == (store.fake.now, store.fake.now)
    assert store.taken().task == "finish"


def test_whoever_runs_a_job_hears_of_its_abort(store):
    store.start(state={})
    grip = store.taken().grip
    store.abort("enough")

    assert store.renew(grip).abort == "enough"
    assert store.change(grip, {"read": 1}, 1).abort == "enough"


# 12: activation of what shall end


@pytest.mark.parametrize("phase", ["pending", "running", "stopped"])
def test_an_aborted_job_is_finished_without_a_run(store, phase):
    store.start()
    if phase != "pending":
        grip = store.taken().grip
    if phase == "stopped":
        store.stop(grip)
    store.abort("enough")
    store.died()

    taken = store.taken()

    assert (taken.task, taken.record.outcome) == ("finish", Failed(Aborted("enough")))


def test_an_abort_outweighs_the_last_of_the_deaths(store):
    store.start()
    store.killed(4)
    store.taken()
    store.abort("enough")
    store.died()

    taken = store.taken()

    assert (taken.task, taken.record.outcome) == ("finish", Failed(Aborted("enough")))
    assert taken.interrupted is False


# 13: activation of what is to be finished


def test_a_finish_that_was_given_back_is_resumed_and_not_counted_however_often(store):
    store.start()
    store.settled_and_left()
    for _ in range(10):
        store.stop(store.taken().grip)

    taken = store.taken()

    assert (taken.task, taken.record.outcome) == ("finish", DONE)
    assert (taken.record.restarts, taken.record.finish_failures) == (0, 0)


# 14: blocked


def test_a_blocked_job_stays_until_it_is_aborted(store):
    store.start()
    store.take(fingerprint="other")

    assert [store.take().why, store.take().why] == ["blocked", "blocked"]
    assert store.abort() == "marked"
    assert store.told().outcome == Failed(Aborted("enough"))
    assert (store.found(), store.hints()) == (None, [])


def test_a_blocked_job_goes_on_where_it_was_once_somebody_asks(store):
    store.start()
    store.settled_and_left()
    for failures in range(5):
        store.fail_finish(store.taken().grip, failures)
        store.later(60_000)

    told = store.retry()
    taken = store.taken()

    assert (told.phase, told.finish_failures) == ("finishing", 0)
    assert (taken.task, taken.record.outcome) == ("finish", DONE)


def test_a_job_blocked_by_its_version_runs_again_with_the_code_that_fits(store):
    store.start()
    store.take(version=2)
    store.retry()

    assert (store.taken().task, store.record.blocked) == ("run", None)


def test_a_job_that_is_not_blocked_is_not_retried(store):
    store.start()

    with pytest.raises(Conflict, match="one that is pending"):
        store.retry()

    assert store.record.phase == "pending"


def test_a_job_whose_finish_failed_keeps_its_outcome_when_it_is_dropped(store):
    store.start()
    store.settled_and_left()
    for failures in range(5):
        store.fail_finish(store.taken().grip, failures)
        store.later(60_000)

    store.abort()

    assert store.told().outcome == DONE


# 15: another version


@pytest.mark.parametrize("phase", ["pending", "running", "stopped", "finishing"])
@pytest.mark.parametrize("other", [{"version": 2}, {"fingerprint": "g"}], ids=str)
def test_a_job_that_other_code_has_written_is_blocked(store, phase, other):
    store.start()
    if phase != "pending":
        grip = store.taken().grip
    if phase == "stopped":
        store.stop(grip)
    if phase == "finishing":
        store.settle(grip)
    store.died()

    assert store.take(**other).why == "blocked"

    assert (store.record.phase, store.record.blocked) == ("blocked", "version")
    assert (store.record.restarts, store.hints()) == (0, [])


def test_an_aborted_job_of_other_code_is_dropped(store):
    store.start()
    store.abort("enough")

    assert store.take(version=2).why == "ended"

    assert store.told().outcome == Failed(Aborted("enough"))


# what nobody knows


def test_a_job_that_was_never_started_is_unknown(store):
    for ask in (store.take, store.abort, store.told):
        with pytest.raises(UnknownJob, match=r"no job notes\.import/j-1"):
            ask()


def test_an_end_is_kept_and_a_job_that_has_ended_is_not_taken(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip)

    taken = store.take()

    assert not isinstance(taken, Taken)
    assert (taken.why, taken.outcome) == ("ended", DONE)
    assert store.looked(lambda view: find_end(view, REF.partition, JOB)).epoch == 1


def test_whoever_was_overtaken_writes_nothing_more(store):
    store.start(state={"read": 0})
    old = store.taken().grip
    store.died()
    store.taken()
    before = store.record

    for ask in (
        lambda: store.change(old, {"read": 1}, 1),
        lambda: store.renew(old),
        lambda: store.settle(old),
        lambda: store.stop(old),
        lambda: store.fail_finish(old, 0),
        lambda: store.end(old),
    ):
        with pytest.raises(StaleWriter, match="Expected epoch 1 on job"):
            ask()

    assert (store.record, store.state()) == (before, {"read": 0})


def test_a_job_that_another_has_ended_is_not_ended_again(store):
    store.start()
    old = store.taken().grip
    store.died()
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip)

    for ask in (
        lambda: store.end(old),
        lambda: store.fail_finish(old, 0),
        lambda: store.stop(old),
        lambda: store.settle(old),
    ):
        with pytest.raises(StaleWriter, match="epoch 1"):
            ask()


def test_nobody_works_on_a_job_that_was_never_started(store):
    grip = JobGrip(Epoch(1), Holder("p"))

    for ask in (
        lambda: store.end(grip),
        lambda: store.fail_finish(grip, 0),
        lambda: store.stop(grip),
        lambda: store.settle(grip),
        lambda: store.change(grip, {}, 1),
        store.retry,
    ):
        with pytest.raises(UnknownJob):
            ask()


def test_a_finish_does_not_fail_before_there_is_an_outcome(store):
    store.start()
    grip = store.taken().grip

    with pytest.raises(Conflict, match="an outcome"):
        store.fail_finish(grip, 0)

    assert store.record.finish_failures == 0
