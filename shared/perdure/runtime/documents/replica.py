"""Following a document store as a replica: its log is read and applied, and the lag is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from perdure.kernel.documents.create import CreateDocumentStore, DocumentStoreInfo
from perdure.kernel.documents.errors import LogTrimmed, StillBound, StoreDiverged
from perdure.kernel.documents.log import LOG_PAGE_ENTRIES, LogPage, LogPlace
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Logged, StoreHead
from perdure.kernel.documents.replica import (
    Applied,
    ApplyLogged,
    PromoteReplica,
    check_chain,
    check_follows,
)
from perdure.kernel.errors import Contended, Unavailable
from perdure.kernel.ids import Epoch, Lineage, Seq
from perdure.runtime.documents.follow.feed import caught_up
from perdure.runtime.documents.jobs.hinting import hint_jobs, jobs_in
from perdure.runtime.documents.log import read_log
from perdure.runtime.documents.reading import whole_head
from perdure.runtime.documents.store import OpenStore, StoreMeans
from perdure.runtime.steady import steadily

IDLE_SECONDS: Final = 0.2
"""Pause of a replica that has all of its source."""

RETRY_SECONDS_MAX: Final = 10.0

APPLIED_TRIES: Final = 4
"""Looks at a replica that a commit does not fit, before it is diverged for good. Source: what
DynamoDB shows in part it shows in full within milliseconds."""


class SourceLog(Protocol):
    """The log of a source, wherever that is."""

    async def read(self, place: LogPlace) -> LogPage:
        """Return the next commits behind a place.

        Raises: LogTrimmed, LineageChanged, StaleCursor, Unavailable kinds.
        """
        ...


class StoreLog:
    """The log of a store that this process can read."""

    def __init__(
        self, means: StoreMeans, ref: DocumentStoreRef, *, limit: int = LOG_PAGE_ENTRIES
    ) -> None:
        self._means = means
        self._ref = ref
        self._limit = limit

    async def read(self, place: LogPlace) -> LogPage:
        means = self._means
        return await read_log(
            means.authority, self._ref, place, pause=means.pause, limit=self._limit
        )


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a replica is behind its source."""

    seq: Seq
    """The last commit that the replica has."""

    source_seq: Seq
    """The last one of the source, when it was last seen."""

    ms: int
    """Age of the last commit that the replica has, by this process's clock; 0 if it lacks none."""

    waits_for: str | None = None
    """What neither side answered, if one of them does not at present."""

    @property
    def commits(self) -> int:
        """Commits that the replica lacks."""
        return max(0, self.source_seq - self.seq)


async def create_replica(
    means: StoreMeans, ref: DocumentStoreRef, lineage: Lineage, *, app: str = ""
) -> DocumentStoreInfo:
    """Begin an empty replica of a store whose log is whole, or find it. Raises InvalidId, Conflict."""
    request = CreateDocumentStore(ref, lineage, app, follows=True).checked()
    info: DocumentStoreInfo = await means.authority.execute(request)
    return info


async def promote(means: StoreMeans, ref: DocumentStoreRef) -> StoreHead:
    """Let a replica be a store of its own, and its jobs be found from now on.

    All its documents are read for that. The same again goes on where it stopped.
    Raises: NotFound, StoreImporting, StoreDiverged.
    """
    head = await means.authority.execute(PromoteReplica(ref))
    jobs = [job async for job in jobs_in(means, ref)]
    await hint_jobs(means, ref, jobs)
    return head


async def apply_batch(
    replica: OpenStore, commits: Sequence[Logged], *, epoch: Epoch = Epoch(0)
) -> Seq:
    """Apply commits of the source, one after another, and return the last that the replica has.

    They must follow the last one of the replica without a gap. Each is one commit here too, and is
    told to whoever follows this handle: what stops in between leaves the replica at a commit of its
    source, and the rest can be applied later.
    Raises: StillBound while anything of the replica is in somebody's hand; NotAFollower;
    StoreDiverged for what does not fit, and from then on; NewerWriter; StoreClosed.
    """
    check_chain(commits)
    if replica.is_bound:
        raise StillBound(
            expected="a replica that nobody has a part of in hand",
            found="tables or documents that are bound in this process",
        )
    async with replica.in_line():
        for entry in commits:
            request = ApplyLogged(replica.ref, entry, epoch)
            applied = await _applied(replica.means, request)
            if applied.diverged is not None:
                error = StoreDiverged(
                    expected=f"document store {replica.ref.store!r} as its source is",
                    found=applied.diverged,
                )
                replica.feed.fail(error)
                raise error
            replica.saw(applied.seq, entry.next_id)
            await caught_up(replica.feed, replica.means, replica.ref, Seq(entry.seq - 1))
            replica.feed.offer(entry)
    return replica.seq


async def _applied(means: StoreMeans, request: ApplyLogged) -> Applied:
    """Apply a commit; that it does not fit is believed when it does not for some time."""
    try:
        return await steadily(means.authority, request, tries=APPLIED_TRIES, pause=means.pause)
    except Contended:
        return await means.authority.execute(replace(request, is_sure=True))


async def catch_up(
    source: SourceLog, replica: OpenStore, *, saw: Callable[[Lag], None] | None = None
) -> Lag:
    """Apply what the replica lacks until it has all that the source had at the last look.

    Raises: as :func:`apply_batch`; LogTrimmed if the source's log begins behind the replica's last
    commit: import a new export; LineageChanged, StaleCursor for another source, or one that went
    another way; Unavailable kinds.
    """
    head = await whole_head(replica.means.authority, replica.ref)
    check_follows(head, replica.ref)  # also if there is nothing to apply: no lag would be true
    seq, digest = head.seq, head.digest
    while True:
        page = await _page(source, LogPlace(seq, digest, head.lineage))
        if page.entries:
            seq = await apply_batch(replica, page.entries, epoch=page.head.epoch)
            digest = page.entries[-1].digest
        behind = page.entries[-1].at if page.entries else replica.means.now()
        lacks = seq < page.head.seq
        lag = Lag(seq, page.head.seq, max(0, replica.means.now() - behind) if lacks else 0)
        if saw is not None:
            saw(lag)
        if not lacks:
            return lag


async def follow_as_replica(
    source: SourceLog,
    replica: OpenStore,
    *,
    saw: Callable[[Lag], None],
    is_over: Callable[[], bool] = lambda: False,
    idle_seconds: float = IDLE_SECONDS,
) -> Lag | None:
    """Keep a replica at its source until ``is_over`` says so, and tell the lag after each look.

    While one side does not answer it waits, longer each time: a restart of either loses nothing.
    Returns the last lag. Raises: as :func:`catch_up`, but for Unavailable kinds.
    """
    lag: Lag | None = None
    failures = 0
    while not is_over():
        try:
            lag = await catch_up(source, replica, saw=saw)
            failures = 0
        except Unavailable as error:
            failures += 1
            at = replica.seq
            seen = lag or Lag(at, at, 0)
            saw(Lag(at, max(at, seen.source_seq), seen.ms, waits_for=str(error)))
        await replica.means.pause(min(idle_seconds * 2 ** min(failures, 10), RETRY_SECONDS_MAX))
    return lag


async def _page(source: SourceLog, place: LogPlace) -> LogPage:
    try:
        return await source.read(place)
    except LogTrimmed as error:
        raise LogTrimmed(
            expected=error.expected, found=f"{error.found}: import a new export of the source"
        ) from error
