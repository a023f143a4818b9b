"""Routes of jobs: start one, see where it stands, end it, and let one go on that was blocked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from perdure.api import models_jobs as models
from perdure.api.decoding import cursor, keyed, resumed
from perdure.api.gateway import Request
from perdure.api.invocation import current
from perdure.api.ports_jobs import JobPorts
from perdure.api.routing import Route, route
from perdure.api.ticking import NOT_NOW_MS
from perdure.kernel.documents.jobs.describe import JobInfo
from perdure.kernel.documents.places import SYSTEM_PREFIX, DocumentStoreRef
from perdure.runtime.documents.jobs.board import JobsFrom

ALL: Final = "/v1/stores/<store>/jobs"
ONE: Final = f"{ALL}/<name>/<job>"

ROLE_OF: Final = {
    "perdure.land": "land",
    "perdure.trim": "trim",
    "perdure.export": "export_store",
    "perdure.migrate": "migrate_storage",
}
"""Who starts one of Perdure's own jobs needs the role for what it does."""

OTHERS: Final = "land"
"""What one of Perdure's own needs that this version does not know."""


@route(
    "POST",
    ALL,
    operation="start_job",
    reply=models.StartedJob,
    status=202,
    key="optional",
)
async def start_job(
    ports: JobPorts, store: str, body: models.StartJob, request: Request
) -> dict[str, Any]:
    """Start a job, at most once by its id. The same id with other arguments is a conflict."""
    _check_role(request, body.name)
    job_id = keyed(request.headers, body.job_id, field="job_id")
    if job_id is None:
        # Drawn here, so that it can be told also by an answer that comes before the store's.
        job_id = current().job_id = ports.jobs.drawn_job_id()
    await ports.paid(request.by)
    started = await ports.jobs.start(
        store, body.name, body.args, job_id=job_id, key=body.key, due_at=body.due_at
    )
    if not started.existing:
        await _nudge(ports, store, started.info)
    return {**_told(ports.jobs.ref(store), started.info), "replayed": started.existing}


@route("GET", ALL, operation="list_jobs", reply=models.Jobs)
async def list_jobs(ports: JobPorts, store: str, query: models.ListJobs) -> dict[str, Any]:
    """List jobs of a document store; a page may be short though more follow."""
    scope = f"jobs {store} {query.name} {query.owner} {query.phase}"
    behind = resumed(query.next, scope=scope)
    found, more = await ports.jobs.discover(
        store,
        owner=query.owner,
        name=query.name,
        phase=query.phase,
        limit=query.limit,
        behind=None if behind is None else JobsFrom.read(behind),
    )
    ref = ports.jobs.ref(store)
    page: dict[str, Any] = {"jobs": [_told(ref, info) for info in found]}
    return page if more is None else {**page, "next": cursor(scope, more.spelled)}


@route("GET", ONE, operation="get_job", reply=models.OneJob)
async def describe_job(
    ports: JobPorts, store: str, name: str, job: str, query: models.DescribeJob
) -> dict[str, Any]:
    """Tell where a job stands, or what it came to."""
    info, state = await ports.jobs.describe(store, name, job, owner=query.owner)
    return {**_told(ports.jobs.ref(store), info), "state": state}


@route("POST", f"{ONE}/abort", operation="abort_job", reply=models.Marked, status=202)
async def abort_job(
    ports: JobPorts, store: str, name: str, job: str, body: models.AbortJob, request: Request
) -> dict[str, Any]:
    """Ask for the end of a job. Of one that has ended it changes nothing."""
    _check_role(request, name)
    marked = await ports.jobs.abort(
        store, name, job, reason=body.reason, owner=body.owner, by=request.by
    )
    if marked == "marked" and ports.jobs.jobs_in(store).declares(name, body.owner):
        await ports.nudge(ports.jobs.due(store, name, job))
    return {"job_id": job, "state": marked}


@route("POST", f"{ONE}/retry", operation="retry_job", reply=models.Job, status=202)
async def retry_job(
    ports: JobPorts, store: str, name: str, job: str, request: Request
) -> dict[str, Any]:
    """Let a blocked job go on where it was. One that is not blocked is a conflict."""
    _check_role(request, name)
    info = await ports.jobs.retry(store, name, job, by=request.by)
    await _nudge(ports, store, info)
    return _told(ports.jobs.ref(store), info)


def _check_role(request: Request, name: str) -> None:
    operation = ROLE_OF.get(name, OTHERS if name.startswith(SYSTEM_PREFIX) else None)
    if operation is not None:
        request.principal.check(operation)


async def _nudge(ports: JobPorts, store: str, info: JobInfo) -> None:
    """Let somebody go on with a job, unless that would only find that it begins later."""
    wait_ms = 0 if info.due_at is None else info.due_at - ports.jobs.means.now()
    if wait_ms <= NOT_NOW_MS:
        await ports.nudge(ports.jobs.due(store, info.job.name, info.job.job))


def _told(ref: DocumentStoreRef, info: JobInfo) -> dict[str, Any]:
    known = {**vars_of(info), "store_id": ref.store}
    job = info.job
    return {**known, "owner": job.owner, "name": job.name, "job_id": job.job}


def vars_of(info: JobInfo) -> dict[str, Any]:
    """Return what is told of a job, but for its address."""
    told = asdict(info)
    del told["job"]
    return told


ROUTES: Final[tuple[Route[Any], ...]] = (
    start_job,
    list_jobs,
    describe_job,
    abort_job,
    retry_job,
)
