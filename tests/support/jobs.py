"""Jobs for tests: one store on a dictionary, a clock that only tests move, requests by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support.authority import FakeAuthority
from tests.support.documents import LINEAGE, REF

from perdure.kernel.documents.commit import DocumentsRequest
from perdure.kernel.documents.content import base
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.jobs.abort import AbortJob, RetryJob
from perdure.kernel.documents.jobs.describe import DescribeJob, JobInfo
from perdure.kernel.documents.jobs.finish import EndJob, FailFinish
from perdure.kernel.documents.jobs.records import (
    FoundJob,
    JobAddress,
    JobWake,
    find_job,
)
from perdure.kernel.documents.jobs.start import StartJob
from perdure.kernel.documents.jobs.step import JobGrip
from perdure.kernel.documents.jobs.take import NotTaken, TakeJob, Taken
from perdure.kernel.documents.jobs.value import Done, Failed, Outcome, Resume, Threw, WireError
from perdure.kernel.documents.jobs.work import (
    ChangeJobState,
    RenewJob,
    SettleJob,
    StateChange,
    StopJob,
)
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import find_document, load_document
from perdure.kernel.documents.records import logged_key, store_head_key
from perdure.kernel.ids import Holder, Instant, JobId, Token
from perdure.kernel.view import Decision, Reads, Request, View

T = TypeVar("T")

JOB = JobAddress("notes", "notes.import", JobId("j-1"))
LEASE_MS = 30_000
DONE = Done({"count": 3})
THREW = Failed(Threw(WireError("value_error", "no such path", {"path": "a"})))
NOTE = Address("notes", "chord", "note", "1")


@dataclass(frozen=True)
class Look(DocumentsRequest):
    """Asks a function for what it sees."""

    look: Callable[[View], Any]

    def reads(self) -> Reads:
        return Reads()

    def decide(self, view: View, now: Instant) -> Decision[Any]:
        return Decision(self.look(view))


def state_seen(job: JobAddress) -> Callable[[View], Any]:
    """Return what looks up what the state of a job says, None without one."""
    store = REF.partition

    def look(view: View) -> Any:
        document = find_document(view, store, job.state)
        loaded = None if document is None else load_document(view, store, document.id)
        return None if loaded is None else loaded.value

    return look


@dataclass
class JobStore:
    """A store with jobs, as its requests see it."""

    fake: FakeAuthority = field(default_factory=FakeAuthority)
    job: JobAddress = JOB
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    sent: Request[Any] | None = None
    """What was asked last."""

    def __post_init__(self) -> None:
        self.ask(CreateDocumentStore(REF, LINEAGE).checked())

    def ask(self, request: Request[T]) -> T:
        self.sent = request
        coroutine = self.fake.execute(request)
        try:
            coroutine.send(None)
        except StopIteration as answer:
            found: T = answer.value
            return found
        raise AssertionError("the fake never waits")

    def token(self) -> Token:
        return Token(f"job-{next(self.numbers)}")

    def later(self, ms: int) -> None:
        self.fake.now = Instant(self.fake.now + ms)

    def died(self) -> None:
        """Let a process be gone for so long that its claim is over."""
        self.later(LEASE_MS)

    def start(self, *, state: Any = None, **more: Any) -> Any:
        content = None if state is None else base(1, state)
        asked = {"version": 1, "fingerprint": "f", "args": {"path": "a"}, **more}
        return self.ask(StartJob(REF, self.job, self.token(), state=content, **asked).checked())

    def take(
        self,
        holder: str | None = None,
        *,
        resume: Resume = "rerun",
        version: int = 1,
        fingerprint: str = "f",
    ) -> Taken | NotTaken:
        return self.ask(
            TakeJob(
                REF,
                self.job,
                self.token(),
                version=version,
                fingerprint=fingerprint,
                resume=resume,
                holder=Holder(holder or f"p-{next(self.numbers)}"),
                lease_ms=LEASE_MS,
            ).checked()
        )

    def taken(self, **how: Any) -> Taken:
        taken = self.take(**how)
        assert isinstance(taken, Taken), taken
        return taken

    def change(self, grip: JobGrip, value: Any, revision: int) -> Any:
        change = StateChange(base(1, value), revision)
        return self.ask(ChangeJobState(REF, self.job, self.token(), grip=grip, change=change))

    def renew(self, grip: JobGrip) -> Any:
        renew = RenewJob(REF, self.job, self.token(), grip=grip, lease_ms=LEASE_MS)
        return self.ask(renew.checked())

    def settle(
        self,
        grip: JobGrip,
        outcome: Outcome = DONE,
        change: Any = None,
    ) -> Any:
        settle = SettleJob(REF, self.job, self.token(), grip=grip, outcome=outcome, change=change)
        return self.ask(settle.checked())

    def stop(self, grip: JobGrip, change: Any = None) -> Any:
        return self.ask(StopJob(REF, self.job, self.token(), grip=grip, change=change))

    def fail_finish(self, grip: JobGrip, failures: int) -> Any:
        error = WireError("runtime_error", f"failure {failures}")
        return self.ask(
            FailFinish(REF, self.job, self.token(), grip=grip, failures=failures, error=error)
        )

    def end(self, grip: JobGrip, *staged: Any) -> Any:
        return self.ask(EndJob(REF, self.job, self.token(), grip=grip, staged=staged))

    def settled_and_left(self) -> None:
        """Let a process bring the job to its outcome, and give it back before its finish."""
        grip = self.taken().grip
        self.settle(grip)
        self.stop(grip)

    def abort(self, reason: str = "enough", *, is_orphan: bool = False) -> Any:
        asked = AbortJob(REF, self.job, self.token(), reason=reason, is_orphan=is_orphan)
        return self.ask(asked.checked())

    def retry(self) -> JobInfo:
        return self.ask(RetryJob(REF, self.job, self.token()))

    def told(self) -> JobInfo:
        return self.ask(DescribeJob(REF, self.job))

    def found(self) -> FoundJob | None:
        """Return the job as it lies there."""
        return self.looked(lambda view: find_job(view, REF.partition, self.job))

    def looked(self, look: Callable[[View], T]) -> T:
        """Return what ``look`` makes of the store as it is."""
        return self.ask(Look(REF, look))

    @property
    def record(self) -> Any:
        found = self.found()
        assert found is not None
        return found.record

    def hints(self) -> list[JobWake]:
        """Return every hint that lies in the store's wake partition."""
        keys = [key for key in self.fake.records if key.partition == REF.wake]
        return [self.fake.held(key) for key in sorted(keys)]

    def state(self) -> Any:
        """Return what the state of the job says, None without one."""
        return self.looked(state_seen(self.job))

    def note(self) -> Any:
        """Return the document that a finish is to write, None if it did not."""
        return self.looked(lambda view: find_document(view, REF.partition, NOTE))

    def last_writes(self) -> list[str]:
        """Return what the log says that the last commit has written."""
        head = self.fake.held(store_head_key(REF.partition))
        return [each["w"] for each in self.fake.held(logged_key(REF.partition, head.seq)).told()]

    def killed(self, times: int, **how: Any) -> None:
        """Let processes take the job and die, one after another."""
        for _ in range(times):
            assert self.taken(**how).task == "run"
            self.died()
