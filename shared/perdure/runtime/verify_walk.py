"""The walk of a verification: log and manifests side by side, tick after tick."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.kernel import ranges
from perdure.kernel.ids import IN_TICK_ENTITY_FIRST, EntityId, Tick
from perdure.kernel.inspect import INSPECTED_MAX, Held
from perdure.kernel.reading import FindWorld
from perdure.kernel.reading import WorldState as Found
from perdure.kernel.records import Manifest, manifest_key
from perdure.kernel.trim import Trim, trim_key
from perdure.lake.state import WorldState, rebuilt
from perdure.runtime.app import App
from perdure.runtime.findings import Finding, inspected
from perdure.runtime.plan import Part
from perdure.runtime.ports import Executes
from perdure.runtime.recompute import compared, compared_checkpoint, recomputed
from perdure.runtime.stored import StoredRows
from perdure.runtime.verify_head import Counted, checked_head
from perdure.runtime.verify_log import Link, checked_archives, joined, links
from perdure.runtime.verify_open import Open
from perdure.runtime.verify_pages import checked_pages
from perdure.runtime.verify_rows import CheckedRows, checked_rows

PAGES_TRIES: Final = 4
"""Times pages are looked at before it is said that they are not what the log says."""


@dataclass(slots=True)
class Walk:
    """One walk along a world's log and manifests; it collects what it finds."""

    authority: Executes
    app: App
    found: Found
    parts: list[Part]
    stored: StoredRows
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    findings: list[Finding] = field(default_factory=list)
    _open: Open = field(default_factory=Open)
    _counted: Counted = field(default_factory=Counted)
    _state: WorldState | None = None
    """The world as its stored rows say, after the tick last looked at; None for unknown."""

    _next_entity_id: EntityId = IN_TICK_ENTITY_FIRST
    _digest: str | None = ""
    """Digest of the manifest before, None while nobody knows it."""

    _ahead: Link | None = None

    async def along(
        self, first: Tick, last: Tick, go_on: Callable[[], bool]
    ) -> tuple[int, Tick | None]:
        """Check ticks ``first`` to ``last``; return how many, and where to go on."""
        part, head = self.parts[-1], self.found.head
        for ancestor in self.parts[:-1]:
            await self._inherit(ancestor)
        if self._begins_elsewhere(part):
            self._digest = None
        trim = await self._trim(part)
        log = links(self.authority, head.partition, head.seq, head.log_digest)
        checked = 0
        async for tick, held in self._manifests(part, Tick(min(part.last, last))):
            is_wanted = tick >= first
            facts = await self._followed(log, tick, held.record, is_wanted=is_wanted)
            manifest = self._sound(tick, held, facts, is_wanted=is_wanted)
            if is_wanted and tick == first:
                self._state = await self._base(part, tick)
            if manifest is None:
                self._state, self._open.is_whole = None, False
            elif is_wanted:
                await self._check(part, manifest, trim)
            if manifest is not None:
                self._open.settle(manifest)
                self._counted.settle(manifest)
                self._next_entity_id = manifest.next_in_tick_entity_id
            checked += is_wanted
            if is_wanted and tick < last and not go_on():
                return checked, Tick(tick + 1)
        if last == self.found.published:
            await self._end(log)
        return checked, None

    def _begins_elsewhere(self, part: Part) -> bool:
        """Say whether the first tick holds a state that came from another storage."""
        return len(self.parts) == 1 and part.first > 0

    async def _base(self, part: Part, tick: Tick) -> WorldState | None:
        if tick == part.first and self._begins_elsewhere(part):
            return None
        return await self.stored.state_at(self.parts, Tick(tick - 1))

    async def _inherit(self, part: Part) -> None:
        """Take over what is open at the end of an ancestor's part.

        A fork was made before its source published the tick after: what was admitted until
        then may have come along. Whether a cancellation of that time came first is not known.
        """
        world = part.world.ref.partition
        head = (await self.authority.execute(FindWorld(part.world.ref))).head
        manifests = {}
        async for tick, held in self._manifests(part, part.last):
            manifests[tick] = held.record
            if held.record is None:
                self._open.is_whole = False
            else:
                self._digest = held.record.digest
                self._next_entity_id = held.record.next_in_tick_entity_id
        published = Tick(part.first - 1)
        async for link in links(self.authority, world, head.seq, head.log_digest):
            entry = link.entry
            if entry is None:
                self._open.is_whole = False
            elif entry.kind == "published":
                published = Tick(entry.facts["tick"])
                if published > part.last:
                    break
                manifest = manifests.get(published)
                if manifest is not None:
                    self._open.settle(manifest)
            elif entry.kind == "admitted" or published < part.last:
                self._open.follow(entry, inherited=True)

    async def _trim(self, part: Part) -> Trim:
        world = part.world.ref.partition
        (held,) = await inspected(self.authority, world, [trim_key(world)])
        return held.record or Trim(partition=world)

    async def _manifests(
        self, part: Part, last: Tick
    ) -> AsyncIterator[tuple[Tick, Held[Manifest]]]:
        world = part.world.ref.partition
        for start in range(part.first, last + 1, INSPECTED_MAX):
            ticks = [Tick(n) for n in range(start, min(last + 1, start + INSPECTED_MAX))]
            held = await inspected(self.authority, world, [manifest_key(world, n) for n in ticks])
            for pair in zip(ticks, held, strict=True):
                yield pair

    async def _followed(
        self, log: AsyncIterator[Link], tick: Tick, manifest: Manifest | None, *, is_wanted: bool
    ) -> Mapping[str, Any] | None:
        """Follow the log until the entry of a tick's publication; return what that says."""
        while True:
            link = self._ahead or await anext(log, None)
            self._ahead = None
            if link is None:
                return None
            entry = link.entry
            if entry is not None and entry.kind == "published" and entry.facts["tick"] > tick:
                self._ahead = link  # the one that was looked for is among those that are not sound
                return None
            self._take(link, is_wanted=is_wanted)
            if entry is None:
                if manifest is not None and link.seq == manifest.seq:
                    return None
            elif entry.kind == "published":
                return entry.facts

    def _take(self, link: Link, *, is_wanted: bool) -> None:
        if link.finding is not None:
            self._open.is_whole = False
            if is_wanted:
                self.findings = joined(self.findings, link.finding, link.seq)
        if link.entry is not None:
            self._open.follow(link.entry)
            self._counted.follow(link.entry)

    def _sound(
        self,
        tick: Tick,
        held: Held[Manifest],
        facts: Mapping[str, Any] | None,
        *,
        is_wanted: bool,
    ) -> Manifest | None:
        """Return a manifest if the log, or else the head, says that it is the published one."""
        known: str | None = None if facts is None else facts["manifest"]
        if known is None and tick == self.found.published:
            known = self.found.head.manifest_digest
        manifest, before = held.record, self._digest
        self._digest = known if known is not None or manifest is None else manifest.digest
        finding = None
        where = f"manifest {tick}"
        if manifest is None:
            finding = Finding("manifest", where, "a manifest", held.flaw or "none")
        elif known is not None and manifest.digest != known:
            finding = Finding(
                "manifest", where, f"digest {known[:12]}…", f"{manifest.digest[:12]}…"
            )
        elif before is not None and manifest.previous != before:
            finding = Finding(
                "manifest",
                where,
                f"the digest {before[:12]}… of the one before",
                f"{manifest.previous[:12]}…",
            )
        if finding is None:
            return manifest
        self.findings += [finding] if is_wanted else []
        return None

    async def _check(self, part: Part, manifest: Manifest, trim: Trim) -> None:
        """Compare a tick with what was due, with its rows, and with itself done again."""
        self.findings += self._open.check(manifest)
        rows = await checked_rows(self.stored, part, manifest, trim)
        self.findings += rows.findings
        before, after = self._state, None
        if before is not None and self._knows_commands(manifest):
            again = await recomputed(
                self.app,
                part.world,
                manifest,
                before,
                self._open.applied(manifest),
                self._next_entity_id,
            )
            self.findings += again.findings
            after = again.state
            if after is not None:
                different = compared(manifest, again.tables, rows.tables)
                self.findings += different if rows.is_whole else []
                if rows.checkpoint is not None and not different:
                    self.findings += compared_checkpoint(manifest, after, rows.checkpoint)
                if different:
                    after = None
        self._state = _after(before, after, rows)

    def _knows_commands(self, manifest: Manifest) -> bool:
        return all(each in self._open.places for each in ranges.members(manifest.settled))

    async def _pages(self) -> list[Finding]:
        """Check the pages, and again: what a running commit shows in part soon shows whole."""
        for attempt in range(PAGES_TRIES - 1):
            findings = await checked_pages(self.authority, self.found, self._open)
            if not findings:
                return findings
            await self.pause(0.005 * 2**attempt)
        return await checked_pages(self.authority, self.found, self._open)

    async def _end(self, log: AsyncIterator[Link]) -> None:
        """Read the log on to its end, and compare the head with what it is the head of."""
        if self._ahead is not None:
            self._take(self._ahead, is_wanted=True)
        async for link in log:
            self._take(link, is_wanted=True)
        self.findings += await checked_archives(
            self.authority, self.stored.objects, self.found.world.ref, self.findings
        )
        self.findings += await self._pages()
        self.findings += await checked_head(self.authority, self.found, self._counted, self._open)
        recorded = self.found.head.manifest_digest
        if self._digest is not None and self._digest != recorded:
            self.findings.append(
                Finding(
                    "head",
                    f"head of world {self.found.world.world}",
                    f"manifest digest {self._digest[:12]}…",
                    f"{recorded[:12]}…",
                )
            )


def _after(
    before: WorldState | None, again: WorldState | None, rows: CheckedRows
) -> WorldState | None:
    """Return the state after a tick: what was stored decides, done again it only spares work."""
    if again is not None:
        return again
    if before is not None and rows.is_whole:
        return before.advanced(rows.rows)
    return None if rows.base is None else rebuilt([rows.base])
