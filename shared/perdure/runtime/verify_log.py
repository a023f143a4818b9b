"""The chain of a log, walked link by link, so that the entry at fault is the one named."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace

from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Partition, Seq
from perdure.kernel.inspect import INSPECTED_MAX, Held
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.places import WorldRef
from perdure.lake.objects import ObjectStore
from perdure.runtime.archive import archives_of, bodies_of
from perdure.runtime.findings import Finding, inspected
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class Link:
    """One place of a log: its entry if that is sound, else what was found there."""

    seq: Seq
    entry: LogEntry | None
    finding: Finding | None


@dataclass(slots=True)
class _Chain:
    """Judges entries in order. Each is claimed by the one behind it, the last by the head."""

    last: str
    """The digest that the head records."""

    trusted: str | None = ""
    """Digest of the entry before, None while nobody knows it."""

    waiting: deque[tuple[Seq, Held[LogEntry]]] = field(default_factory=deque)

    def judged(self) -> Link:
        """Judge the first that waits; those behind it say what it must be."""
        seq, held = self.waiting.popleft()
        claimed = self._claim_on_previous(0)
        entry = held.record
        if entry is None or entry.seq != seq:
            self.trusted = claimed
            return _flawed(seq, "a log entry", held.flaw or "none")
        before, self.trusted = self.trusted, claimed if claimed is not None else entry.digest
        if before is not None and entry.previous != before:
            return _flawed(
                seq, f"the digest {before[:12]}… of the entry before", f"{entry.previous[:12]}…"
            )
        if claimed is not None and entry.digest != claimed:
            if self._next_is_at_fault(entry):
                self.trusted = entry.digest
                return Link(seq, entry, None)
            return _flawed(seq, f"digest {claimed[:12]}…", f"{entry.digest[:12]}…")
        return Link(seq, entry, None)

    def _claim_on_previous(self, place: int) -> str | None:
        if place >= len(self.waiting):
            return self.last
        following = self.waiting[place][1].record
        return None if following is None else following.previous

    def _next_is_at_fault(self, entry: LogEntry) -> bool:
        """Say whether the next entry is what it should be but for its link to this one."""
        following = self.waiting[0][1].record if self.waiting else None
        if following is None:
            return False
        return replace(following, previous=entry.digest).digest == self._claim_on_previous(1)


async def links(
    authority: Executes, world: Partition, last: Seq, digest: str
) -> AsyncIterator[Link]:
    """Yield every place of a log from 1 to ``last``, whose digest is ``digest``, judged."""
    chain = _Chain(digest)
    for first in range(1, last + 1, INSPECTED_MAX):
        seqs = [Seq(seq) for seq in range(first, min(first + INSPECTED_MAX, last + 1))]
        held = await inspected(authority, world, [log_key(world, seq) for seq in seqs])
        chain.waiting += zip(seqs, held, strict=True)
        while len(chain.waiting) > 2:
            yield chain.judged()
    while chain.waiting:
        yield chain.judged()


async def checked_archives(
    authority: Executes, objects: ObjectStore, ref: WorldRef, known: Iterable[Finding]
) -> list[Finding]:
    """Read the archives of a log where they lie: a warm process walks what it read before.

    One that ``known`` findings name already is not named again.
    """
    told = " ".join(finding.found for finding in known)
    findings: list[Finding] = []
    try:
        async for archive in archives_of(authority, ref):
            if archive.object in told:
                continue
            try:
                await bodies_of(archive, objects)
            except Corrupt as error:
                these = f"log entries {archive.first} to {archive.last}"
                findings.append(Finding("log", these, error.expected, error.found))
    except Corrupt as error:  # the record of one cannot be read, nor those behind it
        findings.append(Finding("log", "archives of the log", error.expected, error.found))
    return findings


def joined(findings: Iterable[Finding], more: Finding, seq: Seq) -> list[Finding]:
    """Return findings and one ``more`` of a log, as one where it goes on with the last."""
    found = list(findings)
    last = found[-1] if found else None
    if last is None or (last.kind, last.expected, last.found) != (
        more.kind,
        more.expected,
        more.found,
    ):
        return [*found, more]
    first, _, until = (
        last.where.removeprefix("log entry ").removeprefix("log entries ").partition(" to ")
    )
    if int(until or first) + 1 != seq:
        return [*found, more]
    return [*found[:-1], replace(last, where=f"log entries {first} to {seq}")]


def _flawed(seq: Seq, expected: str, found: str) -> Link:
    return Link(seq, None, Finding("log", f"log entry {seq}", expected, found))
