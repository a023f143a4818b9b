"""Keepers: they land rows, project logs, and trim what has another place."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulator.stage import Process

from perdure.kernel.errors import Corrupt, PerdureError
from perdure.kernel.ids import Holder, WorldId
from perdure.runtime.land import Bounds, Landing
from perdure.runtime.project import AuditBounds, Projection
from perdure.runtime.trim import GRACE_MS_MIN, Trimming
from perdure.runtime.waiting import waiting

BLOCK_ENTRIES = 5
ROWS_BOUNDS = (Bounds(), Bounds(rows_max=5, ticks_max=3, worlds_max=2))
AUDIT_BOUNDS = (AuditBounds(), AuditBounds(events_max=5, entries_max=4, worlds_max=2))


async def lander(me: Process) -> None:
    """Land what worlds have published."""
    while await me.rested(8.0):
        await landed(me)


async def projector(me: Process) -> None:
    """Project what logs say."""
    while await me.rested(8.0):
        await projected(me)


async def trimmer(me: Process) -> None:
    """Trim all worlds."""
    while await me.rested(12.0):
        await trimmed(me)


async def landed(me: Process) -> bool | None:
    """Land once; say whether anything waited, None if that is not known."""
    stage = me.stage
    landing = Landing(me.authority, me.objects, me.lake, stage.storage)
    bounds = stage.pick(ROWS_BOUNDS) if stage.is_storm else Bounds()
    try:
        found = await waiting(me.authority, stage.storage, now=me.now)
        worlds = [ref.world for ref in found.unlanded]
        done = await landing.land(
            worlds,
            holder=Holder(me.new_token()),
            new_token=me.new_token,
            bounds=bounds,
            lease_ms=me.lease_ms(),
        )
    except PerdureError as error:
        _told(me, "landing", error)
        return None
    _check(me, "landing", done.failed)
    me.met("landing: rows" if done.rows else "landing: nothing")
    me.note("has landed {} rows", done.rows)
    return bool(worlds or done.rows)


async def projected(me: Process) -> bool | None:
    """Project once; say whether anything waited, None if that is not known."""
    stage = me.stage
    projection = Projection(me.authority, me.lake, stage.storage)
    bounds = stage.pick(AUDIT_BOUNDS) if stage.is_storm else AuditBounds()
    try:
        found = await waiting(me.authority, stage.storage, now=me.now)
        worlds = [ref.world for ref in found.unread]
        done = await projection.project(
            worlds,
            holder=Holder(me.new_token()),
            new_token=me.new_token,
            bounds=bounds,
            lease_ms=me.lease_ms(),
        )
    except PerdureError as error:
        _told(me, "projection", error)
        return None
    _check(me, "projection", done.failed)
    me.met("projection: events" if done.events else "projection: nothing")
    me.note("has projected {} events", done.events)
    return bool(worlds or done.events)


async def trimmed(me: Process) -> None:
    """Trim once."""
    stage = me.stage
    trimming = Trimming(
        me.authority, me.objects, stage.storage, me.now, block_entries=BLOCK_ENTRIES
    )
    try:
        done, _ = await trimming.trim(
            [WorldId(each) for each in sorted(stage.entities)], grace_ms=GRACE_MS_MIN
        )
    except PerdureError as error:
        _told(me, "trim", error)
        return
    gone = done.segments + done.checkpoints + done.orphans + done.archived
    me.met("trim: something" if gone else "trim: nothing")
    me.note("has trimmed: {}", done)


def _told(me: Process, what: str, error: PerdureError) -> None:
    me.met(f"{what}: {error.code}")
    me.note("is told of its {}: {}", what, error)
    me.check(what, error)


def _check(me: Process, what: str, failed: Sequence[tuple[WorldId, Corrupt]]) -> None:
    for world, error in failed:
        me.check(what, error, world)
