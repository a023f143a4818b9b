"""How a job runs: each row of its table up to its outcome, and what one commit writes."""

from __future__ import annotations

import pytest
from tests.support.jobs import DONE, THREW, JobStore

from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import RevisionDiffers
from perdure.kernel.documents.jobs.step import JobGrip
from perdure.kernel.documents.jobs.take import NotTaken
from perdure.kernel.documents.jobs.value import (
    RESTARTS_MAX,
    Aborted,
    Failed,
    RestartLimit,
)
from perdure.kernel.documents.jobs.work import StateChange
from perdure.kernel.errors import Conflict, FenceHeld
from perdure.kernel.ids import Epoch, Holder

pytestmark = pytest.mark.stores


@pytest.fixture
def store() -> JobStore:
    return JobStore()


# 1: start


def test_a_start_writes_record_and_first_state_in_one_commit(store):
    before = store.fake.commits

    started = store.start(state={"read": 0})

    assert (started.existing, store.record.phase, store.record.restarts) == (False, "pending", 0)
    assert store.state() == {"read": 0}
    assert store.fake.commits == before + 1
    assert store.last_writes() == ["document.create", "document.create"]


# 2: reservation


def test_a_job_runs_from_the_commit_that_reserves_it(store):
    store.start(state={"read": 0})

    taken = store.taken(holder="p")

    assert (taken.task, taken.record.phase, taken.record.restarts) == ("run", "running", 0)
    assert (taken.state.value, taken.grip) == ({"read": 0}, JobGrip(Epoch(1), Holder("p")))
    assert store.record.phase == "running"


def test_a_crash_between_reservation_and_run_counts(store):
    store.start()
    store.take()
    store.died()

    assert store.taken().record.restarts == 1


def test_nobody_takes_a_job_that_another_has_in_hand(store):
    store.start()
    store.take(holder="p")

    with pytest.raises(FenceHeld, match="for 30000 ms more"):
        store.take(holder="q")

    assert store.record.claim.epoch == 1


def test_a_claim_of_a_wrong_clock_keeps_nobody_out(store):
    store.start()
    store.later(365 * 86_400_000)
    store.take(holder="p")

    store.later(-365 * 86_400_000)

    assert store.take(holder="q").grip.epoch == 2


def test_a_job_is_not_taken_before_it_is_due(store):
    store.start(due_at=store.fake.now + 5_000)

    early = store.take()
    store.later(5_000)

    assert isinstance(early, NotTaken)
    assert early.why == "waits"
    assert store.taken().task == "run"


# 3: change of the state


def test_a_change_writes_the_state_alone_while_nothing_was_counted(store):
    store.start(state={"read": 0})
    taken = store.taken()

    store.change(taken.grip, {"read": 1}, taken.state.revision)

    assert store.state() == {"read": 1}
    assert store.last_writes() == ["document.change"]


def test_a_change_forgets_the_restarts_in_the_same_commit(store):
    store.start(state={"read": 0})
    store.killed(2)
    taken = store.taken()

    record = store.change(taken.grip, {"read": 1}, taken.state.revision)

    assert (taken.record.restarts, record.restarts, store.record.restarts) == (2, 0, 0)
    assert store.last_writes() == ["document.change", "document.change"]


def test_a_change_on_an_old_revision_is_refused(store):
    store.start(state={"read": 0})
    grip = store.taken().grip
    store.change(grip, {"read": 1}, 1)
    store.change(grip, {"read": 2}, 2)

    with pytest.raises(RevisionDiffers, match="revision 3"):
        store.change(grip, {"read": 9}, 1)

    assert store.state() == {"read": 2}


# 6: the run settles


@pytest.mark.parametrize("outcome", [DONE, THREW], ids=["done", "threw"])
def test_an_outcome_is_written_with_the_state_that_was_held_back(store, outcome):
    store.start(state={"read": 0})
    grip = store.taken().grip

    store.settle(grip, outcome, StateChange(base(1, {"read": 7}), 1))

    assert (store.record.phase, store.record.outcome) == ("finishing", outcome)
    assert store.state() == {"read": 7}
    assert store.last_writes() == ["document.change", "document.change"]


def test_an_outcome_is_not_replaced_by_an_abort(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.abort()
    store.died()

    taken = store.taken()

    assert (taken.task, taken.record.outcome) == ("finish", DONE)


def test_an_outcome_after_the_mark_of_an_abort_stands(store):
    store.start()
    grip = store.taken().grip
    store.abort()

    store.settle(grip, DONE)

    assert store.record.outcome == DONE


def test_a_second_outcome_is_refused(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip, DONE)

    with pytest.raises(Conflict):
        store.settle(grip, THREW)

    assert store.record.outcome == DONE


# 9: clean stop


def test_a_clean_stop_writes_the_held_state_and_gives_the_job_back(store):
    store.start(state={"read": 0})
    grip = store.taken().grip
    before = store.fake.commits

    store.stop(grip, StateChange(base(1, {"read": 4}), 1))

    assert (store.record.phase, store.record.claim.holder) == ("stopped", None)
    assert store.state() == {"read": 4}
    assert store.fake.commits == before + 1


def test_a_close_is_not_a_crash(store):
    store.start()

    for _ in range(10):
        store.stop(store.taken().grip)

    assert (store.record.restarts, store.record.phase) == (0, "stopped")


def test_a_job_that_is_to_be_finished_stays_so_when_its_process_stops(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)

    store.stop(grip)

    assert (store.record.phase, store.record.outcome) == ("finishing", DONE)
    assert store.taken().task == "finish"


# 10: activation after a crash


def test_the_fifth_death_without_a_change_ends_a_job_and_is_reported_once(store):
    store.start()
    store.killed(RESTARTS_MAX)

    taken = store.taken()
    store.died()
    again = store.taken()

    assert (taken.task, taken.interrupted) == ("finish", True)
    assert taken.record.outcome == Failed(RestartLimit(5))
    assert (again.task, again.interrupted, again.record.restarts) == ("finish", False, 5)


def test_one_change_of_the_state_begins_the_count_anew(store):
    store.start(state={"read": 0})
    store.killed(4)
    store.change(store.taken().grip, {"read": 1}, 1)
    store.died()
    store.killed(3)

    taken = store.taken()

    assert (taken.task, taken.record.restarts) == ("run", 4)


def test_a_job_that_is_to_be_abandoned_fails_when_its_process_is_gone(store):
    store.start()
    store.take(resume="abandon")
    store.died()

    taken = store.taken(resume="abandon")

    assert (taken.task, taken.record.outcome) == ("finish", Failed(Aborted("restart")))


# 11: activation of what waits


@pytest.mark.parametrize("is_stopped", [False, True], ids=["pending", "stopped"])
def test_what_waits_runs_without_a_count(store, is_stopped):
    store.start()
    if is_stopped:
        store.stop(store.taken().grip)

    taken = store.taken()

    assert (taken.task, taken.record.restarts) == ("run", 0)


def test_a_stopped_job_that_is_to_be_abandoned_fails_and_a_fresh_one_runs(store):
    store.start()
    fresh = store.taken(resume="abandon")
    store.stop(fresh.grip)

    taken = store.taken(resume="abandon")

    assert fresh.task == "run"
    assert taken.record.outcome == Failed(Aborted("restart"))
