"""An open document store: one queue of commits, one allocator of ids, names bound to one hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from perdure.kernel.documents.called import check_id
from perdure.kernel.documents.commit import (
    Committed,
    OwnerGrip,
    ReleaseOwner,
    TakeOwner,
)
from perdure.kernel.documents.content import Loaded
from perdure.kernel.documents.declare import Declared, DeclareTables
from perdure.kernel.documents.errors import (
    IdsMoved,
    NameBound,
    StoreClosed,
    StoreFailed,
    TableMigrating,
)
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.read import find_document, load_document
from perdure.kernel.documents.records import Document, StoreHead
from perdure.kernel.documents.reserve import ReserveIds, ids_taken
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import (
    Contended,
    OutcomeUnknown,
    PerdureError,
    StaleWriter,
)
from perdure.kernel.ids import DocumentId, Holder, Instant, Seq, Token
from perdure.kernel.shown import text_of
from perdure.kernel.view import Request, View
from perdure.runtime.documents.allocator import Allocator
from perdure.runtime.documents.follow.feed import Feed, caught_up
from perdure.runtime.documents.reading import ReadsAndExecutes, read_at_once
from perdure.runtime.documents.settling import OwnCommit, head_of, settled
from perdure.runtime.documents.showing import WholeCommits
from perdure.runtime.documents.standing import OwnTables, written
from perdure.runtime.documents.unbroken import Unbroken, UnderWay
from perdure.runtime.session.ports import Pause

T = TypeVar("T")

IDS_LEFT: Final = 64
"""Ids left to a rival that goes on being first, more with every try: gaps are allowed, starving is
not."""

COMMIT_TRIES: Final = 16
"""Times that a commit is made again whose handle knew too little of what others have done."""


class Authority(ReadsAndExecutes, Protocol):
    """Executes requests, loads records, and ends."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoreMeans:
    """What working on document stores needs."""

    authority: Authority
    now: Callable[[], Instant]
    new_token: Callable[[], Token]
    pause: Pause
    under_way: UnderWay = field(default_factory=UnderWay, compare=False, repr=False)
    whole: WholeCommits = field(default_factory=WholeCommits, compare=False, repr=False)


class OpenStore:
    """A document store in the hand of one process.

    Every commit goes through one queue and is adopted before the next begins. A refusal leaves the
    store as it was; an outcome that nobody knows fails it: open it again.
    """

    def __init__(self, means: StoreMeans, ref: DocumentStoreRef, head: StoreHead) -> None:
        self.means = means
        self.ref = ref
        self.feed = Feed(head.seq)
        """Tells whoever follows this handle of its commits, and of others' that they follow."""
        self._seen = head.seq
        self._ids = Allocator(head.next_id)
        self._grips: dict[str, OwnerGrip] = {}
        self._holder: Holder | None = None
        self.tables = OwnTables()
        """What this handle takes the store's tables for."""
        self._bound: set[str] = set()
        self._queue = asyncio.Lock()
        self._unbroken = Unbroken(means.under_way)
        self._failure: BaseException | None = None
        self._closed = False

    @classmethod
    async def open(cls, means: StoreMeans, ref: DocumentStoreRef) -> OpenStore:
        """Open a store that exists. Raises NotFound."""
        head, _ = await read_at_once(means.authority, ref, lambda _: None, means.pause, means.whole)
        return cls(means, ref, head)

    @property
    def seq(self) -> Seq:
        """The last commit that this handle knows."""
        return self._seen

    def mint(self) -> int:
        """Give the next id. What is not committed may be given again after a death.

        Raises: IdsExhausted, StoreClosed, StoreFailed.
        """
        self._check_open()
        return self._ids.mint()

    async def reserve(self, count: int) -> range:
        """Give the next ``count`` ids, durably: nobody is ever given one of them again.

        Raises: OutOfRange, IdsExhausted, and what a commit raises.
        """
        reply = await self.commit([ReserveIds(count).checked()])
        return range(reply.next_id - count, reply.next_id)

    async def hold(self, owner: str, lease_ms: int) -> OwnerGrip:
        """Keep other processes from writing what is ``owner``'s; every commit to it renews that.

        Ask again before the lease is over if there is nothing to commit. A caller that goes away
        holds it all the same.
        Raises: OwnerHeld, TooLarge, InvalidId, OutOfRange.
        """
        self._check_open()
        if self._holder is None:
            self._holder = Holder(self.means.new_token())
        taking = TakeOwner(self.ref, owner, self._holder, lease_ms).checked()
        return await self._unbroken.run(self._taken(taking))

    async def _taken(self, taking: TakeOwner) -> OwnerGrip:
        grip, head = await self.ordered(taking)
        self._ids.follow(head.next_id)
        self._grips[taking.owner] = grip
        return grip

    async def let_go(self, owner: str) -> None:
        """Let others write what is ``owner``'s. Nothing if it is not held, or is another's by now."""
        async with self.in_line():
            if owner in self._grips:
                await self.means.authority.execute(ReleaseOwner(self.ref, self._grips[owner]))
                del self._grips[owner]

    @property
    def grips(self) -> tuple[OwnerGrip, ...]:
        """What this handle holds, or has held until another took it."""
        return tuple(self._grips.values())

    def raise_to(self, id: int) -> None:
        """Let no id up to ``id`` be given any more."""
        self._ids.take(id)

    @contextmanager
    def bound(self, *names: str) -> Iterator[None]:
        """Have tables or namespaces in hand that nobody else of this process has.

        Raises: NameBound.
        """
        taken = self.bind(*names)
        try:
            yield
        finally:
            self.release(taken)

    def bind(self, *names: str) -> tuple[str, ...]:
        """Take names in hand, all or none: of tables, of an owner's namespace, or of all of them.

        Those are spelled `owner:table`, `owner/namespace` and `owner/*`. Raises NameBound.
        """
        self._check_open()
        for name in names:
            if self._is_taken(name):
                raise NameBound(expected=f"{name!r} to be in nobody's hand", found="a holder")
        self._bound |= set(names)
        return names

    def release(self, names: Sequence[str]) -> None:
        """Let go of names."""
        self._bound -= set(names)

    def _is_taken(self, name: str) -> bool:
        owner, slash, namespace = name.partition("/")
        if not slash:
            return name in self._bound
        if namespace == "*":
            return any(each.startswith(f"{owner}/") for each in self._bound)
        return name in self._bound or f"{owner}/*" in self._bound

    @property
    def is_bound(self) -> bool:
        """Say whether anybody has a part of it in hand."""
        return bool(self._bound)

    async def commit(
        self,
        staged: Sequence[StagedWrite],
        *,
        admit: Callable[[], bool] | None = None,
        adopt: Callable[[Committed], None] | None = None,
    ) -> Committed:
        """Commit staged writes, all or none, and let ``adopt`` see it before anybody else commits.

        ``admit`` is asked when its turn has come: a False refuses it before anything is sent. A
        caller that goes away takes back nothing.
        Raises: what the writes raise, whatever that is, and nothing has happened; StoreFailed,
        StoreClosed.
        """
        self._check_open()
        for id in [each.names_id for each in staged if each.names_id != 0]:
            check_id(id)  # before it is taken: nobody else could be given any
            self._ids.take(id)
        return await self._unbroken.run(self._committed(tuple(staged), admit, adopt))

    async def _committed(
        self,
        staged: tuple[StagedWrite, ...],
        admit: Callable[[], bool] | None,
        adopt: Callable[[Committed], None] | None,
    ) -> Committed:
        async with self._queue:
            self._check_open(closing=True)
            if admit is not None and not admit():
                raise StaleWriter(expected="a writer that still may", found="one that is fenced")
            raised: list[Exception] = []
            try:
                reply = await self._settled(staged, raised)
            except BaseException as error:
                if isinstance(error, PerdureError) and not isinstance(error, OutcomeUnknown):
                    raise  # refused, or not done: the store is what it was
                if any(error is each for each in raised):
                    raise  # by a write of its own: the same
                raise self._failed(error) from error
            self._seen = reply.seq
            self._ids.follow(reply.next_id)
            if reply.entry is not None and not reply.replayed:  # it was answered: all of it shows
                self.means.whole.note(self.ref.partition, reply.seq, reply.entry.digest)
            await caught_up(self.feed, self.means, self.ref, Seq(reply.seq - 1))
            with self.feed.within():
                if reply.entry is not None:
                    self.feed.offer(reply.entry)
                try:
                    if adopt is not None:
                        adopt(reply)
                except BaseException as error:
                    raise self._failed(error) from error
            return reply

    async def _settled(self, staged: tuple[StagedWrite, ...], raised: list[Exception]) -> Committed:
        """Commit with what this handle knows by now, and look again where that was too little."""
        attempt = self.means.new_token()
        schema, doubtful = self.tables.known(staged)
        for tries in range(COMMIT_TRIES):
            if doubtful:
                schema = await self._stood(doubtful)
            doubtful = []
            request = self._as_known(staged, attempt, schema, raised)
            try:
                return await settled(self.means.authority, request, self.means.pause)
            except IdsMoved:
                head = await head_of(self.means.authority, request)
                if head is not None:
                    self._ids.follow(head.next_id + tries * IDS_LEFT)
            except TableMigrating:
                if schema is None:
                    raise
                doubtful = written(staged)
        raise Contended(
            expected=f"a commit to document store {self.ref.store!r} among those of others",
            found=f"others that were first {COMMIT_TRIES} times",
        )

    def _as_known(
        self,
        staged: tuple[StagedWrite, ...],
        attempt: Token,
        schema: int | None,
        raised: list[Exception],
    ) -> OwnCommit:
        """Return a commit with the ids that it takes, and what its tables are known to be."""
        count = ids_taken(staged)
        next_id = self._ids.next_id
        return OwnCommit(
            self.ref,
            staged,
            attempt,
            seen=self._seen,
            next_id=next_id,
            set_aside=self._ids.set_aside(count) if count else None,
            grips=self.grips,
            schema=schema,
            raised=raised,
            in_place=self._unbroken.is_alone,
        )

    async def _stood(self, tables: Sequence[Table]) -> int:
        """Return the change of tables at which these stand as they were declared.

        Raises: NewerTable, TableMigrating, TableDiffers, UnknownTable.
        """

        def look(view: View) -> None:
            self.tables.check(tables, view, self.ref)

        means = self.means
        head, _ = await read_at_once(means.authority, self.ref, look, means.pause, means.whole)
        self.tables.stand(tables, head)
        return head.schema

    def attempt(self) -> Token:
        """Draw the name of one attempt to commit."""
        return self.means.new_token()

    async def declared(self, tables: Sequence[Table]) -> Declared:
        """Make tables, in the line of commits. Raises: as DeclareTables."""
        request = DeclareTables(self.ref, tuple(tables), self.attempt(), self.grips)
        declared: Declared = await self.ordered(request.checked())
        self.tables.take(tables, declared)
        return declared

    async def ordered(self, request: Request[T]) -> T:
        """Execute a request in the line of commits. Raises what it raises."""
        async with self.in_line():
            return await self.means.authority.execute(request)

    @asynccontextmanager
    async def in_line(self) -> AsyncIterator[None]:
        """Hold the line of commits: whatever else this handle commits waits. Raises StoreClosed."""
        self._check_open()
        async with self._queue:
            self._check_open(closing=True)
            yield

    def saw(self, seq: Seq, next_id: int) -> None:
        """Take in a commit that was made in the line of commits, but not by :meth:`commit`."""
        self._seen = max(self._seen, seq)
        self._ids.follow(next_id)

    async def read(self, look: Callable[[View], T]) -> T:
        """Return what ``look`` makes of the store as of one moment.

        Raises what it raises; if a table of this handle that it looks at is not, or not yet, what
        the handle declared: NewerTable, TableMigrating, TableDiffers, UnknownTable.
        """
        head, (found, tables) = await self.look_with_head(self.tables.held(look, self.ref))
        self.tables.stand(tables, head)
        return found

    async def look(self, look: Callable[[View], T]) -> T:
        """Return what ``look`` makes of the store, whatever its tables are on their way to."""
        _, found = await self.look_with_head(look)
        return found

    async def look_with_head(self, look: Callable[[View], T]) -> tuple[StoreHead, T]:
        """Return what :meth:`look` does, and the head as it was then. Raises what ``look`` raises."""
        self._check_open()
        means = self.means
        return await read_at_once(means.authority, self.ref, look, means.pause, means.whole)

    async def find(self, address: Address, at: Seq | None = None) -> Document | None:
        """Return the document at an address, now or at a commit."""
        return await self.read(lambda view: find_document(view, self.ref.partition, address, at))

    async def load(self, id: DocumentId, at: Seq | None = None) -> Loaded | None:
        """Return what a document says, now or as it was at a commit. Raises HistoryNotKept."""
        return await self.read(lambda view: load_document(view, self.ref.partition, id, at))

    async def close(self) -> None:
        """Refuse new commits and wait for those under way. Idempotent."""
        self._closed = True
        await self._unbroken.ended()  # what has not come to the queue yet is among them
        async with self._queue:
            pass

    def _check_open(self, *, closing: bool = False) -> None:
        if self._failure is not None:
            raise StoreFailed(
                expected=f"document store {self.ref.store!r} to be opened again",
                found=text_of(self._failure),
            )
        if self._closed and not closing:
            raise StoreClosed(
                expected=f"an open document store {self.ref.store!r}", found="a closed one"
            )

    def _failed(self, error: BaseException) -> PerdureError:
        self._failure = error
        what = f"an answer to a commit of document store {self.ref.store!r}"
        return StoreFailed(expected=what, found=text_of(error))
