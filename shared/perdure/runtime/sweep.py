"""The sweep: objects that nothing names any more are found by reference, never by age alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from perdure.kernel.ids import Partition, Tick
from perdure.kernel.reading import WorldState
from perdure.kernel.records import Manifest, TableRows, manifest_key
from perdure.kernel.trim import Trim
from perdure.lake.objects import ObjectStore
from perdure.runtime.findings import inspected
from perdure.runtime.ports import Executes

Fate = Literal["kept", "undecided", "segment", "checkpoint", "orphan"]
"""Why an object stays, or what it was that goes."""

_ROWS: Final = re.compile(r"(segment|checkpoint)/[^/]+/\d+/(\d{19})\.[^/]+")
_ARCHIVE: Final = re.compile(r"archive/[^/]+/(\d{19})\.[0-9a-f]{16}\.log")


@dataclass(slots=True)
class Swept:
    """How many objects went, or would go, and of what kind they were."""

    segments: int = 0
    checkpoints: int = 0
    orphans: int = 0
    undecided: int = 0
    bytes: int = 0


async def sweep(
    authority: Executes,
    objects: ObjectStore,
    found: WorldState,
    trim: Trim,
    listed: Mapping[str, int],
    archives: Collection[str],
    *,
    dry_run: bool,
) -> Swept:
    """Delete, of one world's ``listed`` objects, what ``trim`` lets go of and what is orphaned.

    ``found`` must have been read after the objects were listed. An object of a tick that is
    not published stays while somebody may publish it.
    """
    ticks = {Tick(int(rows[2])) for name in listed for rows in [_ROWS.fullmatch(name)] if rows}
    manifests = await _manifests(
        authority, found.head.partition, sorted(tick for tick in ticks if tick <= found.published)
    )
    swept = Swept()
    for name, size in listed.items():
        fate = _fate(name, found, trim, manifests, archives)
        if fate == "undecided":
            swept.undecided += 1
        if fate in {"kept", "undecided"}:
            continue
        if not dry_run:
            await objects.delete(name)
        swept.segments += fate == "segment"
        swept.checkpoints += fate == "checkpoint"
        swept.orphans += fate == "orphan"
        swept.bytes += size
    return swept


def _fate(
    name: str,
    found: WorldState,
    trim: Trim,
    manifests: Mapping[Tick, Manifest],
    archives: Collection[str],
) -> Fate:
    rows = _ROWS.fullmatch(name)
    if rows is None:
        archive = _ARCHIVE.fullmatch(name)
        is_decided = archive is not None and int(archive[1]) <= trim.log_through
        return "orphan" if is_decided and name not in archives else "kept"
    tick = Tick(int(rows[2]))
    if tick > found.published:
        # A writer lets its fence go when it is done with its ticks; the next one uses other names.
        is_held = found.head.fence.holder is not None and found.head.status != "destroyed"
        return "undecided" if is_held else "orphan"
    manifest = manifests.get(tick)
    if manifest is None:
        return "kept"  # what cannot be read refutes nothing
    is_rows = name in _names(manifest.tables)
    is_whole = name in _names(manifest.checkpoint or ())
    if not is_rows and not is_whole:
        return "orphan"
    rows_are_gone = not is_rows or tick <= trim.segments_through
    whole_is_gone = not is_whole or trim.may_lack_checkpoint(tick)
    if rows_are_gone and whole_is_gone:
        return "segment" if is_rows else "checkpoint"
    return "kept"


def _names(tables: Iterable[TableRows]) -> set[str]:
    return {each.segment for each in tables if each.segment is not None}


async def _manifests(
    authority: Executes, world: Partition, ticks: list[Tick]
) -> dict[Tick, Manifest]:
    held = await inspected(authority, world, [manifest_key(world, tick) for tick in ticks])
    return {
        tick: each.record for tick, each in zip(ticks, held, strict=True) if each.record is not None
    }
