"""Jobs behind the routes, on a store in memory, with a caller of every role."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from tests.api.rig import Caller, bearer
from tests.support.chores import app
from tests.support.documents import means

from perdure.api import faces
from perdure.api.sandbox import Sandbox
from perdure.api.system_jobs import register
from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.jobs.take import TakeJob
from perdure.kernel.ids import Holder, StorageId, Token
from perdure.runtime.app import App
from perdure.runtime.documents.jobs.board import JobBoard
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.stores import DocumentStores

STORAGE = StorageId("memory")
BOATS = "/v1/stores/boats/jobs"
SYSTEM = "/v1/stores/perdure.system/jobs"
ROW = {"name": "row", "args": {"strokes": 2}, "job_id": "j-1"}


@dataclass
class Ports:
    """The jobs of a storage, and who was told of them."""

    jobs: JobBoard
    nudged: list[str] = field(default_factory=list)
    paid_by: list[str | None] = field(default_factory=list)

    async def nudge(self, due):
        self.nudged.append(str(due.job))

    async def paid(self, by):
        self.paid_by.append(by.actor)


@dataclass
class Boats:
    """A storage with a document store ``boats``, behind the routes of jobs."""

    store: MemoryStore
    ports: Ports
    ann: Caller

    def as_(self, role, actor="ann"):
        return replace(self.ann, authorizer=bearer(role, actor))

    def snapshot(self):
        return dict(self.store._records)

    def run(self, deadline_ms=60_000):
        """Do every job that is due."""
        jobs = self.ports.jobs.application
        deadline = jobs.crew.means.now() + deadline_ms
        self.ann.sandbox._loop().run(jobs.run_due(deadline=deadline))


async def at_once(_):
    """Let no test wait."""


async def nothing():
    raise AssertionError("nobody lands here")


def boats_on():
    """Return a storage with a document store, which whoever has it closes."""
    store = MemoryStore()
    own = App("chores")
    register(own, None, nothing, nothing)
    reach = replace(means(store), pause=at_once)
    crew = JobCrew(means=reach)
    board = JobBoard(reach, Jobs(crew, STORAGE, app), Jobs(crew, STORAGE, own))
    ports = Ports(board)

    @asynccontextmanager
    async def opening():
        yield ports

    sandbox = Sandbox(opening, faces.JOBS)
    sandbox._loop().run(DocumentStores(reach, STORAGE, "chores").create("boats"))
    return Boats(store, ports, Caller(sandbox, authorizer=bearer("player")))


def blocked(boats):
    """Let the job be blocked, as a deployment of other code does it."""
    boats.ann("POST", BOATS, ROW)
    due = boats.ports.jobs.due("boats", "row", "j-1")
    other = {"version": 2, "fingerprint": "other", "resume": "rerun", "lease_ms": 1_000}
    taken = TakeJob(due.ref, due.job, Token("other"), holder=Holder("other"), **other)
    boats.ann.sandbox._loop().run(boats.ports.jobs.means.authority.execute(taken.checked()))
