"""A process that works off Perdure's own jobs of a storage on files, and dies at any one of its steps."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.harbour import Position, app
from tests.support.steps import SteppedStore, Steps, When, dying_catalog, kill_9

import perdure
from perdure.api import system_jobs, wiring, wiring_lake_storage
from perdure.api.settings import Settings, local
from perdure.api.wiring_jobs import jobs
from perdure.api.working import worked_off
from perdure.authority import system
from perdure.kernel import limits
from perdure.kernel.documents.content import base
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.ids import Instant
from perdure.lake.catalog import open_local
from perdure.lake.objects import LocalObjects
from perdure.runtime.documents.export_files import FileSink

APP = "tests.emulator.harbour:app"
SYSTEM = "perdure.system"
LEASE_MS = 300
"""How long a dead process stands in the way of the next."""

DAY_MS = 86_400_000
TICKS = 12
FLEET = 300
"""Ships whose rows of a tick are too many for its manifest."""

NOTES = 40
SECONDS_MAX = 300


def place(root: Path) -> Settings:
    """Return the settings of the storage in a directory."""
    return replace(local(root), app=APP, lease_ms=LEASE_MS)


async def with_a_world(root: Path, *, has_landed: bool = False) -> None:
    """Make a storage with a world that has a past."""
    async with perdure.open(root.as_uri(), app=app) as storage:
        world = await storage.create_world("harbour", world_id="harbour")
        ships = [perdure.Spawn(Position(x=number, y=0)) for number in range(FLEET)]
        await world.submit(ships, batch_id="fleet")
        await world.run(to_tick=TICKS - 1)
        if has_landed:
            await storage.land()


async def with_notes(root: Path) -> None:
    """Make a storage with a document store."""
    async with perdure.open(root.as_uri(), app=app) as storage:
        await storage.document_stores.create("notes")
        notes = await storage.document_stores.open("notes")
        for number in range(NOTES):
            address = Address("notes", "desk", "note", str(number))
            await notes.commit([CreateDocument(address, "latest", base(1, "n" * number))])
        await notes.close()


@contextlib.contextmanager
def stepping(steps: Steps) -> Iterator[None]:
    """Let whatever this process makes durable of a storage on files be a step."""
    put, delete, finish = LocalObjects.put, LocalObjects.delete, FileSink._finish
    stored = wiring._store

    async def store(chosen: Settings) -> Any:
        return SteppedStore(await stored(chosen), steps)

    async def stepped_put(self: Any, name: str, data: Any) -> None:
        await steps.reach(lambda: put(self, name, data), "put")

    async def stepped_delete(self: Any, name: str) -> None:
        await steps.reach(lambda: delete(self, name), "delete")

    def stepped_finish(self: Any) -> None:
        steps.take(lambda: finish(self), "file")

    catalog = dying_catalog(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "_store", store)
        patch.setattr(LocalObjects, "put", stepped_put)
        patch.setattr(LocalObjects, "delete", stepped_delete)
        patch.setattr(FileSink, "_finish", stepped_finish)
        patch.setattr(wiring_lake_storage, "open_local", lambda where: open_local(where, catalog))
        patch.setattr(system_jobs, "HELD_SECONDS", 0.05)
        yield


@contextlib.contextmanager
def short_past() -> Iterator[None]:
    """Let a past of a few ticks have something to be let go of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "CHECKPOINT_TICKS", 4)
        yield


@contextlib.contextmanager
def a_day_later() -> Iterator[None]:
    """Let two days have passed."""
    now = system.now
    with short_past(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "now", lambda: Instant(now() + 2 * DAY_MS))
        yield


async def begun(root: Path, name: str, args: dict[str, Any]) -> None:
    """Start one of Perdure's own jobs."""
    async with jobs(place(root)) as ports:
        await ports.jobs.start(SYSTEM, name, args, job_id="j")


async def told(root: Path, name: str) -> Any:
    """Tell where it stands."""
    async with jobs(place(root)) as ports:
        info, _ = await ports.jobs.describe(SYSTEM, name, "j")
        return info


async def worked(root: Path) -> None:
    """Work off what is due."""
    async with jobs(place(root)) as ports:
        await worked_off(ports, ms=60_000)


async def ended(root: Path, name: str) -> Any:
    """Work until the job has ended, as one process after another would."""
    while True:
        await worked(root)
        info = await told(root, name)
        if info.phase in {"ended", "blocked"}:
            return info
        await asyncio.sleep(0.05)


class Lives:
    """Processes that work on a storage, forked from one that has imported everything."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["tests.support.dying_jobs", "perdure.api.wiring_lake"]
        )

    def steps(self, root: Path, name: str) -> list[str]:
        """Let one live to the end of the work, and return what its steps were."""
        mine, theirs = self._context.Pipe()
        self._lived((root, name, None, "before", theirs))
        kinds: list[str] = mine.recv()
        return kinds

    def killed(self, root: Path, name: str, number: int, when: When) -> bool:
        """Let one be killed with SIGKILL at one of its steps; False if it ends before that."""
        code = self._lived((root, name, number, when, None))
        assert code in {-signal.SIGKILL, 0}, code
        return code != 0

    def _lived(self, life: tuple[Path, str, int | None, When, Connection | None]) -> int:
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        try:
            process = self._context.Process(target=_living, args=life)
            process.start()
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
        process.join(SECONDS_MAX)
        assert process.exitcode is not None, "it hangs"
        return process.exitcode


def _living(root: Path, name: str, number: int | None, when: When, said: Connection | None) -> None:
    steps = Steps(number, when=when, end=kill_9)
    with stepping(steps), a_day_later():
        asyncio.run(ended(root, name))
    if said is not None:
        said.send(steps.kinds)
