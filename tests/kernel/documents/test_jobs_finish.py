"""How a job is finished: each row of its table about finishes that succeed, fail, and die."""

from __future__ import annotations

import pytest
from tests.support.documents import REF
from tests.support.jobs import DONE, NOTE, JobStore

from perdure.kernel.documents.commit import TakeOwner
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import OwnerHeld
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import Holder

pytestmark = pytest.mark.stores


@pytest.fixture
def store() -> JobStore:
    return JobStore()


# 7: finish fails


def test_a_failed_finish_is_tried_again_after_a_pause_that_doubles(store):
    store.start()
    store.settled_and_left()
    pauses = []

    for failures in range(4):
        store.fail_finish(store.taken().grip, failures)
        pauses.append(store.record.due_at - store.fake.now)
        assert store.take().why == "waits"
        store.later(pauses[-1])

    assert pauses == [1_000, 2_000, 4_000, 8_000]
    assert (store.record.phase, store.record.finish_failures) == ("finishing", 4)


def test_a_finish_that_waits_for_its_pause_waits_on_when_its_job_is_aborted(store):
    store.start()
    store.settled_and_left()
    store.fail_finish(store.taken().grip, 0)
    due_at = store.record.due_at

    store.abort()

    assert store.record.due_at == due_at
    assert store.take().why == "waits"


def test_the_fifth_failure_of_a_finish_blocks_the_job(store):
    store.start()
    store.settled_and_left()

    for failures in range(5):
        store.fail_finish(store.taken().grip, failures)
        store.later(60_000)

    assert (store.record.phase, store.record.blocked) == ("blocked", "finish_failed")
    assert store.told().finish_error.message == "failure 4"
    assert store.hints() == []
    assert store.take().why == "blocked"


def test_a_finish_that_failed_four_times_raised_or_killed_succeeds(store):
    store.start()
    store.settled_and_left()
    for failures in (0, 2):
        store.fail_finish(store.taken().grip, failures)
        store.later(60_000)
        store.taken()  # this one dies in its finish
        store.died()

    taken = store.taken()
    store.end(taken.grip)

    assert taken.record.finish_failures == 4
    assert store.told().outcome == DONE


def test_a_process_that_dies_in_a_finish_has_failed_it(store):
    store.start()
    store.settle(store.taken().grip)
    store.died()

    taken = store.taken()

    assert (taken.task, taken.record.outcome) == ("finish", DONE)
    assert (taken.record.restarts, taken.record.finish_failures) == (0, 1)
    assert store.told().finish_error.code == "finish_interrupted"


def test_the_fifth_process_that_dies_in_a_finish_blocks_the_job(store):
    store.start()
    store.settled_and_left()
    for failures in range(5):
        assert store.taken().record.finish_failures == failures
        store.died()

    assert store.take().why == "blocked"

    assert (store.record.phase, store.record.blocked) == ("blocked", "finish_failed")
    assert (store.record.claim.holder, store.hints()) == (None, [])
    assert (store.retry().finish_failures, store.taken().task) == (0, "finish")


def test_a_death_that_makes_the_outcome_is_none_of_the_finish(store):
    store.start()
    store.killed(5)

    taken = store.taken()

    assert (taken.task, taken.record.finish_failures) == ("finish", 0)


@pytest.mark.parametrize("is_killed", [False, True], ids=["raised", "killed"])
def test_an_aborted_job_whose_finish_failed_five_times_is_dropped_and_not_blocked(store, is_killed):
    store.start()
    store.settled_and_left()
    for failures in range(4):
        store.fail_finish(store.taken().grip, failures)
        store.later(60_000)
    grip = store.taken().grip
    store.abort()

    if is_killed:
        store.died()
        assert store.take().why == "ended"
    else:
        store.fail_finish(grip, 4)

    assert (store.told().phase, store.told().outcome) == ("ended", DONE)
    assert (store.found(), store.hints()) == (None, [])


# 8: finish succeeds


def test_the_end_takes_record_and_state_away_with_what_finish_wrote(store):
    store.start(state={"read": 0})
    grip = store.taken().grip
    store.settle(grip)
    before = store.fake.commits

    store.end(grip, CreateDocument(NOTE, "none", base(1, {"text": "read"})))

    assert (store.found(), store.state(), store.hints()) == (None, None, [])
    assert store.note() is not None
    assert store.fake.commits == before + 1
    assert store.told().outcome == DONE


def test_what_a_finish_writes_fails_with_the_end(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.ask(TakeOwner(REF, "notes", Holder("elsewhere"), 60_000))

    with pytest.raises(OwnerHeld):
        store.end(grip, CreateDocument(NOTE, "none", base(1, {})))

    assert store.record.phase == "finishing"
    assert store.note() is None


def test_a_job_needs_no_grip_on_the_owner_of_its_documents(store):
    store.ask(TakeOwner(REF, "notes", Holder("elsewhere"), 60_000))

    store.start(state={"read": 0})
    grip = store.taken().grip
    store.change(grip, {"read": 1}, 1)
    store.settle(grip)
    store.end(grip)

    assert store.told().phase == "ended"


def test_a_job_without_an_outcome_does_not_end(store):
    store.start()

    with pytest.raises(Conflict, match="an outcome"):
        store.end(store.taken().grip)

    assert store.record.phase == "running"
