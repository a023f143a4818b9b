"""The pages of a world against its log: what is open is in one page, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.kernel import ranges
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition, Seq, Sequence
from perdure.kernel.inspect import FindPages, Held
from perdure.kernel.pages import Page, PageEntry
from perdure.kernel.places import WorldRef
from perdure.kernel.ranges import Ranges
from perdure.kernel.reading import FindWorld, WorldState
from perdure.runtime.findings import Finding, inspected
from perdure.runtime.ports import Executes
from perdure.runtime.verify_open import Open, spelled

STRAY_SHOWN_MAX = 5


async def checked_pages(authority: Executes, found: WorldState, opened: Open) -> list[Finding]:
    """Compare what pages name with what is ``opened``; of a world that moved on, nothing is said."""
    world = found.head.partition
    findings: list[Finding] = []
    entries: list[PageEntry] = []
    beyond = "due/"
    while True:
        try:
            keys = await authority.execute(FindPages(world, beyond))
        except Corrupt as error:  # one of them cannot even be unpacked
            where = f"pages of world {found.world.world}"
            return [*findings, Finding("page", where, error.expected, error.found)]
        if not keys:
            break
        for key, held in zip(keys, await inspected(authority, world, keys), strict=True):
            try:
                entries += _entries(held)
            except Corrupt as error:
                where = f"page {key.sort.removeprefix('due/')}"
                findings.append(Finding("page", where, "a page of open commands", error.found))
        beyond = keys[-1].sort
    now = (await authority.execute(FindWorld(found.world.ref))).head
    if now.seq == found.head.seq and opened.is_whole and not findings:
        findings += _compared(found, entries, opened)
    return findings


def _compared(found: WorldState, entries: Iterable[PageEntry], opened: Open) -> list[Finding]:
    world = found.head.partition
    by_origin: dict[tuple[Partition, Seq, int], list[Sequence]] = {}
    for place in opened.places.values():
        by_origin.setdefault(place.origin, []).append(place.sequence)
    storage = found.world.storage
    ancestors = {WorldRef(storage, each.world).partition for each in found.world.lineage}
    named: list[Ranges] = []
    stray: list[str] = []
    for entry in entries:
        known = ranges.ranges(by_origin.get((entry.world or world, entry.seq, entry.group), ()))
        held = known if entry.open is None else entry.open
        named.append(held)
        if entry.world is not None and entry.world not in ancestors:
            stray.append(f"log entry {entry.seq} of {entry.world}")
        if entry.world is None and entry.seq >= opened.below_seq:
            size = entry.count if entry.open is None else ranges.size(entry.open)
            if not ranges.covers(known, held) or ranges.size(held) != size:
                stray.append(f"log entry {entry.seq}, group {entry.group}")
    own = (place.sequence for place in opened.places.values() if not place.is_inherited)
    lost = ranges.difference(ranges.ranges(own), ranges.union(*named))
    where = f"pages of world {found.world.world}"
    findings = []
    if lost:
        told = f"sequences {spelled(lost)} in none"
        findings.append(Finding("page", where, "every open command in a page", told))
    if stray:
        told = f"others, of {', '.join(stray[:STRAY_SHOWN_MAX])}"
        findings.append(Finding("page", where, "only open commands in pages", told))
    return findings


def _entries(held: Held[Page]) -> tuple[PageEntry, ...]:
    """Return the entries of a page. Raises Corrupt."""
    if held.flaw is not None:
        raise Corrupt(expected="a page", found=held.flaw)
    return () if held.record is None else held.record.entries
