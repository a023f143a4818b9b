"""Frames: numbered, chained by digest, and gated by features; entries hold those of one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final

from perdure.kernel import limits
from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import Corrupt, InvalidValue, NewerWriter, TooLarge
from perdure.kernel.ids import Epoch, Instant, Lineage, Partition, Seq, Token
from perdure.kernel.kept import kept
from perdure.kernel.places import number
from perdure.kernel.record import Record
from perdure.kernel.session.facts import Fact
from perdure.kernel.session.features import FEATURES
from perdure.kernel.view import Key

PLAIN: Final = 1
GATED: Final = 3
"""Versions of a frame: without and with features that must be understood. There is no 2."""


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """A payload that lies in an object of its own, under its digest."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A fact with its payload spelled, ready to be framed.

    A payload over PAYLOAD_INLINE_BYTES_MAX must lie in its object before the frame is committed.
    """

    type: str
    requires: tuple[str, ...]
    spelled: bytes
    fact: Fact
    payload: dict[str, Any]
    """What ``spelled`` spells."""

    @property
    def size(self) -> int:
        """Bytes that its frame takes of the journal's ceiling."""
        return limits.FRAME_ENVELOPE_BYTES + len(self.spelled)

    @property
    def is_large(self) -> bool:
        return len(self.spelled) > limits.PAYLOAD_INLINE_BYTES_MAX

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.spelled).hexdigest()


def prepared(fact: Fact) -> Prepared:
    """Spell a fact. Raises TooLarge, InvalidValue."""
    try:
        payload = fact.payload()
        spelled = canonical(payload)
    except (TypeError, ValueError, RecursionError) as error:  # too deep, or a name that is no text
        raise InvalidValue(
            expected=f"a {fact.type} of JSON that a journal can hold", found=type(error).__name__
        ) from error
    if len(spelled) > limits.FRAME_BYTES_MAX:
        raise TooLarge(
            expected=f"a {fact.type} of at most {limits.FRAME_BYTES_MAX} bytes",
            found=f"{len(spelled)}",
        )
    return Prepared(fact.type, tuple(sorted(fact.requires)), spelled, fact, payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One record of a journal, as it is stored.

    ``payload`` is canonical JSON, or in the object that ``ref`` names.
    """

    ver: int
    seq: Seq
    fence: Epoch
    """Epoch of the fence when it was written, also by whoever did not hold it."""

    type: str
    requires: tuple[str, ...] = ()
    payload: dict[str, Any] | None = None
    ref: PayloadRef | None = None
    digest: str

    def checked_digest(self, lineage: Lineage, previous: str) -> str:
        """Return the digest that the frame must have."""
        sha256, size = self._measured()
        head = canonical([self.ver, self.seq, self.fence, self.type, list(self.requires)])
        return digest(
            "perdure.journal.v1",
            lineage.encode(),
            previous.encode(),
            head,
            b"%d" % size,
            sha256.encode(),
        )

    @property
    def size(self) -> int:
        """Bytes that it takes of the journal's ceiling, its payload object included."""
        return limits.FRAME_ENVELOPE_BYTES + self._measured()[1]

    def _measured(self) -> tuple[str, int]:
        if self.ref is not None:
            return self.ref.sha256, self.ref.bytes
        spelled = canonical(self.payload)
        return hashlib.sha256(spelled).hexdigest(), len(spelled)


def sealed(previous: str, at: Instant, append: Token) -> str:
    """Return what the first frame of an entry follows: the frame before, and the entry's own fields."""
    return digest("perdure.entry.v1", previous.encode(), b"%d" % at, append.encode())


def framed(each: Prepared, *, lineage: Lineage, previous: str, seq: Seq, fence: Epoch) -> Frame:
    """Return a fact as the frame at ``seq``."""
    frame = Frame(
        ver=GATED if each.requires else PLAIN,
        seq=seq,
        fence=fence,
        type=each.type,
        requires=each.requires,
        payload=None if each.is_large else each.payload,
        ref=PayloadRef(each.sha256, len(each.spelled)) if each.is_large else None,
        digest="",
    )
    return replace(frame, digest=frame.checked_digest(lineage, previous))


@dataclass(frozen=True, kw_only=True)
class Entry(Record):
    """What one commit added to a journal: one or more frames, in order."""

    immutable: ClassVar[bool] = True

    at: Instant
    append: Token
    """Drawn by who wrote it, for each try to write something: by it a lost answer is found."""

    previous: str
    """Digest of the frame before; empty before the first."""

    frames: tuple[Frame, ...]

    @kept
    def key(self) -> Key[Entry]:
        return entry_key(self.partition, self.first)

    @property
    def first(self) -> Seq:
        return self.frames[0].seq

    @property
    def last(self) -> Seq:
        return self.frames[-1].seq

    @property
    def digest(self) -> str:
        """The link of the chain that the next entry follows."""
        return self.frames[-1].digest

    @kept
    def _body(self) -> bytes:
        return canonical(
            {
                "append": self.append,
                "at": self.at,
                "frames": [_spelled(frame) for frame in self.frames],
                "previous": self.previous,
            }
        )

    def body(self) -> bytes:
        return self._body

    @classmethod
    def read(cls, partition: Partition, sort: str, body: bytes) -> Entry:
        entry = super().read(partition, sort, body)
        if not entry.frames or entry.body() != body or entry.key.sort != sort:
            raise Corrupt(
                expected=f"a journal entry at {partition} {sort}, as it was written",
                found="another spelling",
            )
        return entry


def _spelled(frame: Frame) -> dict[str, Any]:
    told: dict[str, Any] = {
        "digest": frame.digest,
        "fence": frame.fence,
        "seq": frame.seq,
        "type": frame.type,
        "ver": frame.ver,
    }
    if frame.requires:
        told["requires"] = list(frame.requires)
    if frame.ref is not None:
        told["ref"] = asdict(frame.ref)
    else:
        told["payload"] = frame.payload
    return told


@dataclass(frozen=True, slots=True)
class Place:
    """How far a journal was read: the seq of its last frame, and that frame's digest."""

    seq: Seq = Seq(0)
    digest: str = ""


def verified(lineage: Lineage, after: Place, entries: Iterable[Entry]) -> list[Frame]:
    """Return the frames of entries that follow ``after`` without a gap.

    Each frame is held to its digest first, then to its place, then to what this version
    understands. Raises Corrupt, NewerWriter.
    """
    frames = proved(lineage, after, entries)
    for frame in frames:
        check_understood(frame)
    return frames


def proved(lineage: Lineage, after: Place, entries: Iterable[Entry]) -> list[Frame]:
    """Return the frames of entries that follow ``after``, also those of a newer version.

    Raises Corrupt.
    """
    frames: list[Frame] = []
    for entry in entries:
        if entry.previous != after.digest:
            raise _corrupt(entry, entry.first, f"a digest before it of {after.digest[:12]}…")
        link = sealed(after.digest, entry.at, entry.append)
        for frame in entry.frames:
            if frame.digest != frame.checked_digest(lineage, link):
                raise _corrupt(entry, frame.seq, "a frame that is as its digest says")
            if frame.seq != after.seq + 1:
                raise _corrupt(entry, frame.seq, f"a frame {after.seq + 1}")
            link, after = frame.digest, Place(frame.seq, frame.digest)
            frames.append(frame)
    return frames


def check_understood(frame: Frame) -> None:
    """Refuse a frame that a newer version wrote and that must not be missed. Raises NewerWriter."""
    unknown = sorted(set(frame.requires) - FEATURES)
    if frame.ver not in {PLAIN, GATED} or unknown or bool(frame.requires) != (frame.ver == GATED):
        raise NewerWriter(
            expected=f"a frame of version {PLAIN} or {GATED} and features known here",
            found=f"frame {frame.seq} of version {frame.ver} that requires"
            f" {', '.join(unknown) or 'nothing unknown'}",
        )


def features_of(frames: Sequence[Frame]) -> frozenset[str]:
    """Return every feature that some frames require."""
    return frozenset(name for frame in frames for name in frame.requires)


def entry_key(session: Partition, first: Seq) -> Key[Entry]:
    return Key(session, f"log/{number(first)}", Entry)


def _corrupt(entry: Entry, seq: int, expected: str) -> Corrupt:
    return Corrupt(expected=f"{expected} at frame {seq} of {entry.partition}", found="another")
