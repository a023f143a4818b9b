"""The words of jobs in the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from perdure.api.models import Body, Query, Reply
from perdure.kernel import limits
from perdure.kernel.documents.jobs.describe import JOBS_PAGE_MAX

Phase = Literal["pending", "running", "stopped", "finishing", "blocked", "ended"]

Moment = Annotated[int, Field(ge=0, le=limits.INTEGER_MAX)]
"""Milliseconds since 1970."""


class StartJob(Body):
    """A job to be started. ``job_id`` may come as the header ``Idempotency-Key`` instead."""

    name: str
    """Which job of the application, or of Perdure's own: those begin with ``perdure.``."""
    args: Annotated[dict[str, Any], Field(default_factory=dict)]
    job_id: str | None = None
    key: str | None = None
    """What it is about, for who looks for it."""
    due_at: Moment | None = None
    """When it shall begin; now, if that is not given."""


class ListJobs(Query):
    name: str | None = None
    """Only jobs of this name."""
    owner: str | None = None
    """Only jobs of this owner; without it, of every owner that the application declares jobs of."""
    phase: Phase | None = None
    """Only jobs in this phase; without it, those that have not ended."""
    limit: Annotated[int, Field(ge=1, le=JOBS_PAGE_MAX)] = JOBS_PAGE_MAX
    next: str | None = None


class DescribeJob(Query):
    owner: str | None = None
    """Whose it is, for a job that the application declares no more."""


class AbortJob(Body):
    reason: str = "aborted"
    owner: str | None = None
    """Whose it is, for a job that the application declares no more: it ends at once, unfinished."""


class Job(Reply):
    store_id: str
    owner: str
    name: str
    job_id: str
    phase: Phase
    """`ended` of one that has an outcome and will not change any more."""
    outcome: dict[str, Any] | None
    """What it came to: `kind` is `done`, with the result, or `failed`, with the error."""
    restarts: int
    """Processes that died at it since its state last changed. An orderly stop is none."""
    finish_failures: int
    """Times that its finish raised, did not return in time, or lost its process."""
    finish_error: dict[str, Any] | None
    """What the last failure of its finish was: code, message and details."""
    abort: str | None
    """Why somebody wants its end."""
    blocked: Literal["finish_failed", "version"] | None
    key: str | None
    version: int | None
    args: Any
    due_at: int | None
    created_at: int | None
    ended_at: int | None
    epoch: int | None
    """Grows each time that a process takes it in hand."""
    held_until: int | None
    """Until when a process has it in hand; None if none has."""


class OneJob(Job):
    state: Any
    """What it says of its progress; None for a job without state, and of one that has ended."""


class StartedJob(Job):
    replayed: bool
    """It was started before, with just the same, and nothing was done."""


class Jobs(Reply):
    jobs: list[Job]
    next: str | None = None


class Marked(Reply):
    job_id: str
    state: Literal["marked", "terminal"]
    """`terminal` of one that had ended before."""
