"""A job's requests asked again after a lost answer do nothing twice; its hint lies where it must."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.documents import REF
from tests.support.jobs import DONE, JOB, LEASE_MS, NOTE, JobStore

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.errors import InvalidCursor, NeedsBase
from perdure.kernel.documents.jobs.describe import DescribeJob, ListJobs
from perdure.kernel.documents.jobs.hints import HintJob, JobWakes, RestJob
from perdure.kernel.documents.jobs.records import JobAddress, hint_of
from perdure.kernel.documents.jobs.value import VALUE_BYTES_MAX, Done
from perdure.kernel.documents.jobs.work import ChangeJobState, StateChange
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import Conflict, InvalidId, InvalidValue, NotFound, StaleWriter, TooLarge
from perdure.kernel.ids import DocumentStoreId, Instant, JobId
from perdure.kernel.places import MINUTE_MS, WAKE_SHARDS

pytestmark = pytest.mark.stores


@pytest.fixture
def store() -> JobStore:
    return JobStore()


def seq(store):
    return store.fake.held(store_head_key(REF.partition)).seq


def asked_again(store):
    """Ask again what was asked last, and return the answer; nothing is committed by that."""
    before = seq(store)
    answer = store.ask(store.sent)
    assert seq(store) == before
    return answer


def test_a_start_asked_again_finds_the_job(store):
    first = store.start(state={"read": 0})

    again = asked_again(store)

    assert (first.existing, again.existing) == (False, True)
    assert again.info == first.info


def test_a_start_after_the_end_finds_the_outcome_and_runs_nothing(store):
    store.start()
    start = store.sent
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip)

    again = store.ask(start)

    assert (again.existing, again.info.phase, again.info.outcome) == (True, "ended", DONE)
    assert store.found() is None


@pytest.mark.parametrize("has_ended", [False, True], ids=["living", "ended"])
@pytest.mark.parametrize("other", [{"args": {"path": "b"}}, {"key": "k"}], ids=str)
def test_the_same_id_with_something_else_is_a_conflict(store, has_ended, other):
    store.start()
    if has_ended:
        grip = store.taken().grip
        store.settle(grip)
        store.end(grip)
    before = seq(store)

    with pytest.raises(Conflict, match="the arguments it was started with"):
        store.start(**other)

    assert seq(store) == before


def test_the_same_id_under_another_name_is_another_job(store):
    store.start()

    store.job = JobAddress("notes", "notes.export", JobId("j-1"))

    assert store.start().existing is False


def test_a_taking_asked_again_counts_no_restart(store):
    store.start()
    store.killed(1)
    first = store.taken(holder="p")

    assert asked_again(store) == first
    assert first.record.restarts == 1


def test_the_report_of_an_interrupted_job_survives_a_lost_answer(store):
    store.start()
    store.killed(5)
    store.take(holder="p")

    assert asked_again(store).interrupted


def test_a_delta_of_the_state_asked_again_is_applied_once(store):
    store.start(state={"text": ""})
    grip = store.taken().grip
    change = StateChange(delta(1, [["a", ["text"], "x"]]), 1)
    store.ask(ChangeJobState(REF, JOB, store.token(), grip=grip, change=change))

    asked_again(store)

    assert store.state() == {"text": "x"}


def test_an_outcome_asked_again_is_settled_once(store):
    store.start(state={"text": ""})
    grip = store.taken().grip
    store.settle(grip, DONE, StateChange(delta(1, [["a", ["text"], "x"]]), 1))

    assert asked_again(store).outcome == DONE
    assert store.state() == {"text": "x"}


def test_a_failure_of_a_finish_asked_again_is_counted_once(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.fail_finish(grip, 0)

    assert asked_again(store).finish_failures == 1


def test_an_end_asked_again_ends_nothing_more(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip, CreateDocument(NOTE, "none", base(1, {})))

    assert asked_again(store).outcome == DONE


def test_a_stop_asked_again_stops_nobody_else(store):
    store.start()
    store.stop(store.taken(holder="p").grip)
    stop = store.sent
    asked_again(store)
    store.take(holder="q")

    with pytest.raises(StaleWriter, match="epoch 2"):
        store.ask(stop)

    assert store.record.claim.holder == "q"


def test_an_abort_asked_again_is_one_mark(store):
    store.start()
    store.abort()

    assert asked_again(store) == "marked"


def test_a_holder_that_took_the_job_again_writes_under_its_new_epoch_alone(store):
    store.start(state={"read": 0})
    old = store.taken(holder="p").grip
    store.died()
    new = store.taken(holder="p").grip

    with pytest.raises(StaleWriter, match="Expected epoch 1"):
        store.change(old, {"read": 1}, 1)
    store.change(new, {"read": 2}, 1)

    assert store.state() == {"read": 2}


# hints


def minutes(store):
    return [hint.at // MINUTE_MS for hint in store.hints()]


def test_the_hint_of_a_job_lies_where_somebody_must_look(store):
    now = store.fake.now
    store.start(due_at=now + 3 * MINUTE_MS)
    waiting = minutes(store)
    store.later(3 * MINUTE_MS)
    grip = store.taken().grip
    running = minutes(store)
    store.later(MINUTE_MS)
    store.renew(grip)
    renewed = minutes(store)
    store.stop(grip)

    first = now // MINUTE_MS
    assert waiting == [first + 3]
    assert running == [(now + 3 * MINUTE_MS + LEASE_MS) // MINUTE_MS]
    assert renewed == [(now + 4 * MINUTE_MS + LEASE_MS) // MINUTE_MS]
    assert minutes(store) == [first + 4]


def test_hints_are_found_in_their_shard_once_their_minute_has_come(store):
    store.start(due_at=store.fake.now + 2 * MINUTE_MS)

    def found(through):
        asked = [JobWakes(shard, Instant(through)) for shard in range(WAKE_SHARDS)]
        return [hint.address for each in asked for hint in store.ask(each)]

    assert found(store.fake.now) == []
    assert found(store.fake.now + 2 * MINUTE_MS) == [JOB]


def test_a_hint_says_what_its_job_says(store):
    store.start(due_at=store.fake.now + 1)
    [hint] = store.hints()

    def rest():
        return store.ask(RestJob(REF, JOB, hint.sort))

    waits = rest()
    store.later(1)
    due = rest()
    store.take()
    [later] = store.hints()
    held = store.ask(RestJob(REF, JOB, later.sort))
    store.died()
    crashed = store.ask(RestJob(REF, JOB, later.sort))

    assert (waits, due, held, crashed) == ("waits", "due", "held", "due")


def test_a_hint_that_no_job_names_is_taken_away(store):
    stale = hint_of(REF, JOB, Instant(0))
    store.fake.put(stale)

    assert store.ask(RestJob(REF, JOB, stale.sort)) == "rests"

    assert store.hints() == []


def test_a_job_whose_hint_is_gone_is_found_again(store):
    store.start()
    store.later(10 * MINUTE_MS)
    [hint] = store.hints()
    del store.fake.records[hint.key]

    missing = [store.ask(HintJob(REF, JOB)), store.ask(HintJob(REF, JOB))]

    assert missing == [True, False]
    assert store.hints() == [hint]
    assert store.ask(RestJob(REF, JOB, hint.sort)) == "due"


# what is told, and what is refused


def test_jobs_are_listed_by_name_and_phase_a_page_at_a_time(store):
    for number in range(5):
        name = "notes.import" if number < 4 else "notes.export"
        store.job = JobAddress("notes", name, JobId(f"j-{number}"))
        store.start()
    store.job = JobAddress("notes", "notes.import", JobId("j-2"))
    store.take()

    def ids(**asked):
        found, behind = [], None
        while True:
            page = store.ask(ListJobs(REF, "notes", behind=behind, **asked).checked())
            found += [each.job.job for each in page.jobs]
            behind = page.behind
            if behind is None:
                return found

    assert ids(limit=2) == ["j-0", "j-1", "j-2", "j-3", "j-4"]
    assert ids(name="notes.import", limit=2) == ["j-0", "j-1", "j-2", "j-3"]
    assert ids(phase="running", limit=1) == ["j-2"]
    assert ids(phase="ended") == []


def test_a_job_that_has_ended_is_listed_among_those(store):
    store.start()
    grip = store.taken().grip
    store.settle(grip)
    store.end(grip)

    page = store.ask(ListJobs(REF, "notes", phase="ended"))

    assert [(each.job, each.outcome) for each in page.jobs] == [(JOB, DONE)]
    assert store.ask(ListJobs(REF, "notes")).jobs == ()


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"phase": "asleep"}, InvalidValue),
        ({"limit": 0}, InvalidValue),
        ({"limit": 101}, InvalidValue),
        ({"behind": -1}, InvalidCursor),
    ],
    ids=str,
)
def test_a_listing_of_what_cannot_be_is_refused(wrong, refusal):
    with pytest.raises(refusal):
        ListJobs(REF, "notes", **wrong).checked()


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"args": {"path": "x" * VALUE_BYTES_MAX}}, TooLarge),
        ({"args": {"path": float("nan")}}, InvalidValue),
        ({"args": {"path": b""}}, InvalidValue),
        ({"due_at": -1}, InvalidValue),
        ({"due_at": 1.5}, InvalidValue),
        ({"version": 0}, InvalidValue),
        ({"key": "k" * 2_001}, TooLarge),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value.code,
)
def test_a_start_of_what_cannot_be_kept_is_refused(store, wrong, refusal):
    before = store.fake.commits

    with pytest.raises(refusal):
        store.start(**wrong)

    assert store.fake.commits == before


def test_a_first_state_is_a_base(store):
    store.start()

    with pytest.raises(NeedsBase):
        replace(store.sent, state=delta(1, [])).checked()


@pytest.mark.parametrize("job", [("", "n", "j"), ("o", "a b", "j"), ("o", "n", "a/b")], ids=str)
def test_a_name_that_no_job_may_have_is_refused(job):
    owner, name, id = job

    with pytest.raises(InvalidId):
        JobAddress(owner, name, JobId(id)).checked()


def test_a_result_that_is_too_large_is_no_outcome(store):
    store.start()
    grip = store.taken().grip

    with pytest.raises(TooLarge):
        store.settle(grip, Done("x" * VALUE_BYTES_MAX))

    assert store.record.phase == "running"


def test_a_store_that_is_not_there_has_no_jobs(store):
    nowhere = DocumentStoreRef(REF.storage, DocumentStoreId("nowhere"))

    for request in (DescribeJob(nowhere, JOB), ListJobs(nowhere, "notes")):
        with pytest.raises(NotFound):
            store.ask(request)
