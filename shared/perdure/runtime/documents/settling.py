"""Settling a commit: it is asked for until it is known what has become of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from perdure.kernel.documents.commit import Committed, CommitWrites, happened
from perdure.kernel.documents.errors import FarBehind, IdsMoved, LogTrimmed, StaleCursor
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.errors import Corrupt, LineageChanged, OutcomeUnknown, PerdureError, Unavailable
from perdure.kernel.ids import Instant, Seq
from perdure.kernel.view import Decision, Missing, Reads, View
from perdure.runtime.documents.log import read_log
from perdure.runtime.documents.reading import ReadsAndExecutes, executed_at_once
from perdure.runtime.session.ports import Pause

SETTLE_TRIES: Final = 4
"""Times that the log is asked what became of a commit. Source: the authority has tried for
seconds before the first of them."""

SETTLE_PAUSE_S: Final = 0.25

LOOKS_MAX: Final = 16
"""Times that a writer looks where the log ends by now, who finds itself far behind. Source: those
who are first more often than that leave it no chance."""


@dataclass(frozen=True, slots=True)
class OwnCommit(CommitWrites):
    """A commit that keeps what deciding it has raised: that very error is no lost answer."""

    raised: list[Exception] = field(default_factory=list, compare=False, repr=False)
    in_place: bool = field(default=False, compare=False)
    """Nobody else of this process is about to commit: it need not wait for company."""

    def reads(self) -> Reads:
        try:
            return CommitWrites.reads(self)
        except Exception as error:
            self.raised.append(error)
            raise

    def decide(self, view: View, now: Instant) -> Decision[Committed]:
        try:
            return CommitWrites.decide(self, view, now)
        except Missing:
            raise
        except Exception as error:
            self.raised.append(error)
            raise


async def settled(authority: ReadsAndExecutes, request: CommitWrites, pause: Pause) -> Committed:
    """Execute a commit, and find out what has become of it if no answer comes.

    The log is asked for the attempt. If it is not there, the same attempt is made again on what
    the log says: whichever of its sendings arrives first, the head lets no other in.
    Raises: OutcomeUnknown if nobody can say; what the commit raises, IdsMoved among it, and it has
    not happened and never will.
    """
    try:
        return await _executed(authority, request, pause)
    except OutcomeUnknown as error:
        unknown: PerdureError = error
    for tries in range(SETTLE_TRIES):
        await pause(SETTLE_PAUSE_S * 2**tries)
        try:
            found, seen = await _looked_up(authority, request, pause)
            if found is not None:
                return found
            request = replace(request, seen=seen)
            reply = await executed_at_once(authority, request, seen, pause)
        except IdsMoved:
            # The log does not have it, and the head that each of its sendings asked for is gone.
            raise
        except (Unavailable, Corrupt, LogTrimmed, StaleCursor, LineageChanged) as error:
            unknown = error  # it says nothing of what was sent
        else:
            return reply
    raise OutcomeUnknown(
        expected=f"to find out what became of a commit to document store {request.ref.store!r}",
        found=f"{unknown.code}: {unknown}",
    ) from unknown


async def _executed(authority: ReadsAndExecutes, request: CommitWrites, pause: Pause) -> Committed:
    """Execute a commit whose writer may have looked long ago, and fall behind again meanwhile.

    Who is told so has nothing on its way: what was sent before was answered, or the outcome is unknown.
    """
    assert request.seen is not None, "a commit can be found by who says what it has seen"
    seen = request.seen
    for _ in range(LOOKS_MAX):
        try:
            return await executed_at_once(authority, request, seen, pause)
        except FarBehind:
            head = await head_of(authority, request)
            seen = seen if head is None else head.seq
            request = replace(request, seen=seen)
    return await executed_at_once(authority, request, seen, pause)


async def head_of(authority: ReadsAndExecutes, request: CommitWrites) -> StoreHead | None:
    """Return the head of the store that a commit is for, as it is now."""
    key = store_head_key(request.stream)
    return (await authority.view(Reads(peeks=(key,)))).peek(key)


async def _looked_up(
    authority: ReadsAndExecutes, request: CommitWrites, pause: Pause
) -> tuple[Committed | None, Seq]:
    """Return the commit if the log has it, and up to where the log was read."""
    assert request.seen is not None, "where to begin is known"
    place = LogPlace(request.seen)
    while True:
        page = await read_log(authority, request.ref, place, pause=pause)
        for entry in page.entries:
            if entry.attempt == request.attempt:
                return happened(entry), entry.seq
        place = page.end
        if page.is_last:
            return None, place.seq
