"""Reading a document store as of one moment, however many loads that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeVar

from perdure.kernel import limits
from perdure.kernel.documents.commit import check_whole, no_store
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.errors import Contended, Invalid, Refused, StoreRefused, TooLarge
from perdure.kernel.ids import Instant, Partition, Seq
from perdure.kernel.seen import SeenInPart
from perdure.kernel.view import Decision, Missing, Reads, Request, View
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


class Views(Protocol):
    """Loads records without asking for anything."""

    async def view(self, reads: Reads) -> View: ...


class ReadsAndExecutes(Views, Executes, Protocol):
    """Executes requests and loads records."""


async def whole_head(views: Views, ref: DocumentStoreRef) -> StoreHead:
    """Return the head of a store as it is. Raises NotFound, StoreImporting."""
    return _head(await views.view(_only_head(ref.partition)), ref)


async def read_at_once(
    views: Views, ref: DocumentStoreRef, look: Callable[[View], T], pause: Pause
) -> tuple[StoreHead, T]:
    """Return what ``look`` makes of the store as it was after one commit, and the head then.

    ``look`` is asked again after each load of what it lacked. The head is read first and last: if
    it has changed, all is read again, as of one moment if the store can do that. So it is if
    ``look`` says no: what it saw may have been of two commits. A no that was of one moment, or is
    said twice of one head, is raised.
    Raises: NotFound, StoreImporting, Contended, and what ``look`` raises.
    """
    again = _Again(views, ref.partition)
    refused_at: Seq | None = None
    for tries in range(READ_TRIES):
        if tries:
            await pause(0.002 * tries)
        view = await again.begun()
        head = _head(view, ref)
        begun = view.reads()
        try:
            found = await _looked(views, view, look)
        except _Torn:
            pass  # it shows by now
        except Invalid:
            raise  # whatever the store holds
        except Refused:
            if view.is_snapshot or refused_at == head.seq:
                raise
            refused_at = head.seq
        else:
            if view.is_snapshot or (not tries and view.reads() == begun):
                return head, found
            if (await whole_head(views, ref)).seq == head.seq:
                return head, found
        again.known = view.reads()
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


class _Again:
    """Begins a reading, and begins it again with all it has looked at before."""

    def __init__(self, views: Views, stream: Partition) -> None:
        self.known = Reads()
        self._views = views
        self._stream = stream
        self._always_snapshots = False
        """As far as one record tells."""

    async def begun(self) -> View:
        """Return a view that has the head: of one moment, or with everything behind the head."""
        if self.known.peeks:
            everything = Reads.union(self.known, _only_head(self._stream))
            snapshot = not everything.ranges and len(everything.peeks) <= limits.LOAD_KEYS_MAX
            if snapshot or self._always_snapshots:
                view = await self._at_once(replace(everything, snapshot=snapshot))
                if view is not None and view.is_snapshot:
                    return view
        view = await self._views.view(_only_head(self._stream))
        self._always_snapshots = view.is_snapshot
        if self.known.peeks:
            view.merge(await self._views.view(self.known))
        return view

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


def _head(view: View, ref: DocumentStoreRef) -> StoreHead:
    head = view.peek(store_head_key(ref.partition))
    if head is None:
        raise no_store(ref)
    check_whole(head, ref)
    return head


class _Torn(Exception):
    """What was looked at is not what there was at one moment: a commit had shown in part."""


async def _looked(views: Views, view: View, look: Callable[[View], T]) -> T:
    """Return what ``look`` makes of ``view``, with what it lacks loaded into that.

    Raises: what ``look`` raises; _Torn.
    """
    for _ in range(LOADS_MAX):
        try:
            return look(view)
        except SeenInPart as part:
            if not view.is_snapshot:
                at_once = await views.view(part.reads)
                peeks = part.reads.peeks
                if any(view.version(key) != at_once.version(key) for key in peeks):
                    raise _Torn from part
            raise part.error from part
        except Missing as missing:
            view.merge(await views.view(missing.reads))
    raise TooLarge(expected=f"a reading within {LOADS_MAX} loads", found="one that asks for more")
