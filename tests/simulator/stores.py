"""Stores that a process has in its hand: the way to the disk, and what is lost on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from tests.simulator.disk import Disk
from tests.simulator.faults import Faults
from tests.simulator.loop import SimulatedLoop
from tests.simulator.trace import Trace

from perdure.authority.store import RevisionConflict
from perdure.kernel.commit import Commit
from perdure.kernel.errors import OutcomeUnknown, StoreUnavailable
from perdure.kernel.view import Key, Reads, Stored, View

TIMEOUT_SECONDS = 3.0
LATE_TIMES = 5.0
"""So many time-outs later, at most, does a commit arrive that its sender gave up."""


@dataclass(eq=False, slots=True)
class PlainStore:
    """A store as the engine knows it, whose calls take time and may go wrong."""

    who: str
    loop: SimulatedLoop
    disk: Disk
    faults: Faults
    trace: Trace
    is_torn: bool

    async def load(self, reads: Reads) -> View:
        await self._hop()
        fault = self.faults.drawn(self.faults.weather.loads)
        if fault is not None:
            self.trace.tell(self.who, "loads, and has no answer")
            raise StoreUnavailable(expected="an answer to a load", found=fault)
        if not self.is_torn or reads.snapshot or not reads.ranges:
            view = self.disk.look(reads)
        else:
            view = await self._in_parts(reads)
        view.is_snapshot = not self.is_torn or (reads.snapshot and not reads.ranges)
        self.trace.tell(self.who, "loads {}", reads)
        await self._hop()
        return view

    async def commit(self, commit: Commit) -> None:
        answer: asyncio.Future[None] = self.loop.create_future()
        fault = self.faults.drawn(self.faults.weather.commits)
        self.trace.tell(self.who, "sends {}{}", commit, fault)
        self.loop.outside(self.faults.hop(), self._arrive, commit, fault, answer)
        await answer

    async def close(self) -> None:
        """Nothing is open."""

    def _arrive(self, commit: Commit, fault: str | None, answer: asyncio.Future[None]) -> None:
        error: Exception | None = None
        wait = self.faults.hop()
        timeout = TIMEOUT_SECONDS * self.faults.pace
        unknown = OutcomeUnknown(expected="an answer to a commit", found="none")
        match fault:
            case "lost before":
                error, wait = unknown, timeout
            case "late":
                error, wait = unknown, timeout
                late = timeout * (1 + self.faults.chance.random() * LATE_TIMES)
                self.loop.outside(late, self._applied, commit)
            case "lost after":
                self._applied(commit)
                error, wait = unknown, timeout
            case "twice":
                self._applied(commit)
                error = self._applied(commit)
            case "conflict":
                error = RevisionConflict(*(action.key for action in commit.actions))
            case "busy":
                error = StoreUnavailable(expected="an answer to a commit", found="a busy store")
            case _:
                error = self._applied(commit)
        self.loop.outside(wait, self._answer, commit, error, answer)

    def _applied(self, commit: Commit) -> RevisionConflict | None:
        torn = self.is_torn and self.faults.chance.random() < self.faults.weather.torn
        try:
            self.disk.apply(commit, torn=torn)
        except RevisionConflict as conflict:
            self.trace.tell(self.who, "loses a race with {}", commit)
            return conflict
        return None

    def _answer(
        self, commit: Commit, error: Exception | None, answer: asyncio.Future[None]
    ) -> None:
        if answer.done():
            return
        if error is None:
            self.disk.answered(commit)
            answer.set_result(None)
        else:
            answer.set_exception(error)

    async def _in_parts(self, reads: Reads) -> View:
        """Read named records first, then ranges page by page, with rivals in between."""
        stored: dict[Key[Any], Stored | None] = {}
        named = self.disk.look(replace(reads, ranges=()))
        stored |= named.stored
        found = {}
        for wanted in reads.ranges:
            keys: list[Key[Any]] = []
            rest = wanted
            while True:
                await self._hop()
                size = min(self.faults.weather.page_records, wanted.limit - len(keys))
                page = self.disk.look(Reads(ranges=(part := replace(rest, limit=size),)))
                got = page.keys_of(part)
                keys += got
                stored = {**page.stored, **stored}
                if len(got) < size or len(keys) >= wanted.limit:
                    break
                self.faults.seen["page boundary"] += 1
                edge = got[-1].sort
                rest = replace(
                    rest,
                    first=rest.first if wanted.descending else edge + "\0",
                    last=edge if wanted.descending else rest.last,
                )
            found[wanted] = keys
        return View(stored, found, reads.keys)

    async def _hop(self) -> None:
        await asyncio.sleep(self.faults.hop())
