"""Perdure's own jobs: landing, trimming, migration and exports, as work that outlives its process.

Each is safe to run again from its top: what it does is done exactly once by its own records, the
intents of a landing, the marks of a trim, the stages of a migration, the name of an export. Its
state says how far it is.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict

from perdure.api.durations import milliseconds
from perdure.api.ports import Landed
from perdure.api.ports_keeping import Pruned, TrimPorts
from perdure.api.settings import Settings, place
from perdure.api.system_exports import Exports
from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.places import SYSTEM_PREFIX, DocumentStoreRef
from perdure.kernel.errors import FenceHeld, TooLarge
from perdure.kernel.ids import DocumentStoreId, StorageId, checked_id
from perdure.runtime.app import App
from perdure.runtime.documents.export import Progress
from perdure.runtime.documents.jobs.run import JobRun

T = TypeVar("T")
StateT = TypeVar("StateT", bound=BaseModel)

OWNER: Final = "perdure"
"""Owner of the documents of Perdure's own jobs."""

SLICE_MS: Final = 8_000
"""What one piece of such a job takes: its state is written after each, and its signals looked at."""

HELD_SECONDS: Final = 5.0
"""Pause before a piece is tried again that somebody else is at."""

TELL_SECONDS: Final = 1.0
"""How often a migration, or an export, writes how far it is."""

EXPORTS_BEGUN_MAX: Final = 5
"""Times that an export is begun whose process ended before it. Source: as often as a job may die."""

MIGRATION: Final = "perdure.api.wiring_lake_migrate"
"""Imported by name: Arrow takes its time."""


class KeepingPorts(TrimPorts, Protocol):
    """What landing and trimming need."""

    async def land_all(self, *, ms: int, by: Caller) -> Landed:
        """Land and project what waits, for at most ``ms``."""
        ...


def _duration(text: str) -> str:
    milliseconds(text)
    return text


def _store_id(text: str) -> str:
    return checked_id(text, what="a document store's id")


class Nothing(BaseModel):
    """Arguments of a job that takes none."""

    model_config = ConfigDict(extra="forbid")


class TrimArgs(BaseModel):
    """How old what is let go of must be, as the route of trimming says it."""

    model_config = ConfigDict(extra="forbid")

    grace: Annotated[str, AfterValidator(_duration)] = "1d"
    dry_run: bool = False


class MigrateArgs(BaseModel):
    """Where a storage is moved to, as `perdure migrate` says it."""

    model_config = ConfigDict(extra="forbid")

    to: str
    to_table: str | None = None
    migration_id: str


class ExportArgs(BaseModel):
    """Which document store is exported."""

    model_config = ConfigDict(extra="forbid")

    store: Annotated[str, AfterValidator(_store_id)]


class LandState(BaseModel):
    """What a landing has done so far."""

    rows: int = 0
    files: int = 0
    events: int = 0
    entries: int = 0


class TrimState(BaseModel):
    """What a trim has let go of so far, and the world behind which it goes on."""

    after: str | None = None
    worlds: int = 0
    segments: int = 0
    checkpoints: int = 0
    orphans: int = 0
    bytes: int = 0
    undecided: int = 0
    archived: int = 0


class MigrateState(BaseModel):
    """Where a migration is."""

    stage: str = "waiting"
    done: int = 0
    total: int | None = None


class Moved(BaseModel):
    """What a migration came to; its receipt is in the destination."""

    migration_id: str
    to: str
    plan_digest: str
    worlds: int
    stores: int
    records: int
    objects: int
    tables: int
    rows: int


class ExportState(BaseModel):
    """Where an export is: what it does, and to how many tables, rows and documents it has."""

    phase: str = "waiting"
    parts: int = 0
    bytes: int = 0
    begun: int = 0
    """Times that it was begun from its first part: it is in no parts that outlive their process."""


class StoreExported(BaseModel):
    """What an export holds, and where it lies, as `perdure stores import` takes it."""

    at: str
    lineage: str
    seq: int
    counts: dict[str, int]
    bytes: int
    sha256: str


class Ended(Exception):  # no error: it is the way to end a run that is to end
    """Somebody wants the end of a run, or its process stops."""


def register(
    app: App,
    chosen: Settings,
    keeping: Callable[[], Awaitable[KeepingPorts]],
    exports: Exports,
) -> None:
    """Register Perdure's own jobs on one storage. ``keeping`` opens what needs Arrow."""

    async def land(run: JobRun) -> LandState:
        ports, state = await keeping(), run.state
        while True:
            landed = await free(run, lambda: ports.land_all(ms=SLICE_MS, by=LOCAL))
            if landed == Landed():
                break
            state = added(state, told=asdict(landed))
            await run.change(partial(written, state))
        return cast("LandState", state)

    async def trim(run: JobRun) -> TrimState:
        ports, state = await keeping(), run.state
        while True:
            pruned = await free(run, partial(trimmed, ports, run.args, state.after))
            told = {**_counts(pruned.trimmed), "worlds": pruned.worlds}
            state = added(state, told=told, after=pruned.next)
            await run.change(partial(written, state))
            if pruned.next is None:
                break
        return cast("TrimState", state)

    async def migrate(run: JobRun) -> Moved:
        return await moved(run, chosen)

    async def export(run: JobRun) -> StoreExported:
        return await exported(run, chosen.storage, exports)

    for word, function, args, result, state in (
        ("land", land, Nothing, LandState, LandState),
        ("trim", trim, TrimArgs, TrimState, TrimState),
        ("migrate", migrate, MigrateArgs, Moved, MigrateState),
        ("export", export, ExportArgs, StoreExported, ExportState),
    ):
        name = f"{SYSTEM_PREFIX}{word}"
        app.job(name, owner=OWNER, args=args, result=result, state=state)(function)


def written(state: StateT, _: Any) -> StateT:
    """Return the state that is to be, whatever it is."""
    return state


def added(state: StateT, *, told: Mapping[str, int], **more: Any) -> StateT:
    """Return a state with what one more piece has counted."""
    counted = {name: getattr(state, name) + value for name, value in told.items()}
    return state.model_copy(update={**counted, **more})


async def trimmed(ports: KeepingPorts, args: TrimArgs, after: str | None) -> Pruned:
    """Trim the worlds behind one, for a while."""
    grace_ms = milliseconds(args.grace)
    return await ports.trim_all(
        grace_ms=grace_ms, dry_run=args.dry_run, after=after, ms=SLICE_MS, by=LOCAL
    )


async def free(run: JobRun, work: Callable[[], Awaitable[T]]) -> T:
    """Do a piece of work, once nobody else is at it. Raises Ended if the run is to end."""
    while True:
        check(run)
        try:
            return await work()
        except FenceHeld:
            await paused(run, HELD_SECONDS)


async def paused(run: JobRun, seconds: float) -> None:
    """Wait so long, or until the run is to end."""
    signals = [asyncio.ensure_future(each.wait()) for each in (run.aborted, run.stopping)]
    await asyncio.wait(signals, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in signals:
        each.cancel()


def check(run: JobRun) -> None:
    """End a run that is to end. Raises Ended."""
    if run.aborted.is_set() or run.stopping.is_set():
        raise Ended


async def moved(run: JobRun, source: Settings) -> Moved:
    """Move the storage, or go on with it. Its stages outlive whoever is at it."""
    args: MigrateArgs = run.args
    far = Far[MigrateState](MigrateState())

    def tell(stage: str, done: int, total: int | None) -> None:
        far.state = MigrateState(stage=stage, done=done, total=total)

    moving = importlib.import_module(MIGRATION).migrated(
        source, place(args.to, table=args.to_table), args.migration_id, tell
    )
    return _summed(await told_while(run, moving, far))


async def exported(run: JobRun, storage: StorageId, exports: Exports) -> StoreExported:
    """Export a document store, or find that this job has done so before it could say so."""
    args: ExportArgs = run.args
    store = DocumentStoreId(args.store)
    begun = run.state.begun + 1
    if begun > EXPORTS_BEGUN_MAX:
        raise TooLarge(
            expected="an export that one invocation can make; `perdure stores export` has all the"
            " time there is",
            found=f"{EXPORTS_BEGUN_MAX} that ended before it",
        )
    far = Far[ExportState](ExportState(begun=begun))

    def report(progress: Progress) -> None:
        far.state = ExportState(
            phase=progress.phase, parts=progress.parts, bytes=progress.bytes, begun=begun
        )

    exporting = exports(DocumentStoreRef(storage, store), run.job, report)
    at, done = await told_while(run, exporting, far)
    return StoreExported(
        at=at,
        lineage=done.manifest.lineage,
        seq=done.manifest.last_seq,
        counts=done.counts.told(),
        bytes=done.bytes,
        sha256=done.sha256,
    )


@dataclass(slots=True)
class Far(Generic[StateT]):
    """How far a piece of work has come, as it says itself."""

    state: StateT


async def told_while(run: JobRun, work: Coroutine[Any, Any, T], far: Far[Any]) -> T:
    """Do some work, and write how far it is now and then. Raises Ended if the run is to end."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            check(run)
            await run.change(partial(written, far.state))
            await asyncio.wait({task}, timeout=TELL_SECONDS)
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


def _summed(receipt: Mapping[str, Any]) -> Moved:
    return Moved(
        migration_id=receipt["migration"],
        to=receipt["to"]["uri"],
        plan_digest=receipt["plan_digest"],
        worlds=len(receipt["worlds"]),
        stores=len(receipt.get("stores", {})),
        records=sum(each["records"] for each in receipt["records"].values()),
        objects=receipt["objects"]["count"],
        tables=len(receipt["tables"]),
        rows=sum(each["rows"] for each in receipt["tables"].values()),
    )


def _counts(done: Any) -> dict[str, int]:
    names = ("segments", "checkpoints", "orphans", "bytes", "undecided", "archived")
    return {name: getattr(done, name) for name in names}
