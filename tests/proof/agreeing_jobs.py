"""The rules of those who start and end jobs, and of the one who does their work."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.proof.agreeing import LEASE_MS, few, lots
from tests.proof.agreeing_documents import NOTES, Papers

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.jobs.abort import AbortJob, RetryJob
from perdure.kernel.documents.jobs.describe import DescribeJob, ListJobs
from perdure.kernel.documents.jobs.finish import EndJob, FailFinish
from perdure.kernel.documents.jobs.hints import HintJob, JobWakes, RestJob
from perdure.kernel.documents.jobs.records import JobAddress
from perdure.kernel.documents.jobs.start import StartJob
from perdure.kernel.documents.jobs.take import TakeJob
from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.jobs.work import (
    ChangeJobState,
    RenewJob,
    SettleJob,
    StateChange,
    StopJob,
)
from perdure.kernel.documents.rows import PutRow
from perdure.kernel.ids import Holder, Instant, JobId

WORKERS = st.sampled_from(["ann", "ann", "eve"])


class Working(Papers):
    """What is asked of jobs."""

    def job(self, lot: int) -> JobAddress:
        return JobAddress("ann", "tidy", JobId(f"j{lot}"))

    @rule(lot=few, number=lots)
    def start_a_job(self, lot: int, number: int) -> None:
        due = (None, Instant(self.three.now + LEASE_MS))[number % 5 == 0]
        state = base(1, {"n": 0}) if number % 3 else None
        args = {"n": number % 2}
        ref, job = self.papers(lot), self.job(lot)
        asked = {"version": 1, "fingerprint": "f", "args": args, "due_at": due, "state": state}
        self.ask(StartJob(ref, job, self.attempt(), **asked))

    @rule(lot=few, holder=WORKERS, number=lots, again=st.booleans())
    def do_a_job(self, lot: int, holder: str, number: int, *, again: bool) -> None:
        """Take a job and do one thing with it, now and then twice."""
        ref, job = self.papers(lot), self.job(lot)
        version = 1 + (number % 11 == 10)
        fingerprint = "other" if number % 13 == 12 else "f"
        resume: Any = "abandon" if number % 7 == 6 else "rerun"
        taken = self.ask(
            TakeJob(
                ref,
                job,
                self.attempt(),
                version=version,
                fingerprint=fingerprint,
                resume=resume,
                holder=Holder(holder),
                lease_ms=LEASE_MS,
            )
        )
        grip = getattr(taken, "grip", None)
        if grip is None:
            return
        changed = StateChange(delta(1, [["s", ["n"], number]]), 1 + number % 2)
        row = {"id": number % 5, "by": "ann", "done": True, "text": None}
        work = {"job": job, "grip": grip}
        if taken.task == "finish":
            end = EndJob(ref, attempt=self.attempt(), staged=(PutRow(NOTES, row),), **work)
            asked: Any = (end, FailFinish(ref, attempt=self.attempt(), failures=0, **work))
        else:
            asked = (
                ChangeJobState(ref, attempt=self.attempt(), change=changed, **work),
                SettleJob(ref, attempt=self.attempt(), outcome=Done({"n": number}), **work),
                StopJob(ref, attempt=self.attempt(), **work),
                RenewJob(ref, attempt=self.attempt(), lease_ms=LEASE_MS, **work),
            )
        wanted = asked[number % len(asked)]
        self.ask(wanted)
        if again:
            self.ask(wanted)

    @rule(lot=few)
    def abort_a_job(self, lot: int) -> None:
        self.ask(AbortJob(self.papers(lot), self.job(lot), self.attempt()))

    @rule(lot=few)
    def retry_a_job(self, lot: int) -> None:
        self.ask(RetryJob(self.papers(lot), self.job(lot), self.attempt()))
        self.ask(HintJob(self.papers(lot), self.job(lot)))

    @rule(lot=few, number=lots)
    def look_for_jobs(self, lot: int, number: int) -> None:
        ref = self.papers(lot)
        shard = int(ref.wake.removeprefix("wake/d"))
        for hint in self.ask(JobWakes(shard, Instant(self.three.now + 2 * LEASE_MS))) or ():
            self.ask(RestJob(hint.ref, hint.address, hint.sort))
        phase = (None, "running", "pending")[number % 3]
        asked = (
            DescribeJob(ref, self.job(lot)),
            ListJobs(ref, "ann", phase=phase, limit=1 + number % 2),
        )
        self.three.ask_at_once(asked)
