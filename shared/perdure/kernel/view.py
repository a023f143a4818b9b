"""What a decision may look at, and what it says: keys, ranges, views, decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from perdure.kernel.errors import Contended
from perdure.kernel.ids import Instant, Partition, Token
from perdure.kernel.record import Record

if TYPE_CHECKING:
    from typing import Self

R = TypeVar("R", bound=Record)
T_co = TypeVar("T_co", covariant=True)


class Key(tuple[Partition, str], Generic[R]):  # noqa: SLOT001  # a tuple has no room for `of`
    """Address of one record, which remembers what kind of record lies there.

    Equal by address alone. A tuple, since a request hashes its keys dozens of times.
    """

    of: type[R]

    def __new__(cls, partition: Partition, sort: str, of: type[R]) -> Self:
        key = tuple.__new__(cls, (partition, sort))
        key.of = of
        return key

    @property
    def partition(self) -> Partition:
        return self[0]

    @property
    def sort(self) -> str:
        return self[1]

    def __repr__(self) -> str:
        return f"Key({self[0]!r}, {self[1]!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self[0], self[1], self.of))


@dataclass(frozen=True, slots=True)
class Range(Generic[R]):
    """Records of one partition with ``first <= sort < last``, in order, at most ``limit``.

    A range is a hint about what to name: nothing in it conditions the commit unless it is
    written or asked for by name.
    """

    partition: Partition
    first: str
    last: str
    of: type[R] = field(compare=False, repr=False)
    limit: int = 1_000
    descending: bool = False


class Version(NamedTuple):
    """Which writing of a record was seen. The token makes a re-created record another one."""

    revision: int
    token: Token


class Stored(NamedTuple):
    """A record as a store holds it: exact bytes and their version."""

    version: Version
    body: bytes
    parts: tuple[tuple[Key[Any], Version], ...] = ()
    """Where the bytes lie, if not with the record."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a request is sure to look at.

    ``keys`` condition the commit; ``peeks`` and what ``ranges`` find do not, unless written.
    ``snapshot`` asks for keys and peeks as of one moment (at most LOAD_KEYS_MAX).
    ``absent`` are those of ``keys`` that are new unless the request is asked again: they may
    be taken for absent without a look, since the commit is conditioned on it.
    """

    keys: tuple[Key[Any], ...] = ()
    ranges: tuple[Range[Any], ...] = ()
    peeks: tuple[Key[Any], ...] = ()
    snapshot: bool = False
    absent: frozenset[Key[Any]] = frozenset()

    @staticmethod
    def union(*many: Reads) -> Reads:
        """Return what loads all of ``many``, each record once, as a snapshot if one of them is."""
        keys: dict[Key[Any], None] = {}
        peeks: dict[Key[Any], None] = {}
        ranges: dict[Range[Any], None] = {}
        absent: set[Key[Any]] = set()
        for reads in many:
            keys.update(dict.fromkeys(reads.keys))
            if reads.peeks:
                peeks.update(dict.fromkeys(reads.peeks))
            if reads.ranges:
                ranges.update(dict.fromkeys(reads.ranges))
            absent |= reads.absent
        snapshot = any(reads.snapshot for reads in many)
        only = tuple(key for key in peeks if key not in keys) if peeks else ()
        return Reads(tuple(keys), tuple(ranges), only, snapshot, frozenset(absent))


class Missing(Exception):
    """A decision asked for something that was not loaded. Load it and decide again."""

    def __init__(self, reads: Reads) -> None:
        super().__init__(reads)
        self.reads = reads


@dataclass(frozen=True, slots=True)
class Removed:
    """A write that leaves no record at ``key``."""

    key: Key[Any]


Write = Record | Removed

Written = Mapping[Key[Any], Record | None]
"""Writes by key, the last of each; None leaves no record."""


def written(writes: Iterable[Write]) -> dict[Key[Any], Record | None]:
    """Return ``writes`` by key: the last write of a key wins."""
    return {write.key: None if isinstance(write, Removed) else write for write in writes}


@dataclass(frozen=True, slots=True)
class Decision(Generic[T_co]):
    """What a request answers, and the records that must be written for the answer to hold."""

    reply: T_co
    writes: tuple[Write, ...] = ()


class Request(Protocol[T_co]):
    """Something that can be asked of an authority. A request is data; asking changes nothing."""

    once: ClassVar[bool]
    """A conflict is handed to the caller instead of being decided again."""

    @property
    def stream(self) -> Partition:
        """The partition whose head orders this request; one process decides it in turn."""
        ...

    def reads(self) -> Reads: ...

    def decide(self, view: View, now: Instant) -> Decision[T_co]:
        """Decide, purely. Raises Refused, Missing."""
        ...


Guess = tuple[Stored, Record] | tuple[None, None]
"""A record as it was when this process last wrote it, or none: it may be out of date."""

ABSENT: Final[Guess] = (None, None)
_NO_GUESSES: Final[Mapping[Key[Any], Guess]] = {}


class View:
    """Loaded records by key. A key looked for and not found is present with None.

    Records asked for by name condition the commit that follows: the decision holds only
    while they are unchanged, or still absent. Writes of decisions made before on the same
    view are seen by the next.

    What was not loaded may be guessed. A guess that is used is named, however it was asked
    for: the commit happens only if it was right.
    """

    __slots__ = (
        "_decoded",
        "_found",
        "_guesses",
        "is_guess",
        "is_snapshot",
        "named",
        "stored",
        "written",
    )

    def __init__(
        self,
        stored: Mapping[Key[Any], Stored | None],
        found: Mapping[Range[Any], Sequence[Key[Any]]] | None = None,
        named: Iterable[Key[Any]] = (),
        guesses: Mapping[Key[Any], Guess] = _NO_GUESSES,
        *,
        is_snapshot: bool = False,
    ) -> None:
        self.stored = dict(stored)
        self.is_snapshot = is_snapshot
        """No commit came into it, for certain; a store that cannot tell says no."""
        self.named: dict[Key[Any], None] = dict.fromkeys(named)
        """What conditions the commit, in the order it was asked for."""
        self.is_guess = False
        """A guess was used: only a commit proves this view right."""
        self.written: dict[Key[Any], Record | None] = {}
        """What decisions on this view have written so far."""
        self._found = dict(found or {})
        self._guesses = guesses
        self._decoded: dict[Key[Any], Record | None] = {}

    def get(self, key: Key[R]) -> R | None:
        """Return the record at ``key`` or None, and condition the commit on it.

        Raises: Missing.
        """
        if key not in self._decoded and not self._knows(key):
            raise Missing(Reads(keys=(key,)))
        self.named[key] = None
        return self.peek(key)

    def peek(self, key: Key[R]) -> R | None:
        """Return the record at ``key`` or None, conditioning nothing but a guess.

        Raises: Missing.
        """
        if key in self._decoded:
            return self._decoded[key]  # type: ignore[return-value]  # decoded as key.of
        if not self._knows(key):
            raise Missing(Reads(peeks=(key,)))
        if key in self._decoded:  # as it was guessed
            return self._decoded[key]  # type: ignore[return-value]
        stored = self.stored[key]
        record = None if stored is None else key.of.read(key.partition, key.sort, stored.body)
        self._decoded[key] = record
        return record

    def find(self, wanted: Range[R]) -> list[R]:
        """Return the records of a range, in its order, conditioning nothing. Raises Missing."""
        if wanted not in self._found:
            raise Missing(Reads(ranges=(wanted,)))
        records = [self.peek(key) for key in self._found[wanted]]
        return [record for record in records if record is not None]

    def require(self, keys: Iterable[Key[Any]] = (), peeks: Iterable[Key[Any]] = ()) -> None:
        """Ask for everything of these that was not loaded, at once. Raises Missing."""
        lacking = tuple(key for key in keys if not self._knows(key))
        glimpses = tuple(key for key in peeks if not self._knows(key))
        if lacking or glimpses:
            raise Missing(Reads(keys=lacking, peeks=glimpses))

    def name(self, keys: Iterable[Key[Any]]) -> None:
        """Condition the commit on ``keys``, whether or not a decision looks at them."""
        for key in keys:
            self._knows(key)
            self.named[key] = None

    def _knows(self, key: Key[Any]) -> bool:
        """Say whether ``key`` need not be loaded; a guess about it is used from now on."""
        if key in self._decoded or key in self.stored:
            return True
        guess = self._guesses.get(key)
        if guess is None:
            return False
        self.stored[key], self._decoded[key] = guess
        self.named[key] = None
        self.is_guess = True
        return True

    def reads(self) -> Reads:
        """Return what loads this view again: what was named, the rest, and its ranges."""
        peeks = tuple(key for key in self.stored if key not in self.named)
        return Reads(tuple(self.named), tuple(self._found), peeks)

    def keys_of(self, wanted: Range[Any]) -> tuple[Key[Any], ...]:
        """Return the keys that a range was found to hold, as it was loaded."""
        return tuple(self._found[wanted])

    def supply(
        self,
        stored: Mapping[Key[Any], Stored],
        found: Mapping[Range[Any], Sequence[Key[Any]]],
    ) -> None:
        """Take in what lies elsewhere and not in the store: known, conditioning nothing."""
        self.is_snapshot = False
        self.stored |= stored
        self._found |= found

    def merge(self, more: View) -> None:
        """Take in what was loaded later; what was loaded or written before stays."""
        is_first = not (self.stored or self._found or self._guesses)
        self.is_snapshot = is_first and more.is_snapshot
        for key, stored in more.stored.items():
            self.stored.setdefault(key, stored)
        self.named |= more.named
        self._found |= more._found

    def guessed_absent(self, keys: Sequence[Key[Any]]) -> bool:
        """Say whether all of ``keys`` were only taken for absent."""
        return bool(keys) and all(self._guesses.get(key) == ABSENT for key in keys)

    def forget_names(self, count: int) -> None:
        """Let all but the first ``count`` named records condition nothing any more."""
        for _ in range(len(self.named) - count):
            self.named.popitem()

    def absorb(self, writes: Written) -> None:
        """Let later decisions on this view see ``writes``, as if they were committed.

        Raises Contended for a record that is written once and lies there already: what
        decided on it saw a part of the commit that has written it.
        """
        for key, record in writes.items():
            if record is not None and record.immutable:
                assert self.written.get(key) is None, f"{key} is written once"
                if self._decoded.get(key) is not None or self.stored.get(key) is not None:
                    raise Contended(
                        expected=f"nothing yet at {key.sort}",
                        found="a record of a running commit that was seen in part",
                    )
        self._decoded |= writes
        self.written |= writes

    def version(self, key: Key[Any]) -> Version | None:
        """Return the version seen at ``key``; None if it was absent or never looked for."""
        stored = self.stored.get(key)
        return None if stored is None else stored.version
