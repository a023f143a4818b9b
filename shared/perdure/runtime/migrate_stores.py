"""The document stores of a storage that moves: stilled, found at rest, alive elsewhere, left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.kernel.documents.errors import UnknownJob
from perdure.kernel.documents.jobs.describe import DescribeJob
from perdure.kernel.documents.moving import (
    ActivateStore,
    FindStoreHead,
    FreeStore,
    PartStore,
    StillStore,
    unquiet_store,
)
from perdure.kernel.documents.records import DocumentStore
from perdure.kernel.errors import Conflict, Corrupt, NotQuiescent
from perdure.kernel.ids import Instant
from perdure.kernel.limits import LEASE_MS_MAX
from perdure.runtime.documents.jobs.hinting import hint_jobs, jobs_in
from perdure.runtime.documents.reading import AtOnce
from perdure.runtime.inventory import Progress, Side, compare, silent
from perdure.runtime.session.ports import Pause


@dataclass(frozen=True, slots=True)
class StoresMoved:
    """The document stores of one side of a migration, and what becomes of them there."""

    side: Side
    stores: Sequence[DocumentStore]
    """As the source has them."""

    pause: Pause
    progress: Progress = silent

    @property
    def _at_once(self) -> AtOnce:
        return AtOnce(self.side.authority, self.pause)

    async def check_quiet(self, now: Instant) -> None:
        """Refuse stores that are not at rest, and change nothing. Raises NotQuiescent."""
        for store in self.stores:
            ref = self.side.store_ref(store)
            head = await self.side.authority.execute(FindStoreHead(ref))
            refused = unquiet_store(ref, head, now)
            if refused is not None:
                raise refused
            if not head.follows:  # the jobs of a replica are run elsewhere
                await self._check_unheld(store, now)

    async def still(self, migration: str, now: Instant) -> None:
        """Let the stores take no commit, nor be in the middle of a job. Raises NotQuiescent."""
        for done, store in enumerate(self.stores):
            self.progress("stilling stores", done, len(self.stores))
            await self.side.authority.execute(StillStore(self.side.store_ref(store), migration))
        await self.check_quiet(now)

    async def free(self) -> None:
        """Let the stores go on where they are, whose migration was given up. Raises Conflict."""
        for store in self.stores:
            await self.side.authority.execute(FreeStore(self.side.store_ref(store)))

    async def activate(self) -> None:
        """Let the stores appear on this side, and their jobs be found. Raises Conflict."""
        for done, store in enumerate(self.stores):
            self.progress("activating stores", done, len(self.stores))
            ref = self.side.store_ref(store)
            await self.side.authority.execute(ActivateStore(ref, store))
            head = await self.side.authority.execute(FindStoreHead(ref))
            if head.follows:  # what makes it a store of its own lets its jobs be found
                continue
            self.progress("hinting jobs", done, len(self.stores))
            jobs = [job async for job in jobs_in(self._at_once, ref)]
            await hint_jobs(self._at_once, ref, jobs)

    async def part(self) -> None:
        """Say of the stores that they live elsewhere from now on."""
        for done, store in enumerate(self.stores):
            self.progress("leaving stores", done, len(self.stores))
            await self.side.authority.execute(PartStore(self.side.store_ref(store)))

    async def _check_unheld(self, store: DocumentStore, now: Instant) -> None:
        ref = self.side.store_ref(store)
        async for job in jobs_in(self._at_once, ref):
            try:
                info = await self._at_once.execute(DescribeJob(ref, job))
            except (UnknownJob, Corrupt):
                continue  # ended meanwhile; or a document which only lies where jobs do
            if info.held_until is not None and now < info.held_until <= now + LEASE_MS_MAX:
                raise NotQuiescent(
                    expected="every document store of the source at rest",
                    found=f"document store {ref.store!r} whose job {job} is worked on for"
                    f" {info.held_until - now} ms more",
                )


def check_cold(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Hold what a new process found of the copy to what the source says. Raises Conflict.

    The copy may have gone on by then. While it has not, its export is that of the source, byte
    for byte.
    """
    for store, left in expected.items():
        right = found.get(store)
        if right is None or right["lineage"] != left["lineage"] or right["seq"] < left["seq"]:
            raise Conflict(
                expected=f"document store {store!r} of lineage {left['lineage']}, at commit"
                f" {left['seq']} or a later one",
                found="none" if right is None else f"{right['lineage']}, at {right['seq']}",
            )
        if (right["seq"], right["epoch"]) == (left["seq"], left["epoch"]):
            what = f"document store {store!r} as the source has it"
            compare({"export": left["export"]}, {"export": right["export"]}, what)
