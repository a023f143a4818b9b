"""Reading a document store as of one moment, however many loads that takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeVar

from perdure.kernel import limits
from perdure.kernel.documents.log import read_head
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.errors import Contended, Corrupt, Invalid, Refused, StoreRefused, TooLarge
from perdure.kernel.ids import Instant, Partition, Seq
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Missing, Reads, Request, View
from perdure.runtime.documents.showing import Showing, Views, WholeCommits, showing, stands
from perdure.runtime.ports import Executes
from perdure.runtime.session.ports import Pause
from perdure.runtime.steady import steadily

T = TypeVar("T")

ASKED_TRIES = 6
"""Times that a request which meets a half-visible commit is asked."""

READ_TRIES = 32
"""Times a reading that a commit came into is taken again."""


LOADS_MAX = 1_000
"""Loads of one reading: a page of a scan takes two, an ancestor one."""


SNAPSHOTS_MAX = 4
"""Snapshots that a reading takes, each with one thing more, before it goes on piece by piece."""


class ReadsAndExecutes(Views, Executes, Protocol):
    """Executes requests and loads records."""


async def whole_head(views: Views, ref: DocumentStoreRef) -> StoreHead:
    """Return the head of a store as it is. Raises NotFound, StoreImporting."""
    return read_head(await views.view(_only_head(ref.partition)), ref)


async def read_at_once(
    views: Views,
    ref: DocumentStoreRef,
    look: Callable[[View], T],
    pause: Pause,
    whole: WholeCommits | None = None,
) -> tuple[StoreHead, T]:
    """Return what ``look`` makes of the store as it was after one commit, and the head then.

    ``look`` is asked again after each load of what it lacked. Where loads are not of one moment,
    a few records are read as a snapshot; else the last commit is looked at until it shows, unless
    ``whole`` knows that, and the head is read as a snapshot at the end: if it has changed, all is
    read again. So is it for a no of ``look``, and once more for damage: that may be what a commit
    took away and shows still. Where loads are of one moment, so must be what it says no to, or it
    must say it twice of one head.
    Raises: NotFound, StoreImporting, Contended, and what ``look`` raises.
    """
    reading = _Reading(views, ref, whole or WholeCommits())
    refused_at: Seq | None = None
    for tries in range(READ_TRIES):
        if tries:
            await pause(0.002 * tries)
        await reading.begin()
        try:
            found = await reading.looked(look)
        except _Overtaken:
            pass
        except Invalid:
            raise  # whatever the store holds
        except Refused as error:
            if await reading.proves(error, is_second=refused_at == reading.head.seq):
                raise
            refused_at = reading.head.seq
        else:
            if await reading.is_of_one_commit():
                return reading.head, found
    raise Contended(
        expected=f"a moment without a commit to document store {ref.store!r}",
        found=f"commits during {READ_TRIES} readings",
    )


async def executed_at_once(
    authority: ReadsAndExecutes, request: Request[T], last: Seq | None, pause: Pause
) -> T:
    """Execute a request that the head of a document store orders; its refusal is of one moment.

    A refusal commits nothing that would prove what it was decided on. So it is raised only if what
    it was decided on is of one moment, or the store's last commit is still ``last``, if that is
    known, or what it was when the request was asked again.
    Raises: what the request raises, Contended.
    """
    asked: Request[T] = request
    for tries in range(READ_TRIES):
        if tries > 1:  # the first time there was nobody to wait for, as far as anybody knows
            await pause(0.002 * tries)
        try:
            return await steadily(authority, asked, tries=ASKED_TRIES, pause=pause)
        except Invalid:
            raise
        except Refused:
            if isinstance(asked, _Judged) and asked.was_snapshot:
                raise
            head_key = store_head_key(request.stream)
            head = (await authority.view(Reads(peeks=(head_key,)))).peek(head_key)
            if head is None or head.seq == last:
                raise
            last = head.seq
            asked = asked if isinstance(asked, _Judged) else _Judged(request)
    raise Contended(
        expected=f"a moment without a commit to {request.stream}",
        found=f"commits during {READ_TRIES} decisions",
    )


@dataclass(frozen=True, slots=True)
class AtOnce:
    """An authority of which every refusal is of one moment, also of who has seen no commit."""

    authority: ReadsAndExecutes
    pause: Pause

    async def execute(self, request: Request[T]) -> T:
        """Execute a request that the head of a document store orders. Raises what it raises."""
        return await executed_at_once(self.authority, request, None, self.pause)


class _Overtaken(Exception):
    """A commit has come into a reading, which is taken again."""


class _Reading:
    """A reading that is begun again with all it has looked at before."""

    def __init__(self, views: Views, ref: DocumentStoreRef, whole: WholeCommits) -> None:
        self.view = View({})
        self._views = views
        self._ref = ref
        self._whole = whole
        self._known = Reads()
        """What was looked at before, and is to be loaded piece by piece again."""
        self._showing: Showing | None = None
        """What is known of the last commit; None if nothing was read that depends on it."""
        self._always_snapshots = False
        """As far as one record tells."""
        self._snapshots_left = SNAPSHOTS_MAX

    @property
    def head(self) -> StoreHead:
        return read_head(self.view, self._ref)

    async def begin(self) -> None:
        """Load the head: of one moment with all that was looked at before, or before that.

        Raises: NotFound, StoreImporting.
        """
        known = self.view.reads()
        self._known, self._snapshots_left = Reads(), SNAPSHOTS_MAX
        self._showing = None if self._showing is not Showing.UNKNOWABLE else self._showing
        only_head = _only_head(self._ref.partition)
        if known.peeks:
            everything = Reads.union(known, only_head)
            snapshot = _is_small(everything)
            if snapshot or self._always_snapshots:
                view = await self._at_once(replace(everything, snapshot=snapshot))
                if view is not None and view.is_snapshot:
                    self.view = view
                    read_head(view, self._ref)
                    return
            self._known = known
        self.view = await self._views.view(only_head)
        self._always_snapshots = self.view.is_snapshot
        read_head(self.view, self._ref)

    async def looked(self, look: Callable[[View], T]) -> T:
        """Return what ``look`` makes of the view, with what that lacks loaded.

        Raises: _Overtaken, and what ``look`` raises.
        """
        if self._known.peeks:
            await self._load_piece(self._known)
        for _ in range(LOADS_MAX):
            try:
                return look(self.view)
            except SeenInPart as part:
                await self._check_lacking(part)
                raise part.error from part
            except Missing as missing:
                if not await self._load_all_at_once(missing.reads):
                    await self._load_piece(missing.reads)
        raise TooLarge(
            expected=f"a reading within {LOADS_MAX} loads", found="one that asks for more"
        )

    async def _check_lacking(self, part: SeenInPart) -> None:
        """Hold what a look lacks to be lacking as of one moment. Raises _Overtaken."""
        if not self.view.is_snapshot:
            at_once = await self._views.view(part.reads)
            peeks = part.reads.peeks
            if any(self.view.version(key) != at_once.version(key) for key in peeks):
                raise _Overtaken from part

    async def is_of_one_commit(self) -> bool:
        """Say whether all that was looked at is as the commit of the head has left it."""
        if self.view.is_snapshot or (len(self.view.stored) == 1 and not self.view.reads().ranges):
            return True
        if self._showing is Showing.NAMES_NO_ROWS:
            return await stands(self._views, self.head, self.view)
        # Of a commit that has just begun to show, its head may be the last: a snapshot waits for it.
        only_head = replace(_only_head(self._ref.partition), snapshot=not self._always_snapshots)
        return read_head(await self._views.view(only_head), self._ref).seq == self.head.seq

    async def proves(self, error: Refused, *, is_second: bool) -> bool:
        """Say whether a no is of one commit. The first of damage is let show whole: also what is gone.

        ``is_second`` is one that is said of the same head as the one before.
        """
        if self.view.is_snapshot or self._always_snapshots:
            return self.view.is_snapshot or is_second
        if is_second or not isinstance(error, Corrupt):
            return await self.is_of_one_commit()
        with suppress(StoreRefused):
            await stands(self._views, self.head, self.view)
        return False

    async def _load_piece(self, reads: Reads) -> None:
        """Load something behind the head: what its commit has written must show by then."""
        if self._showing is None and not self._always_snapshots:
            self._showing = await showing(self._views, self.head, self._whole)
        if self._showing is Showing.OVERTAKEN:
            raise _Overtaken
        self.view.merge(await self._views.view(reads))

    async def _load_all_at_once(self, reads: Reads) -> bool:
        """Load head and all that was looked at as a snapshot; False if it is for pieces."""
        everything = Reads.union(self.view.reads(), reads)
        is_begun = self._showing is not None or self._always_snapshots
        if is_begun or not self._snapshots_left or not _is_small(everything):
            return False
        self._snapshots_left -= 1
        view = await self._at_once(replace(everything, snapshot=True))
        if view is None or not view.is_snapshot:
            self._snapshots_left = 0
            return False
        self.view = view
        read_head(view, self._ref)
        return True

    async def _at_once(self, everything: Reads) -> View | None:
        """Load all of it at once; None for a snapshot that is not to be had.

        DynamoDB reads no more than 4 MB so, which is less than a hundred records may have.
        """
        try:
            return await self._views.view(everything)
        except StoreRefused:
            if not everything.snapshot:
                raise
            return None


class _Judged(Generic[T]):
    """A request that loads at once what it was decided on before: one load may be of one moment."""

    once: ClassVar[bool] = False

    def __init__(self, request: Request[T]) -> None:
        assert not request.once, "who decides once looks again himself"
        self.was_snapshot = False
        """Whether what it was last decided on is of one moment for certain."""
        self._request = request
        self._known = Reads()

    @property
    def stream(self) -> Partition:
        return self._request.stream

    @property
    def by(self) -> object:
        """Who asks: decided again or not, it is paid for."""
        return getattr(self._request, "by", None)

    def reads(self) -> Reads:
        return Reads.union(self._request.reads(), self._known)

    def decide(self, view: View, now: Instant) -> Decision[T]:
        try:
            return self._request.decide(view, now)
        except Refused:
            seen = view.reads()
            self.was_snapshot = view.is_snapshot
            self._known = Reads(ranges=seen.ranges, peeks=(*seen.keys, *seen.peeks))
            raise


def _only_head(stream: Partition) -> Reads:
    return Reads(peeks=(store_head_key(stream),))


def _is_small(reads: Reads) -> bool:
    """Say whether a store may load all of it as a snapshot."""
    return not reads.ranges and len(reads.keys) + len(reads.peeks) <= limits.LOAD_KEYS_MAX
