"""Archives: log entries that left the store, and the store that finds them as if they had not."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure.authority.in_place import in_place_of
from perdure.authority.packing import packed, unpacked
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.errors import Corrupt, InvalidId, NotFound
from perdure.kernel.ids import Partition, Seq, Token
from perdure.kernel.later import Later
from perdure.kernel.log import LogEntry, log_key
from perdure.kernel.places import WorldRef, after, number
from perdure.kernel.view import Key, R, Range, Reads, Stored, Version, View
from perdure.lake.objects import ObjectStore
from perdure.runtime.ports import Executes

if TYPE_CHECKING:
    from perdure.kernel import trim
else:
    trim = Later("perdure.kernel.trim")

BLOCKS_KEPT: Final = 4
"""Archives that a process keeps decoded: a reader of an old log goes through one after another."""

_ENTRY: Final = re.compile(r"log/(\d{19})")
_LOG_END: Final = after("log/")
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Packed:
    """Log entries as one object: its name says where they belong and what its bytes are."""

    name: str
    data: bytes
    sha256: str


def archived(entries: Sequence[LogEntry]) -> Packed:
    """Spell log entries, their exact bodies, as one object."""
    # A body is canonical JSON in ASCII: it holds no line break.
    data = zlib.compress(b"\n".join(entry.body() for entry in entries), _LEVEL)
    sha256 = hashlib.sha256(data).hexdigest()
    first = entries[0]
    name = f"{prefix_of(first.partition)}{number(first.seq)}.{sha256[:16]}.log"
    return Packed(name, data, sha256)


def prefix_of(world: Partition) -> str:
    """Return how the names of a world's archive objects begin."""
    return f"archive/{world.replace('/', '.')}/"


async def bodies_of(archive: trim.Archive, objects: ObjectStore) -> list[bytes]:
    """Return the exact bodies of an archive's entries. Raises Corrupt."""
    try:
        data = await objects.get(archive.object)
    except (NotFound, InvalidId) as error:
        raise Corrupt(expected=f"archive {archive.object}", found="no such object") from error
    found = hashlib.sha256(data).hexdigest()
    if found != archive.sha256:
        raise Corrupt(
            expected=f"archive {archive.object} with SHA-256 {archive.sha256[:12]}…",
            found=f"{found[:12]}…",
        )
    try:
        bodies = zlib.decompress(data).split(b"\n")
    except zlib.error as error:
        raise Corrupt(expected=f"archive {archive.object}, deflated", found=str(error)) from error
    if len(bodies) != archive.last - archive.first + 1:
        raise Corrupt(
            expected=f"log entries {archive.first} to {archive.last} in {archive.object}",
            found=f"{len(bodies)} entries",
        )
    return bodies


async def archives_of(authority: Executes, ref: WorldRef) -> AsyncIterator[trim.Archive]:
    """Yield the archives of a world, in order."""
    since = Seq(0)
    while page := await authority.execute(trim.FindArchives(ref, since)):
        for archive in page:
            yield archive
        since = Seq(page[-1].last + 1)


class ArchivedStore:
    """A store that also finds log entries which were moved to archives.

    Only what is peeked at or found through a range comes from there, so a commit is never
    conditioned on it. What the store holds itself costs nothing more.
    """

    def __init__(self, store: Store, objects: Callable[[], ObjectStore]) -> None:
        self._store = store
        self._commit_in_place = in_place_of(store)
        self._objects = objects
        self._opened: ObjectStore | None = None
        self._blocks: OrderedDict[str, list[bytes]] = OrderedDict()

    @property
    def counters(self) -> Any:
        """What the store counts, if it does."""
        return getattr(self._store, "counters", None)

    async def load(self, reads: Reads) -> View:
        view = await self._store.load(reads)
        gone = [key for key in reads.peeks if _is_entry(key) and view.stored.get(key) is None]
        short = [wanted for wanted in reads.ranges if _lacks_first(view, wanted)]
        if gone or short:
            await self._supply(view, gone, short)
        return view

    async def commit(self, commit: Commit) -> None:
        await self._store.commit(commit)

    def commit_in_place(self, commit: Commit) -> bool:
        """Make a commit in this very call, if the store can and will. Raises OutcomeUnknown."""
        return self._commit_in_place(commit)

    async def close(self) -> None:
        await self._store.close()

    async def _supply(
        self, view: View, gone: Iterable[Key[Any]], short: Iterable[Range[Any]]
    ) -> None:
        """Put in what the archives hold of peeked keys and of the beginnings of ranges."""
        wanted: dict[Partition, set[int]] = {}
        for key in gone:
            wanted.setdefault(key.partition, set()).add(_seq(key.sort) or 0)
        for each in short:
            seqs = wanted.setdefault(each.partition, set())
            seqs.update(_lacking(view, each))
        found: dict[Key[Any], Stored] = {}
        for world, seqs in wanted.items():
            found |= await self._found(world, seqs)
        ranges = {
            each: _joined(view.keys_of(each), found, each)
            for each in short
            if any(key.partition == each.partition for key in found)
        }
        view.supply(found, ranges)

    async def _found(self, world: Partition, seqs: set[int]) -> dict[Key[Any], Stored]:
        key = trim.trim_key(world)
        trimmed = _read(key, (await self._store.load(Reads(peeks=(key,)))).stored[key])
        found: dict[Key[Any], Stored] = {}
        # What is behind that bound is not archived: it is not there yet.
        waiting = (
            [] if trimmed is None else sorted(seq for seq in seqs if seq <= trimmed.log_through)
        )
        while waiting:
            archive = await self._archive(world, Seq(waiting[0]))
            if archive is None or not archive.first <= waiting[0] <= archive.last:
                found_instead = "none" if archive is None else f"{archive.first} to {archive.last}"
                raise Corrupt(expected=f"an archive of log entry {waiting[0]}", found=found_instead)
            bodies = await self._bodies(archive)
            for seq in waiting:
                if archive.first <= seq <= archive.last:
                    body = packed(bodies[seq - archive.first])
                    version = Version(1, Token(archive.object))
                    found[log_key(world, Seq(seq))] = Stored(version, body)
            waiting = [seq for seq in waiting if seq > archive.last]
        return found

    async def _archive(self, world: Partition, seq: Seq) -> trim.Archive | None:
        wanted = trim.archives_from(world, seq, limit=1)
        view = await self._store.load(Reads(ranges=(wanted,)))
        for key in view.keys_of(wanted):
            return _read(Key(key.partition, key.sort, trim.Archive), view.stored[key])
        return None

    async def _bodies(self, archive: trim.Archive) -> list[bytes]:
        known = self._blocks.get(archive.object)
        if known is None:
            if self._opened is None:
                self._opened = self._objects()
            known = self._blocks[archive.object] = await bodies_of(archive, self._opened)
            while len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        return known


def _read(key: Key[R], stored: Stored | None) -> R | None:
    """Read a record as the store holds it; those of a trim are short enough to lie in one."""
    if stored is None:
        return None
    body = unpacked(stored.body)
    if not isinstance(body, bytes):
        raise Corrupt(expected=f"a short record at {key.sort}", found="one in chunks")
    return key.of.read(key.partition, key.sort, body)


def _is_entry(key: Key[Any]) -> bool:
    return key.of is LogEntry and _ENTRY.fullmatch(key.sort) is not None


def _seq(sort: str) -> int | None:
    """Return the place that a sort key names, None if it is not that of a log entry."""
    found = _ENTRY.fullmatch(sort)
    return None if found is None else int(found[1])


def _lacks_first(view: View, wanted: Range[Any]) -> bool:
    """Say whether a range of a world's log, read upwards, does not begin where it was asked to.

    A range that begins elsewhere is of whoever copies records as they lie.
    """
    if (
        wanted.of is not LogEntry
        or _seq(wanted.first) is None
        or wanted.last > _LOG_END
        or wanted.descending
    ):
        return False
    keys = view.keys_of(wanted)
    return not keys or keys[0].sort != wanted.first


def _lacking(view: View, wanted: Range[Any]) -> range:
    """Return which entries lie before the first that was found, within the limit."""
    first = _seq(wanted.first) or 0
    behind = [wanted.last, *(key.sort for key in view.keys_of(wanted)[:1])]
    bounds = (seq for seq in map(_seq, behind) if seq is not None)
    return range(first, min((first + wanted.limit, *bounds)))


def _joined(
    keys: Sequence[Key[Any]], found: dict[Key[Any], Stored], wanted: Range[Any]
) -> list[Key[Any]]:
    """Return what a range holds with what the archives hold of it, in order, within its limit."""
    extra = (
        key
        for key in found
        if key.partition == wanted.partition and wanted.first <= key.sort < wanted.last
    )
    return sorted({*extra, *keys}, key=lambda key: key.sort)[: wanted.limit]
