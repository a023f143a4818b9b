"""A process that runs a job which counts, tells each count once it is durable, and is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.support.documents import LINEAGE, REF

from perdure.authority import system
from perdure.authority.engine import Authority
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import FenceHeld
from perdure.kernel.ids import Instant
from perdure.runtime.app import App
from perdure.runtime.documents.jobs.hand import Interrupted, JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.store import StoreMeans

NAME = "notes.count"
STORE = str(REF.store)
COUNTS = 60
NOTE = Address("notes", "chord", "note", "1")
LEASE_MS = 400

app = App("notes")


class Counted(BaseModel):
    count: int = 0


@app.job(NAME, owner="notes", args=Counted, result=Counted, state=Counted)
async def counting(run: Any) -> Counted:
    while run.state.count < COUNTS:
        await run.change(lambda state: Counted(count=state.count + 1))
        told(str(run.state.count))
        await asyncio.sleep(0.002)
    return Counted(count=run.state.count)


@counting.finish
async def noted(ending: Any) -> list[CreateDocument]:
    return [CreateDocument(NOTE, "none", base(1, {"count": ending.result.count}))]


def told(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def interrupted(found: Interrupted) -> None:
    told(f"interrupted {found.restarts}")


async def opened(directory: Path) -> Jobs:
    """Return the jobs of a store on a file, which is made if it is not there."""
    records = await SqliteStore.open(directory / "store.db")
    authority = Authority(records, now=system.now, new_token=system.new_token)
    await authority.execute(CreateDocumentStore(REF, LINEAGE).checked())
    means = StoreMeans(
        authority=authority, now=system.now, new_token=system.new_token, pause=asyncio.sleep
    )
    return Jobs(JobCrew(means=means, lease_ms=LEASE_MS, report=interrupted), REF.storage, app)


async def lived(directory: Path) -> None:
    """Bring the job to its end, as far as this process lives."""
    jobs = await opened(directory)
    await jobs.start(STORE, NAME, Counted(), job_id="j")
    state = ""
    while state != "ended":
        try:
            deadline = Instant(system.now() + 60_000)
            state = (await jobs.run(STORE, NAME, "j", deadline=deadline)).state
        except FenceHeld:
            await asyncio.sleep(0.05)
    told(state)
    await closed(jobs)


async def closed(jobs: Jobs) -> None:
    """Let go of the file."""
    await jobs.crew.means.authority.close()  # type: ignore[attr-defined]  # it is one


if __name__ == "__main__":
    asyncio.run(lived(Path(sys.argv[1])))
