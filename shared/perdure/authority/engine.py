"""The authority: load, decide, commit, and again on conflict."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from perdure.authority import bodies, budget, system
from perdure.authority.bodies import Packed, Placed
from perdure.authority.costs import Costs
from perdure.authority.group import Asked, Decided, Overtaken, asked, decided, unproven_of
from perdure.authority.in_place import decided_on_guesses, in_place_of, wants_in_place
from perdure.authority.line import Line
from perdure.authority.recent import Recent, RecentStreams
from perdure.authority.store import RevisionConflict, Store
from perdure.kernel.commit import Commit, derived
from perdure.kernel.errors import (
    Contended,
    OutcomeUnknown,
    PerdureError,
    StoreRefused,
    StoreUnavailable,
    Unavailable,
)
from perdure.kernel.ids import Instant, Partition, Token
from perdure.kernel.quota import metered
from perdure.kernel.view import Decision, Reads, Request, View

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and with which pauses, a race is run again and a commit sent again.

    Every sending counts as a try.
    """

    tries_max: int = 12
    resends_max: int = 3
    pause_ms_first: int = 10
    pause_ms_max: int = 1_000

    def pause_seconds(self, tries: int, chance: float) -> float:
        """Return a pause from nothing up to a bound that doubles each time ("full jitter")."""
        longest_ms = min(self.pause_ms_max, self.pause_ms_first << min(tries - 1, 20))
        return chance * longest_ms / 1_000


PATIENT: Final = Patience()


Sent = tuple[Decided, Commit, Packed]
"""What was decided and sent, and what it was sent as."""


class Authority:
    """Executes requests against one store, for the callers of one event loop."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], Instant],
        new_token: Callable[[], Token],
        *,
        chance: Callable[[], float] = system.chance,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        patience: Patience = PATIENT,
    ) -> None:
        self._store = store
        self._commit_in_place = in_place_of(store)
        self._now = now
        self._new_token = new_token
        self._chance = chance
        self._pause = pause
        self._patience = patience
        self._lines: dict[Partition, Line] = {}
        self._recent = RecentStreams()
        self._writers: set[type[Request[Any]]] = set()
        """Kinds of request that write: for others a guess would be of no use."""
        self._conflicts = 0

    async def execute(self, request: Request[T]) -> T:
        """Decide ``request`` durably and return its reply.

        Raises: Refused, Unavailable; Overtaken for a request that is decided ``once``.
        A caller that goes away takes back nothing that was sent already.
        """
        request = metered(request)
        reads = request.reads()
        budget.check_reads(reads)
        if wants_in_place(request) and not self._lines:
            found = self._done_in_place(request, reads)
            if isinstance(found, Decision):
                reply: T = found.reply
                return reply
        else:
            found = None
        member = found or asked(request, reads)
        if found is None:
            self._line_of(request.stream).waiting.append(member)
        answer: asyncio.Future[T] = member.answer
        return await answer

    async def view(self, reads: Reads) -> View:
        """Load records without asking for anything; callers of ``execute`` are not held up.

        Raises: TooLarge, Corrupt, StoreUnavailable.
        """
        budget.check_reads(reads)
        return await bodies.loaded(self._store, reads)

    def costs(self) -> Costs:
        """Return what has been asked of the store so far, as far as it counts."""
        counters = getattr(self._store, "counters", None)
        if counters is None:
            return Costs(commit_conflicts=self._conflicts)
        return Costs(counters.requests, counters.write_units, counters.read_units, self._conflicts)

    async def close(self) -> None:
        """Wait for what was asked and close the store. Idempotent."""
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        if tasks:
            await asyncio.wait(tasks)
        await self._store.close()

    def _line_of(self, stream: Partition) -> Line:
        line = self._lines.get(stream)
        if line is None:
            line = self._lines[stream] = Line(self._recent.of(stream))
            self._begin(stream, line, None)
        return line

    def _begin(self, stream: Partition, line: Line, sent: Sent | None) -> None:
        line.task = asyncio.create_task(self._serve(stream, line, sent))
        line.task.add_done_callback(partial(self._left, stream, line, sent))

    def _left(
        self, stream: Partition, line: Line, sent: Sent | None, _: asyncio.Task[None]
    ) -> None:
        """Let nobody wait in a line whose task was cancelled before it began."""
        if self._lines.get(stream) is line:
            del self._lines[stream]
            for member in (*(sent[0].members if sent is not None else ()), *line.waiting):
                member.fail(asyncio.CancelledError())

    def _done_in_place(self, request: Request[T], reads: Reads) -> Decision[T] | Asked | None:
        """Decide and commit a request in this very call; None if that cannot be: nothing was sent.

        What was sent without an answer is sent again, and waited for.
        """
        recent = self._recent.of(request.stream)
        found = decided_on_guesses(request, reads, recent, self._now)
        if found is None:
            return None
        view, decision = found
        try:
            commit, ready = self._ready(view, ())
        except Exception:  # noqa: BLE001  # decided again, and told then
            return None
        try:
            if ready.unplaced or not self._commit_in_place(ready.commit):
                return None
        except OutcomeUnknown:
            member = asked(request, reads)
            member.unsure = True
            outcome = Decided(view, ((member, decision),), ())
            line = self._lines[request.stream] = Line(recent)
            self._begin(request.stream, line, (outcome, commit, ready))
            return member
        recent.learn(commit, view.written)
        self._writers.add(type(request))
        return decision

    async def _serve(self, stream: Partition, line: Line, sent: Sent | None) -> None:
        group: list[Asked] = []
        try:
            if sent is not None:
                group = sent[0].members
                await self._committed(line, *sent)
            while line.waiting:
                group = line.next_group()
                if group:
                    await self._settle(line, group)
                if line.waiting:  # what is guessed and committed at once waits for nothing
                    await asyncio.sleep(0)
        except BaseException as error:
            for member in (*group, *line.waiting):
                member.fail(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            del self._lines[stream]

    async def _settle(self, line: Line, group: list[Asked]) -> None:
        """Bring ``group`` one step on: to its answers, or back into the line."""
        recent = line.recent if self._may_guess(group) else None
        try:
            outcome = await self._decided(group, recent)
            line.put_back(outcome.rest)
            group = outcome.members
            ready = self._ready(outcome.view, group) if outcome.view.written else None
        except Exception as error:  # noqa: BLE001  # handed to the one caller it belongs to
            # What is refused may be what one of them asks for, and what was seen in part may be a
            # guess of long ago; no answer is none for everybody.
            if isinstance(error, Unavailable) and not isinstance(error, StoreRefused | Contended):
                _fail(group, error)
            elif recent is not None:
                line.put_back(_freshly(group))
            elif len(group) == 1:
                group[0].fail(error)
            else:
                await self._split(line, group)
            return
        try:
            if outcome.view.is_guess and (ready is None or ready[1].unplaced):
                # An answer needs a proof; so do bodies that would lie there for nothing if a rival
                # was first, or if what was taken for absent is there.
                line.put_back(_freshly(group))
            elif ready is not None:
                await self._committed(line, outcome, *ready)
            elif unproven := unproven_of(group, outcome.view):
                line.put_back(unproven)
            else:
                outcome.release()
        except Exception as error:  # noqa: BLE001  # handed to all callers it concerns
            _fail(group, error)

    async def _committed(self, line: Line, outcome: Decided, commit: Commit, ready: Packed) -> None:
        try:
            await self._commit(line, outcome, commit, ready)
        except Exception as error:  # noqa: BLE001  # handed to all callers it concerns
            _fail(outcome.members, error)

    async def _split(self, line: Line, group: list[Asked]) -> None:
        """Settle half of a group, so that one bad request cannot fail its neighbours."""
        half = len(group) // 2
        line.put_back(group[half:])
        await self._settle(line, group[:half])

    def _may_guess(self, group: list[Asked]) -> bool:
        return not any(member.fresh or member.reads.snapshot for member in group) and any(
            type(member.request) in self._writers for member in group
        )

    async def _decided(self, group: list[Asked], recent: Recent | None) -> Decided:
        reads = group[0].reads
        if len(group) > 1:
            reads = Reads.union(*(member.reads for member in group))
        view = View({})
        if recent is not None:
            view, reads = recent.guess(reads)
        view = await self._fetch(view, reads)
        view.named.clear()  # what is loaded is named by those who decide on it
        return await decided(group, view, self._now, self._fetch)

    async def _fetch(self, view: View, more: Reads) -> View:
        if more.snapshot:
            budget.check_reads(more)
            return await bodies.loaded(self._store, more)
        if more.keys or more.peeks or more.ranges:
            view.merge(await bodies.loaded(self._store, more))
        return view

    def _ready(self, view: View, group: Iterable[Asked]) -> tuple[Commit, Packed]:
        commit = derived(view, self._new_token())
        placed: Placed = {}
        for member in group:
            if not member.unsure:  # what may have been pointed at may be gone with that
                placed |= member.placed
        ready = bodies.packed(commit, placed, self._new_token)
        budget.check_commit(ready.commit)
        return commit, ready

    async def _commit(self, line: Line, outcome: Decided, commit: Commit, ready: Packed) -> None:
        group = outcome.members
        try:
            if ready.unplaced:
                await bodies.place(ready, self._sent_chunk, self._new_token)
                for member in group:
                    member.placed = ready.placed
            if ready.placed:
                line.lend_no_more(ready.placed)
            await self._sent(ready.commit, group)
        except RevisionConflict as conflict:
            self._conflicts += 1
            if outcome.view.guessed_absent(conflict.keys) and not group[0].unsure:
                line.put_back(_freshly(group))  # no rival: one of them had been asked before
                return
            line.recent.forget()
            await self._overtaken(line, outcome)
        except OutcomeUnknown as error:
            line.recent.forget()
            if group[0].request.once:
                raise
            await self._try_again(line, group, error, tries=1 + self._patience.resends_max)
        else:
            line.recent.learn(commit, outcome.view.written)
            self._writers |= {type(member.request) for member in outcome.writers}
            if chunks := bodies.superseded(commit, outcome.view):
                await bodies.empty(chunks, self._store.commit, self._new_token)
            outcome.release()

    async def _sent(self, commit: Commit, group: list[Asked]) -> None:
        """Send ``commit``, and again while there is no answer: the token makes that safe."""
        unsure = bool(group) and all(member.unsure for member in group)
        for resends in range(self._patience.resends_max + 1):
            if resends:
                await self._rest(resends)
            try:
                is_alone = bool(group) and not resends and len(self._lines) == 1
                if not (is_alone and self._commit_in_place(commit)):
                    await self._store.commit(commit)
            except (OutcomeUnknown, StoreUnavailable) as error:
                unsure |= isinstance(error, OutcomeUnknown)
                for member in group:
                    member.unsure |= unsure
                if not unsure or resends == self._patience.resends_max:
                    raise
            else:
                return

    async def _sent_chunk(self, commit: Commit) -> None:
        try:
            await self._sent(commit, [])
        except OutcomeUnknown as error:
            raise StoreUnavailable(
                expected="an answer to the chunk of a body", found=error.found
            ) from error

    async def _overtaken(self, line: Line, outcome: Decided) -> None:
        group = outcome.members
        if group[0].request.once and (group[0].unsure or not outcome.view.is_guess):
            reads = group[0].reads if group[0].reads.snapshot else outcome.view.reads()
            group[0].fail(Overtaken(await bodies.loaded(self._store, reads)))
            return
        found = f"a rival was first {self._patience.tries_max} times"
        await self._try_again(line, group, Contended(expected="to win a race", found=found))

    async def _try_again(
        self, line: Line, group: list[Asked], error: Unavailable, *, tries: int = 1
    ) -> None:
        """Put ``group`` back to be decided again, but for those that tried often enough."""
        for member in _freshly(group):
            member.tries += tries
        _fail([member for member in group if member.tries >= self._patience.tries_max], error)
        again = [member for member in group if not member.answer.done()]
        line.put_back(again)
        if again:
            await self._rest(max(member.tries for member in again))

    async def _rest(self, tries: int) -> None:
        await self._pause(self._patience.pause_seconds(tries, self._chance()))


def _freshly(group: list[Asked]) -> list[Asked]:
    for member in group:
        member.fresh = True
    return group


def _fail(group: list[Asked], error: Exception) -> None:
    """Give each of ``group`` an error of its own: a raised one collects a traceback."""
    for member in group:
        told = copy.copy(error) if isinstance(error, PerdureError) else error
        if told is not error:
            told.__cause__ = error
        member.fail(told)
