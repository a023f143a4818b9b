"""Transcripts: the frames of a journal a page at a time, from any place, held to their digests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.errors import Contended, NewerWriter
from perdure.kernel.ids import Epoch, Instant, Lineage, Seq, SessionId
from perdure.kernel.session.features import FEATURES
from perdure.kernel.session.frames import Frame, Place, check_understood, proved
from perdure.kernel.session.read import JournalPage, ProveGap
from perdure.kernel.session.records import SessionRef
from perdure.kernel.session.transcript import ReadEntries, place_before
from perdure.runtime.session.journal import READ_TRIES, Means, check_end
from perdure.runtime.session.payloads import payload_of
from perdure.runtime.steady import steadily

FRAMES_DEFAULT: Final = 200
FRAMES_MAX: Final = 500
BYTES_DEFAULT: Final = 4 * 1_024 * 1_024
BYTES_MAX: Final = 16 * 1_024 * 1_024
"""Frames and bytes of one page."""

ENVELOPE_BYTES: Final = 512
"""What a frame takes of a page beside its payload."""


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """One frame, with its payload wherever that lies."""

    seq: Seq
    at: Instant
    type: str
    payload: Any
    fence: Epoch
    requires: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Gate:
    """Why nothing more is shown: a newer version wrote what must not be missed."""

    seq: Seq
    ver: int
    features: tuple[str, ...]
    code: str = NewerWriter.code


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """Frames behind a seq, without a gap."""

    session_id: SessionId
    lineage: Lineage
    seq: Seq
    """The last frame of the journal."""

    frames: tuple[ShownFrame, ...]
    next: Seq
    """What to read on behind."""

    more: bool
    """There are frames behind these that can be shown."""

    note: Gate | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a journal, and how much of it at once."""

    after: Seq = Seq(0)
    limit: int = FRAMES_DEFAULT
    bytes_max: int = BYTES_DEFAULT
    lineage: Lineage | None = None


class Transcripts:
    """Reads the journals of sessions for whoever looks on."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def read(self, ref: SessionRef, wanted: Wanted) -> TranscriptPage:
        """Return a page of frames. One that is larger than a page is a page of its own.

        Raises: NotFound, LineageChanged, Corrupt kinds, Contended.
        """
        gathered = _Gathered(wanted)
        page = await self._first(ref, wanted)
        lineage = page.session.lineage
        gathered.seq = page.head.seq
        gate = await self._gate_before(ref, page, wanted.after)
        if gate is not None:
            gathered.note = gate
            return gathered.page(ref, lineage)
        place = place_before(page) if page.entries else Place(wanted.after)
        while True:
            frames = proved(lineage, place, page.entries)
            if frames:
                place = Place(frames[-1].seq, frames[-1].digest)
                check_end(page.head, frames, place)
            for frame, at in _dated(page, frames):
                if frame.seq > wanted.after and not await self._taken(ref, gathered, frame, at):
                    return gathered.page(ref, lineage)
            if page.is_last:
                return gathered.page(ref, lineage)
            page = await self._entries(ref, place.seq, lineage, is_between=True)

    async def _taken(self, ref: SessionRef, gathered: _Gathered, frame: Frame, at: Instant) -> bool:
        """Add a frame to a page, unless the page ends before it."""
        gathered.note = gate_at(frame)
        if gathered.note is not None:
            return False
        if not gathered.has_room(frame):
            gathered.more = True
            return False
        payload = await payload_of(self._means.objects, ref, frame)
        gathered.add(frame, at, payload)
        return True

    async def _first(self, ref: SessionRef, wanted: Wanted) -> JournalPage:
        try:
            return await self._entries(
                ref, wanted.after, wanted.lineage, is_between=not wanted.after
            )
        except Contended:
            # It may lie inside of an entry that is lost: what comes before it proves that.
            async for _ in self._walked(ref, wanted.after):
                pass
            raise

    async def _gate_before(self, ref: SessionRef, page: JournalPage, after: Seq) -> Gate | None:
        """Return the gate that lies before a page: what follows one is never shown."""
        if not after or set(page.head.requires) <= FEATURES:
            return None
        async for frame in self._walked(ref, after):
            gate = gate_at(frame)
            if gate is not None:
                return gate
        return None

    async def _walked(self, ref: SessionRef, last: Seq) -> AsyncIterator[Frame]:
        """Yield the frames from the first to ``last``. Raises Corrupt for one that is lost."""
        place, lineage = Place(), None
        while place.seq < last:
            page = await self._entries(ref, place.seq, lineage, is_between=True)
            lineage = page.session.lineage
            for frame in proved(lineage, place, page.entries):
                place = Place(frame.seq, frame.digest)
                if frame.seq <= last:
                    yield frame
            if page.is_last:
                return

    async def _entries(
        self, ref: SessionRef, after: Seq, lineage: Lineage | None, *, is_between: bool
    ) -> JournalPage:
        """Return entries; ``is_between`` says that one ends at ``after``."""
        authority, pause = self._means.authority, self._means.pause
        request = ReadEntries(ref, after, lineage=lineage)
        try:
            return await steadily(authority, request, tries=READ_TRIES, pause=pause)
        except Contended:
            if is_between:
                await authority.execute(ProveGap(ref, after))
            raise


class _Gathered:
    """What a page has so far."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._frames: list[ShownFrame] = []
        self._bytes = 0
        self.seq = Seq(0)
        self.more = False
        self.note: Gate | None = None

    def has_room(self, frame: Frame) -> bool:
        if not self._frames:
            return True
        fits = self._bytes + _size(frame) <= self._wanted.bytes_max
        return fits and len(self._frames) < self._wanted.limit

    def add(self, frame: Frame, at: Instant, payload: Any) -> None:
        self._bytes += _size(frame)
        self.seq = max(self.seq, frame.seq)
        self._frames.append(
            ShownFrame(
                seq=frame.seq,
                at=at,
                type=frame.type,
                payload=payload,
                fence=frame.fence,
                requires=frame.requires,
                digest=frame.digest,
            )
        )

    def page(self, ref: SessionRef, lineage: Lineage) -> TranscriptPage:
        return TranscriptPage(
            session_id=ref.session,
            lineage=lineage,
            seq=self.seq,
            frames=tuple(self._frames),
            next=self._frames[-1].seq if self._frames else self._wanted.after,
            more=self.more,
            note=self.note,
        )


def gate_at(frame: Frame) -> Gate | None:
    """Return why a frame can not be shown, None if this version understands it."""
    try:
        check_understood(frame)
    except NewerWriter:
        features = tuple(sorted(set(frame.requires) - FEATURES))
        return Gate(frame.seq, frame.ver, features)
    return None


def _dated(page: JournalPage, frames: list[Frame]) -> Iterator[tuple[Frame, Instant]]:
    """Yield frames, each with the moment of its commit."""
    moments = (entry.at for entry in page.entries for _ in entry.frames)
    yield from zip(frames, moments, strict=True)


def _size(frame: Frame) -> int:
    size = len(canonical(frame.payload)) if frame.ref is None else frame.ref.bytes
    return size + ENVELOPE_BYTES
