"""Starting a job: once for each id, whoever asks and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.kernel.documents.content import Content
from perdure.kernel.documents.errors import NeedsBase
from perdure.kernel.documents.jobs.describe import JobInfo, ended_info, info
from perdure.kernel.documents.jobs.records import check_text
from perdure.kernel.documents.jobs.step import JobRequest, JobStep
from perdure.kernel.documents.jobs.value import JobRecord, check_value, start_digest
from perdure.kernel.documents.writes import lives_before
from perdure.kernel.errors import Conflict, InvalidValue
from perdure.kernel.ids import Instant
from perdure.kernel.shown import shown
from perdure.kernel.view import Decision, Reads, View


@dataclass(frozen=True, slots=True)
class Started:
    """Where a job stands that somebody wanted to be started."""

    info: JobInfo
    existing: bool
    """It was started before, with just the same; nothing has happened now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob(JobRequest):
    """Start a job, with its first state if it has any. Also one that has ended is not run again.

    ``due_at`` is when it shall begin; now, if that is None.
    Raises: NotFound; Conflict for the same id with other arguments or another key; Invalid kinds.
    """

    version: int
    fingerprint: str
    args: Any
    key: str | None = None
    trace: str | None = None
    due_at: Instant | None = None
    state: Content | None = None

    def checked(self) -> StartJob:
        """Return self if a store can keep it. Raises InvalidId, InvalidValue, TooLarge."""
        self.job.checked()
        check_value(self.args, "a job's arguments")
        check_text(self.key, "a job's key")
        check_text(self.trace, "a job's trace")
        if self.due_at is not None and (type(self.due_at) is not int or self.due_at < 0):
            raise InvalidValue(
                expected="due_at in milliseconds since 1970", found=shown(self.due_at)
            )
        if type(self.version) is not int or self.version < 1:
            raise InvalidValue(expected="a version of 1 or more", found=shown(self.version))
        if self.state is not None and self.state.kind != "base":
            raise NeedsBase(expected="a base as a job's first state", found="a delta")
        return self

    @property
    def digest(self) -> str:
        return start_digest(self.job.name, self.args, self.key)

    def reads(self) -> Reads:
        places = (self.job.record, self.job.state, self.job.end)
        lives = tuple(lives_before(self.stream, place) for place in places)
        return Reads.union(JobRequest.reads(self), Reads(ranges=lives))

    def decide(self, view: View, now: Instant) -> Decision[Started]:
        step = JobStep(self, view, now)
        end = step.ended()
        if end is not None:
            self._check_same(end.digest)
            return Decision(Started(ended_info(self.job, end), existing=True))
        found = step.found()
        if found is not None:
            self._check_same(found.record.digest)
            return Decision(Started(info(self.job, found.record), existing=True))
        record = JobRecord(
            version=self.version,
            fingerprint=self.fingerprint,
            args=self.args,
            digest=self.digest,
            key=self.key,
            trace=self.trace,
            created_at=now,
            due_at=now if self.due_at is None else self.due_at,
        )
        record = step.create(record, self.state)
        return step.decision(Started(info(self.job, record), existing=False))

    def _check_same(self, digest: str) -> None:
        if digest != self.digest:
            raise Conflict(
                expected=f"job {self.job} with the arguments it was started with", found="others"
            )
