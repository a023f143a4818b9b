"""An open document store: one queue of commits, one allocator of ids, names bound to one hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from perdure.kernel.documents import places
from perdure.kernel.documents.commit import Committed, CommitWrites, OwnerGrip
from perdure.kernel.documents.content import Loaded
from perdure.kernel.documents.declare import Declared, DeclareTables
from perdure.kernel.documents.errors import NameBound, StoreClosed, StoreFailed
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.read import find_document, load_document
from perdure.kernel.documents.records import Document, StoreHead
from perdure.kernel.documents.step import StagedWrite, exhausted, raised
from perdure.kernel.errors import OutcomeUnknown, PerdureError, StaleWriter
from perdure.kernel.ids import DocumentId, Instant, Seq, Token
from perdure.kernel.view import View
from perdure.runtime.documents.follow.feed import Feed, caught_up
from perdure.runtime.documents.reading import ReadsAndExecutes, executed_at_once, read_at_once
from perdure.runtime.session.ports import Pause

T = TypeVar("T")


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


class OpenStore:
    """A document store in the hand of one process.

    Every commit goes through one queue and is adopted before the next begins. A refusal leaves the
    store as it was; an outcome that nobody knows fails it: open it again.
    """

    def __init__(
        self,
        means: StoreMeans,
        ref: DocumentStoreRef,
        head: StoreHead,
        grip: OwnerGrip | None = None,
    ) -> None:
        self.means = means
        self.ref = ref
        self.grip = grip
        self.feed = Feed(head.seq)
        """Tells whoever follows this handle of its commits, and of others' that they follow."""
        self._seen = head.seq
        self._next_id = head.next_id
        self._schema: int | None = None
        self._bound: set[str] = set()
        self._queue = asyncio.Lock()
        self._failure: BaseException | None = None
        self._closed = False

    @classmethod
    async def open(cls, means: StoreMeans, ref: DocumentStoreRef) -> OpenStore:
        """Open a store that exists. Raises NotFound."""
        head, _ = await read_at_once(means.authority, ref, lambda _: None, means.pause)
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
        if self._next_id >= places.SAFE_INTEGER_MAX:
            raise exhausted()
        self._next_id += 1
        return self._next_id - 1

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
        """Take names in hand, all or none. Raises NameBound."""
        self._check_open()
        for name in names:
            if name in self._bound:
                raise NameBound(expected=f"{name!r} to be in nobody's hand", found="a holder")
        self._bound |= set(names)
        return names

    def release(self, names: Sequence[str]) -> None:
        """Let go of names."""
        self._bound -= set(names)

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
        Raises: what the writes raise, and nothing has happened; StoreFailed, StoreClosed.
        """
        self._check_open()
        for each in staged:
            self._next_id = raised(self._next_id, each.names_id)
        task = asyncio.create_task(self._committed(tuple(staged), admit, adopt))
        return await asyncio.shield(task)

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
            request = CommitWrites(
                self.ref,
                staged,
                self.means.new_token(),
                seen=self._seen,
                next_id=self._next_id,
                grip=self.grip,
                schema=self._schema,
            )
            try:
                reply: Committed = await executed_at_once(
                    self.means.authority, request, self._seen, self.means.pause
                )
            except BaseException as error:
                if isinstance(error, PerdureError) and not isinstance(error, OutcomeUnknown):
                    raise  # refused, or not done: the store is what it was
                raise self._failed(error) from error
            self._seen = reply.seq
            self._next_id = max(self._next_id, reply.next_id)
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

    def attempt(self) -> Token:
        """Draw the name of one attempt to commit."""
        return self.means.new_token()

    async def declared(self, request: DeclareTables) -> Declared:
        """Make tables, in the line of commits. Raises as DeclareTables."""
        self._check_open()
        async with self._queue:
            declared: Declared = await self.means.authority.execute(request)
            self._schema = declared.schema
            return declared

    async def read(self, look: Callable[[View], T]) -> T:
        """Return what ``look`` makes of the store as of one moment. Raises what it raises."""
        _, found = await self.read_with_head(look)
        return found

    async def read_with_head(self, look: Callable[[View], T]) -> tuple[StoreHead, T]:
        """Return the head as well, as it was at that moment. Raises what ``look`` raises."""
        self._check_open()
        return await read_at_once(self.means.authority, self.ref, look, self.means.pause)

    async def find(self, address: Address, at: Seq | None = None) -> Document | None:
        """Return the document at an address, now or at a commit."""
        return await self.read(lambda view: find_document(view, self.ref.partition, address, at))

    async def load(self, id: DocumentId, at: Seq | None = None) -> Loaded | None:
        """Return what a document says, now or as it was at a commit. Raises HistoryNotKept."""
        return await self.read(lambda view: load_document(view, self.ref.partition, id, at))

    async def close(self) -> None:
        """Refuse new commits and wait for those under way. Idempotent."""
        self._closed = True
        async with self._queue:
            pass

    def _check_open(self, *, closing: bool = False) -> None:
        if self._failure is not None:
            raise StoreFailed(
                expected=f"document store {self.ref.store!r} to be opened again",
                found=str(self._failure),
            )
        if self._closed and not closing:
            raise StoreClosed(
                expected=f"an open document store {self.ref.store!r}", found="a closed one"
            )

    def _failed(self, error: BaseException) -> PerdureError:
        self._failure = error
        return StoreFailed(
            expected=f"an answer to a commit of document store {self.ref.store!r}", found=str(error)
        )
