"""Reading a document store as of one moment, however many loads that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from perdure.kernel.documents.commit import check_whole, no_store
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.errors import Contended, Invalid, Refused, TooLarge
from perdure.kernel.ids import Seq
from perdure.kernel.view import Missing, Reads, Request, View
from perdure.runtime.ports import Executes
from perdure.runtime.session.ports import Pause
from perdure.runtime.steady import steadily

T = TypeVar("T")

ASKED_TRIES = 6
"""Times that a request which meets a half-visible commit is asked."""

READ_TRIES = 16
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
    head, _ = await _begun(views, ref)
    return head


async def _begun(views: Views, ref: DocumentStoreRef) -> tuple[StoreHead, View]:
    """Return the head of a store and a view that has it. Raises NotFound, StoreImporting."""
    key = store_head_key(ref.partition)
    view = await views.view(Reads(peeks=(key,)))
    head = view.peek(key)
    if head is None:
        raise no_store(ref)
    check_whole(head, ref)
    return head, view


async def read_at_once(
    views: Views, ref: DocumentStoreRef, look: Callable[[View], T], pause: Pause
) -> tuple[StoreHead, T]:
    """Return what ``look`` makes of the store as it was after one commit, and the head then.

    ``look`` is asked again after each load of what it lacked. The head is read first and last: if
    it has changed, all is read again, in one load, so that commits in a row seldom come into each
    reading. So it is if ``look`` says no: what it saw may have been of two commits. A no that it
    says twice of one head is raised.
    Raises: NotFound, StoreImporting, Contended, and what ``look`` raises.
    """
    known = Reads()
    refused_at: Seq | None = None
    for tries in range(READ_TRIES):
        if tries:
            await pause(0.002 * tries)
        head, view = await _begun(views, ref)
        only_head = view.reads()
        if known.peeks:  # behind the head: not every store loads as of one moment
            view.merge(await views.view(known))
        try:
            found = await _looked(views, view, look)
        except Invalid:
            raise  # whatever the store holds
        except Refused:
            if refused_at == head.seq:
                raise
            refused_at = head.seq
        else:
            if view.reads() == only_head or (await whole_head(views, ref)).seq == head.seq:
                return head, found
        known = view.reads()
    raise Contended(
        expected=f"a moment without a commit to document store {ref.store!r}",
        found=f"commits during {READ_TRIES} readings",
    )


async def executed_at_once(
    authority: ReadsAndExecutes, request: Request[T], last: Seq | None, pause: Pause
) -> T:
    """Execute a request that the head of a document store orders; its refusal is of one moment.

    A refusal commits nothing that would prove what it was decided on. So it is raised only if the
    store's last commit is still ``last``, if that is known, or what it was when the request was
    asked again.
    Raises: what the request raises, Contended.
    """
    for tries in range(READ_TRIES):
        if tries > 1:  # the first time there was nobody to wait for, as far as anybody knows
            await pause(0.002 * tries)
        try:
            return await steadily(authority, request, tries=ASKED_TRIES, pause=pause)
        except Invalid:
            raise
        except Refused:
            head_key = store_head_key(request.stream)
            head = (await authority.view(Reads(peeks=(head_key,)))).peek(head_key)
            if head is None or head.seq == last:
                raise
            last = head.seq
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


async def _looked(views: Views, view: View, look: Callable[[View], T]) -> T:
    """Return what ``look`` makes of ``view``, with what it lacks loaded into that."""
    for _ in range(LOADS_MAX):
        try:
            return look(view)
        except Missing as missing:
            view.merge(await views.view(missing.reads))
    raise TooLarge(expected=f"a reading within {LOADS_MAX} loads", found="one that asks for more")
