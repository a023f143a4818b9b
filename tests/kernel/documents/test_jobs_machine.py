"""Whatever is asked of a job, by whom and in which order: what is promised of it holds after each."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.jobs import DONE, LEASE_MS, NOTE, THREW, JobStore

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.jobs.records import find_end
from perdure.kernel.documents.jobs.take import NotTaken
from perdure.kernel.documents.jobs.value import (
    FINISH_FAILURES_MAX,
    RESTARTS_MAX,
    Aborted,
    Failed,
    RestartLimit,
    minute_of,
)
from perdure.kernel.documents.jobs.work import StateChange
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import find_document
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import Conflict, FenceHeld, Refused, StaleWriter

pytestmark = pytest.mark.stores


def one_more(revision):
    return StateChange(delta(1, [["a", ["marks"], "x"]]), revision)


class Lives(RuleBasedStateMachine):
    """Processes that take a job, work, die, come back late, and never hear some of their answers."""

    def __init__(self) -> None:
        super().__init__()
        self.store = JobStore()
        self.hands = []
        """What each process that ever took the job was given."""

        self.marks = 0
        """Changes of the state that were answered."""

        self.restarts = 0
        self.failures = 0
        """Finishes that failed, or whose process was gone."""

        self.outcome = None
        self.epoch = 0
        self.was_noted = False
        self.has_ended = False

    @initialize()
    def start(self):
        self.store.start(state={"marks": ""})

    # what people ask

    @rule(is_same=st.booleans())
    def start_again(self, is_same):
        if is_same:
            assert self.store.start(state={"marks": ""}).existing
        else:
            with pytest.raises(Conflict):
                self.store.start(args={"path": "other"})

    @rule()
    def abort(self):
        was_blocked = not self.has_ended and self.store.record.phase == "blocked"
        assert self.store.abort() == ("terminal" if self.has_ended else "marked")
        self.has_ended |= was_blocked
        self.again()

    @rule()
    def retry(self):
        if not self.has_ended and self.store.record.phase == "blocked":
            self.store.retry()
            self.failures = 0
        else:
            with pytest.raises(Refused):
                self.store.retry()

    # time

    @rule(ms=st.sampled_from([1, 900, 5_000, LEASE_MS, 70_000]))
    def time_passes(self, ms):
        self.store.later(ms)

    # processes

    @rule(
        resume=st.sampled_from(["rerun", "rerun", "rerun", "abandon"]),
        version=st.sampled_from([1] * 9 + [2]),
    )
    def take(self, resume, version):
        before = None if self.has_ended else self.store.record
        try:
            taken = self.store.take(resume=resume, version=version)
        except FenceHeld:
            assert before.claim.is_held(self.store.fake.now)
            return
        self.again()
        died = before is not None and before.phase == "finishing" and before.claim.holder
        self.failures += bool(died and version == 1)
        if isinstance(taken, NotTaken):
            self.has_ended |= taken.why == "ended"
            assert taken.why != "blocked" or self.store.record.phase == "blocked"
            return
        self.hands.append(taken)
        if before.phase == "running":
            self.restarts += 1
        assert taken.grip.epoch == before.claim.epoch + 1
        assert taken.interrupted == (taken.record.interrupted_at == taken.grip.epoch)
        if taken.interrupted:
            assert taken.record.outcome == Failed(RestartLimit(RESTARTS_MAX))
        if taken.task == "run":
            assert before.abort is None
            assert taken.state.value == {"marks": "x" * self.marks}

    @precondition(lambda self: self.hands)
    @rule(which=st.integers(0, 3), act=st.sampled_from(["change", "settle", "stop", "renew"]))
    def run_on(self, which, act):
        """Let one of the last processes go on with its run, whether or not it is still its own."""
        taken = self.hands[-1 - which % len(self.hands)]
        grip, revision = taken.grip, self.revision()
        acts = {
            "change": lambda: self.store.change(grip, {"marks": "x" * (self.marks + 1)}, revision),
            "settle": lambda: self.store.settle(grip, DONE, one_more(revision)),
            "stop": lambda: self.store.stop(grip, one_more(revision)),
            "renew": lambda: self.store.renew(grip),
        }
        if not self.owns(taken) or (act in ("change", "settle") and not self.runs()):
            before = self.seen()
            try:
                acts[act]()
            except (StaleWriter, Conflict):
                pass
            else:  # it was the answer to what it had done before
                assert act in ("stop", "settle")
            assert self.seen() == before
            return
        ran = self.runs()
        acts[act]()
        self.marks += ran and act != "renew"
        self.restarts = 0 if act == "change" else self.restarts
        if act != "renew":  # a lease may be made longer as often as one likes
            self.again()

    @precondition(lambda self: self.hands)
    @rule(which=st.integers(0, 3), fails=st.booleans())
    def finish(self, which, fails):
        taken = self.hands[-1 - which % len(self.hands)]
        owns = self.owns(taken) and self.store.record.outcome is not None
        before = self.seen()
        note = CreateDocument(NOTE, "none", base(1, {}))
        failures = 0 if self.has_ended else self.store.record.finish_failures
        try:
            if fails:
                self.store.fail_finish(taken.grip, failures)
            else:
                self.store.end(taken.grip, note)
        except (StaleWriter, Conflict):
            assert not owns
            assert self.seen() == before
            return
        if owns and not fails:
            self.has_ended = self.was_noted = True
        elif owns:
            self.failures += 1
            self.has_ended = self.found() is None
        elif not owns:
            assert self.seen() == before
        self.again()

    # what holds

    @invariant()
    def outcome_is_never_replaced(self):
        found, end = self.found(), self.end()
        outcome = end.outcome if end is not None else found.record.outcome
        if self.outcome is not None:
            assert outcome == self.outcome
        self.outcome = outcome
        assert outcome is None or outcome in (DONE, THREW) or isinstance(outcome, Failed)

    @invariant()
    def record_is_one_of_its_phases(self):
        found = self.found()
        assert (found is None) == (self.end() is not None) == self.has_ended
        if found is None:
            return
        record = found.record
        assert record.claim.epoch >= self.epoch
        self.epoch = record.claim.epoch
        assert (record.phase == "running") <= (record.claim.holder is not None)
        assert (record.phase in ("pending", "stopped", "blocked")) <= (record.claim.holder is None)
        assert (record.phase == "finishing") <= (record.outcome is not None)
        assert (record.phase == "blocked") == (record.blocked is not None)
        assert record.restarts == self.restarts <= RESTARTS_MAX
        assert record.finish_failures == self.failures <= FINISH_FAILURES_MAX
        assert record.phase != "blocked" or record.abort is None

    @invariant()
    def hint_lies_where_somebody_must_look_and_nowhere_else(self):
        found = self.found()
        at = None if found is None else found.record.wakes_at(self.store.fake.now)
        lies = [minute_of(hint.at) for hint in self.store.hints()]
        assert lies == ([] if at is None else [minute_of(at)])

    @invariant()
    def finish_has_written_once(self):
        assert (self.store.note() is not None) == self.was_noted

    @invariant()
    def state_is_what_was_answered(self):
        assert self.store.state() == (None if self.has_ended else {"marks": "x" * self.marks})

    @invariant()
    def aborted_jobs_say_so(self):
        end = self.end()
        if end is not None and not self.was_noted and self.outcome is None:
            assert isinstance(end.outcome.error, Aborted)

    # how it is looked at

    def again(self):
        """Ask the same once more, as whoever lost the answer does: nothing happens."""
        before = self.seen()
        self.store.ask(self.store.sent)
        assert self.seen() == before

    def seen(self):
        return self.store.fake.held(store_head_key(self.store.sent.ref.partition)).seq

    def found(self):
        return self.store.found()

    def end(self):
        ref, job = self.store.sent.ref, self.store.job
        return self.store.looked(lambda view: find_end(view, ref.partition, job))

    def owns(self, taken):
        found = self.found()
        claim = None if found is None else found.record.claim
        return claim is not None and (claim.epoch, claim.holder) == (
            taken.grip.epoch,
            taken.grip.holder,
        )

    def runs(self):
        return self.found().record.phase == "running"

    def revision(self):
        ref = self.store.sent.ref
        address: Address = self.store.job.state
        document = self.store.looked(lambda view: find_document(view, ref.partition, address))
        return 1 if document is None else document.revision


def lived(lives):
    run_state_machine_as_test(
        Lives, settings=settings(max_examples=lives, stateful_step_count=30, deadline=None)
    )


def test_a_job_keeps_its_promises_in_a_few_lives():
    lived(12)


@pytest.mark.slow
def test_a_job_keeps_its_promises_in_many_lives():
    lived(400)
