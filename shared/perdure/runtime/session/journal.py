"""A journal in the hand of the one who holds its fence: read, fold, append."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perdure.kernel.errors import Contended, Corrupt, StaleWriter, Unavailable
from perdure.kernel.ids import Holder, Instant, Lineage, Seq, Token
from perdure.kernel.session.facts import Fact
from perdure.kernel.session.fold import Fold
from perdure.kernel.session.frames import Frame, Place, prepared, verified
from perdure.kernel.session.journal import check_requires
from perdure.kernel.session.owner import (
    Append,
    Appended,
    Behind,
    ReleaseSession,
    SessionGrip,
    TakeSession,
)
from perdure.kernel.session.read import ProveGap, ReadJournal
from perdure.kernel.session.records import Session, SessionHead, SessionRef
from perdure.runtime.ports import Executes
from perdure.runtime.session import marks, payloads
from perdure.runtime.session.payloads import Objects
from perdure.runtime.session.ports import Pause
from perdure.runtime.steady import steadily

READ_TRIES = 8
"""Times a reading that met a running commit is taken again."""

APPEND_PAUSE_S = 0.2
"""Between two tries of an append that had no answer: the same append, until the lease is over."""


@dataclass(frozen=True, slots=True)
class Means:
    """What working on journals needs."""

    authority: Executes
    objects: Objects
    now: Callable[[], Instant]
    new_token: Callable[[], Token]
    pause: Pause


async def read_frames(
    means: Means, ref: SessionRef, after: Place, lineage: Lineage | None = None
) -> tuple[Session, SessionHead, list[Frame]]:
    """Return every frame behind a place, each held to its digest and to what is understood.

    Raises: NotFound, Corrupt, NewerWriter, LineageChanged, Contended.
    """
    frames: list[Frame] = []
    while True:
        request = ReadJournal(ref, after.seq, lineage=lineage)
        try:
            page = await steadily(means.authority, request, tries=READ_TRIES, pause=means.pause)
        except Contended:
            await means.authority.execute(ProveGap(ref, after.seq))
            raise
        fresh = verified(page.session.lineage, after, page.entries)
        frames += fresh
        if fresh:
            after = Place(fresh[-1].seq, fresh[-1].digest)
        if page.is_last:
            # What is newer is refused also if only the head says so, after all is proved whole.
            check_requires(page.head)
            check_end(page.head, frames, after)
            return page.session, page.head, frames


def check_end(head: SessionHead, frames: Sequence[Frame], end: Place) -> None:
    """Hold the frame that the head speaks of to the digest that it says."""
    found = next((frame.digest for frame in frames if frame.seq == head.seq), None)
    if found is None and head.seq == end.seq:
        found = end.digest
    if found is not None and found != head.digest:
        raise Corrupt(
            expected=f"frame {head.seq} with digest {head.digest[:12]}… as its head says",
            found=f"{found[:12]}…",
        )


class Journal:
    """The journal of one session under its fence, folded as far as it was read."""

    def __init__(self, means: Means, ref: SessionRef, session: Session, lease_ms: int) -> None:
        self.means = means
        self.ref = ref
        self.session = session
        self.fold = Fold(session.lineage)
        self.until = Instant(0)
        self._grip: SessionGrip | None = None
        self._lease_ms = lease_ms
        self._place = Place()
        self._mark = Place()

    @classmethod
    async def open(cls, means: Means, ref: SessionRef, holder: Holder, lease_ms: int) -> Journal:
        """Read and fold the journal of a session, then take its fence.

        What cannot be read is not taken: its fence stays as it is.
        Raises: NotFound, FenceHeld, Corrupt, NewerWriter, PayloadMissing, Unavailable kinds.
        """
        marked = await marks.read(means.authority, means.objects, ref)
        place = Place() if marked is None else marked.place
        session, _, frames = await read_frames(means, ref, place)
        journal = cls(means, ref, session, lease_ms)
        if marked is not None and marked.fold.lineage == session.lineage:
            journal.fold, journal._place, journal._mark = marked.fold, place, place
        elif marked is not None:
            _, _, frames = await read_frames(means, ref, Place())
        await journal._take_in(frames)
        grip = await means.authority.execute(TakeSession(ref, holder, lease_ms).checked())
        journal._grip, journal.until = grip, grip.until
        await journal.catch_up()
        return journal

    @property
    def grip(self) -> SessionGrip:
        """The fence, held."""
        assert self._grip is not None, "a journal in somebody's hand has its fence"
        return self._grip

    async def keep_fold(self) -> None:
        """Keep what the journal comes to for whoever opens it next, if that is worth it."""
        means = self.means
        kept = await marks.keep(
            means.authority, means.objects, self.ref, self.fold, self._place, self._mark
        )
        if kept:
            self._mark = self._place

    async def catch_up(self) -> None:
        """Fold what others have written.

        Raises: StaleWriter if one of them holds the fence; Corrupt, NewerWriter, PayloadMissing.
        """
        _, head, frames = await read_frames(self.means, self.ref, self._place, self.session.lineage)
        epoch = max([head.fence.epoch, *(frame.fence for frame in frames)])
        if epoch != self.grip.epoch:
            raise StaleWriter(
                expected=f"epoch {self.grip.epoch} on session {self.ref.session!r}",
                found=f"epoch {epoch}",
            )
        await self._take_in(frames)

    async def append(self, facts: Sequence[Fact], *, is_close_out: bool = False) -> bool:
        """Add facts, unless others have written what was not folded: then fold that instead.

        Return whether the facts are durable. An append without an answer is asked for again,
        the very same, while the lease lasts.
        Raises: StaleWriter, SessionTooLarge kinds, Corrupt, Unavailable kinds.
        """
        spelled = tuple(prepared(fact) for fact in facts)
        request = Append(
            self.ref,
            self.grip.epoch,
            self.grip.holder,
            self._place.seq,
            spelled,
            self.means.new_token(),
            self._lease_ms,
            is_close_out,
        ).checked()
        reply = await self._answered(request)
        if isinstance(reply, Behind):
            await self.catch_up()
            return False
        for frame, fact in zip(reply.frames, facts, strict=True):
            self.fold.apply(frame.seq, fact)
        self._place = Place(reply.frames[-1].seq, reply.frames[-1].digest)
        fence, grip = reply.head.fence, self.grip
        is_held = (fence.epoch, fence.holder) == (grip.epoch, grip.holder)
        # What had landed may have been overtaken since: then that lease is somebody else's.
        self.until = fence.until if is_held else Instant(0)
        return True

    async def _answered(self, request: Append) -> Appended | Behind:
        while True:
            try:
                await payloads.put(self.means.objects, self.ref, request.large())
                return await self.means.authority.execute(request)
            except Unavailable:
                if self.means.now() + APPEND_PAUSE_S * 1_000 >= self.until:
                    raise
            await self.means.pause(APPEND_PAUSE_S)

    async def renew(self) -> SessionHead:
        """Have the lease run anew, and return the head. Raises FenceHeld, Unavailable kinds."""
        taken = await self.means.authority.execute(
            TakeSession(self.ref, self.grip.holder, self._lease_ms, epoch=self.grip.epoch)
        )
        self.until = taken.until
        return taken.head

    async def let_go(self) -> None:
        """Release the fence, if it is still this one's."""
        await self.means.authority.execute(
            ReleaseSession(self.ref, self.grip.holder, self.grip.epoch)
        )

    @property
    def seq(self) -> Seq:
        """The last frame that was folded."""
        return self._place.seq

    async def _take_in(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            fact = await payloads.fact_in(self.means.objects, self.ref, frame)
            self.fold.apply(frame.seq, fact)
            self._place = Place(frame.seq, frame.digest)
