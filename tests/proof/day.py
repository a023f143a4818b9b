"""A day in small: everything that is done with worlds, as calls that can be made again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import field_validator

from perdure import AddComponents, App, Component, Despawn, RemoveComponents, Spawn, Update
from perdure.kernel import limits
from perdure.kernel.errors import WorldDestroyed
from perdure.kernel.ids import Holder, Instant, WorldId
from perdure.lake.expire import expire
from perdure.runtime import land
from perdure.runtime.cold import Cold
from perdure.runtime.inventory import Side
from perdure.runtime.migrate import Mover
from perdure.runtime.run import run_ticks
from perdure.runtime.storage import Storage
from perdure.runtime.trim import GRACE_MS, Trimming

SHIPS = 12
CREW = ("anna", "bela", "cleo")
TICKS = 4
TICKS_LATER = 8
EVENING = 3 * GRACE_MS

app = App("day")


@app.component
class Position(Component):
    x: float
    y: float


@app.component
class Cargo(Component):
    tons: int


@app.component
class Note(Component):
    text: str


@app.component
class Sail(Component):
    """What cannot be set for now while there is a storm."""

    metres: int

    @field_validator("metres")
    @classmethod
    def waits(cls, metres: int) -> int:
        if Weather.is_stormy:
            raise RuntimeError("not in this storm")
        return metres


class Weather:
    is_stormy = False


@app.processor(Position)
def drift(rows: Any, tick: Any) -> Any:
    """Move every ship by chance, and drop a buoy every third tick."""
    if tick.number % 3 == 0:
        tick.spawn(Cargo(tons=tick.number))
    place = rows.schema.get_field_index("position__x")
    steps = pa.array(tick.rng.random(rows.num_rows))
    return rows.set_column(place, "position__x", pc.add(rows["position__x"], steps))


@app.processor(Cargo)
def leak(rows: Any, tick: Any) -> Any:
    """Let all cargo grow less, so that every tick changes two tables."""
    tons = rows.schema.get_field_index("cargo__tons")
    return rows.set_column(tons, "cargo__tons", pc.subtract(rows["cargo__tons"], 1))


@dataclass
class Told:
    """What the calls of one life were answered, without what may differ when made again."""

    answers: dict[str, Any] = field(default_factory=dict)
    elsewhere: Callable[[], AbstractAsyncContextManager[Storage]] | None = None
    """Opens the storage to which everything moves."""

    def submitted(self, sent: Any) -> None:
        receipts = [(each.command_id, each.sequence, each.entity_id) for each in sent.receipts]
        self.answers[sent.batch_id] = receipts


@contextmanager
def small_limits() -> Iterator[None]:
    """Let a few ships be many: bodies in chunks, rows in segments, checkpoints, expiry."""
    small = {
        "BODY_INLINE_BYTES_MAX": 2_500,
        "BODY_CHUNK_BYTES": 1_500,
        "INLINE_ROWS_BYTES_MAX": 200,
        "CHECKPOINT_TICKS": 2,
    }
    before = {name: getattr(limits, name) for name in small}
    expiring = land.expire
    try:
        for name, value in small.items():
            setattr(limits, name, value)
        land.expire = partial(expire, above=1, kept=1)
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)
        land.expire = expiring


def letter(number: int, bytes_: int = 600) -> str:
    """Return a text that no compression makes much shorter."""
    parts = -(-bytes_ // 64)
    return "".join(hashlib.sha256(f"{number} {n}".encode()).hexdigest() for n in range(parts))


async def admission(storage: Storage, told: Told) -> None:
    """Create worlds, admit singles, batches and one that is too large for its record; cancel."""
    day = await storage.create_world("day", world_id="day", every_ms=60_000)
    await storage.create_world("quay", world_id="quay")
    await day.set_consumer("reader", required=True)
    told.submitted(await day.submit([Spawn(Position(x=0, y=0))], batch_id="one"))
    fleet = [
        Spawn(Position(x=n, y=1), tick=n % 3, command_id=CREW[n] if n < len(CREW) else None)
        for n in range(SHIPS)
    ]
    told.submitted(await day.submit(fleet, batch_id="fleet"))
    letters = [Spawn(Note(text=letter(n))) for n in range(SHIPS)]
    told.submitted(await day.submit(letters, batch_id="letters"))
    changes = [
        AddComponents(Cargo(tons=40), entity_id=1, tick=1),
        Update(Position(x=9, y=9), entity_id=1, tick=1, priority=-1),
        Update(Cargo(tons=1), entity_id=2, tick=1),
        RemoveComponents(components=["Cargo"], entity_id=1, tick=2),
        Despawn(entity_id=3, tick=3),
    ]
    told.submitted(await day.submit(changes, batch_id="changes"))
    told.submitted(await day.submit([Spawn(Sail(metres=9), tick=1)], batch_id="sail"))
    told.submitted(await day.submit([Spawn(Position(x=5, y=5), tick=3)], batch_id="doubtful"))
    told.submitted(await day.submit([Spawn(Position(x=6, y=6), tick=90)], batch_id="far"))
    cancelled = await day.cancel("doubtful.0")
    told.answers["cancelled"] = (cancelled.status, cancelled.code)


async def ticks(storage: Storage, told: Told) -> None:
    """Tick the day: one command is retried, a checkpoint is written, a required reader reads."""
    for tick in range(TICKS):
        await ticked(storage, "day", tick)
    quay = await storage.world("quay")
    told.submitted(await quay.submit([Spawn(Cargo(tons=3))], batch_id="crate"))
    ref = storage.worlds.ref("quay")
    ran = await run_ticks(
        storage.ticker, ref, ticks=2, deadline=Instant(storage.now() + 600_000), request="two"
    )
    told.answers["quay"] = (ran.published_tick, ran.done)


async def ticked(storage: Storage, name: str, tick: int) -> None:
    """Publish one tick of a world, and read its log for the one who must have read it."""
    world = await storage.world(name)
    Weather.is_stormy = tick == 1
    try:
        await world.run(to_tick=tick)
    finally:
        Weather.is_stormy = False
    (published,) = [
        entry.seq
        for entry in await world.log(limit=1_000)
        if entry.kind == "published" and entry.facts["tick"] == tick
    ]
    (reader,) = [each for each in await world.consumers() if each.name == "reader"]
    if reader.seq < published:
        await world.acknowledge("reader", published)


async def landing(storage: Storage, told: Told) -> None:
    """Land the rows and the audit of one world."""
    await storage.land("quay")


async def evening(storage: Storage, told: Told) -> None:
    """Tick on, and land everything several times, so that old snapshots go."""
    day = await storage.world("day")
    told.submitted(await day.submit([Spawn(Position(x=7, y=7))], batch_id="late"))
    for tick in range(TICKS, TICKS_LATER):
        await ticked(storage, "day", tick)
        if tick % 2:
            await storage.land()


async def forking(storage: Storage, told: Told) -> None:
    """Fork the day with what is open in it, let the fork run, and cancel all it took along."""
    day = await storage.world("day")
    fork = await day.fork("what if", world_id="fork")
    told.submitted(await fork.submit([Spawn(Position(x=8, y=8))], batch_id="other"))
    await ticked(storage, "fork", TICKS_LATER)
    cleared = await fork.cancel_all("clear")
    told.answers["cleared"] = cleared.cancelled_below
    await ticked(storage, "fork", TICKS_LATER + 1)
    await storage.land()


async def keeping(storage: Storage, told: Told) -> None:
    """Let go of what landed, was read and is old."""
    now = Instant(storage.now() + EVENING)
    trimming = Trimming(
        storage.landing.authority, storage.landing.objects, storage.landing.storage, lambda: now, 4
    )
    worlds = [WorldId(each) for each in ("day", "fork", "quay")]
    await trimming.trim(worlds)


async def ending(storage: Storage, told: Told) -> None:
    """Destroy a configured world with a command still open, and bring the day to rest."""
    try:
        short = await storage.create_world("short", world_id="short")
    except WorldDestroyed:
        short = await storage.world("short")
    told.submitted(await short.submit([Spawn(Cargo(tons=3), tick=1)], batch_id="barrel"))
    await short.run(to_tick=0)
    if (await short.info()).status == "active":
        await short.remove_processor("leak")
    done = await short.destroy()
    told.answers["short"] = done.info.status
    day = await storage.world("day")
    await day.cancel_all("night")
    await ticked(storage, "day", TICKS_LATER)
    await storage.land()


async def moving(storage: Storage, told: Told) -> None:
    """Move the whole storage, and take the destination into use."""
    assert told.elsewhere is not None
    async with told.elsewhere() as destination:
        mover = Mover(
            _side(storage, "here"),
            _side(destination, "there"),
            "move",
            storage.now,
            look=partial(_cold(storage).seen, None),
            look_cold=partial(_cold(destination).seen, Holder("mover")),
            pause=asyncio.sleep,
        )
        receipt = await mover.move()
    told.answers["moved"] = sorted(receipt["worlds"])


def _side(storage: Storage, uri: str) -> Side:
    landing = storage.landing
    described = {"uri": uri, "namespace": "main", "authority": "test"}
    authority = storage.document_stores.means.authority
    return Side(authority, landing.storage, landing.objects, landing.lake, described)


def _cold(storage: Storage) -> Cold:
    return Cold(storage.worlds, storage.reader, storage.document_stores.means)


Act = Callable[[Storage, Told], Awaitable[None]]

ACTS: dict[str, Act] = {
    "admission": admission,
    "ticks": ticks,
    "landing": landing,
    "evening": evening,
    "fork": forking,
    "trim": keeping,
    "destroy": ending,
    "move": moving,
}
CORE = ("admission", "ticks", "landing")
