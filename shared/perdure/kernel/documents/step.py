"""The step of a commit: what is read and written before it, seen as one growing whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.errors import IdsExhausted
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import StoreHead
from perdure.kernel.errors import InvalidValue
from perdure.kernel.ids import CommitId, Partition, Seq
from perdure.kernel.limits import COMMIT_ACTIONS_MAX
from perdure.kernel.record import Record
from perdure.kernel.shown import shown
from perdure.kernel.view import Key, Missing, Range, Reads, Removed, View, Write

R = TypeVar("R", bound=Record)


BESIDE_STEP: Final = 8
"""Records of a commit that no step counts: head, log entry, and what its request adds."""


class StagedWrite(Protocol):
    """Something that a commit does. Pure data: the same step gives the same writes."""

    @property
    def owner(self) -> str | None:
        """Whose documents or rows it writes, if it says so by itself."""
        ...

    @property
    def names_id(self) -> int:
        """The id that it takes by name, or 0."""
        ...

    def reads(self, store: Partition) -> Reads:
        """What it is sure to look at; what it creates is among ``absent``."""
        ...

    def apply(self, step: Step) -> None:
        """Do it on ``step``. Raises Refused, Missing."""
        ...


class Step:
    """One commit while it is decided.

    Reading sees what the commit has written so far. Nothing but the head conditions it: every
    commit writes the head, so what was read with it still stands if the head does.
    """

    def __init__(
        self,
        view: View,
        head: StoreHead,
        next_id: int,
        *,
        proves_tables: bool = False,
        keeps_jobs: bool = False,
    ) -> None:
        self.view = view
        """The store as it was before this commit."""
        self._written: dict[Key[Any], Record | None] = {}
        self._log: list[bytes] = []
        self.store = head.partition
        self.seq = Seq(head.seq + 1)
        self.log_from = head.log_from
        """First entry that the log still has."""
        self.next_id = next_id
        self.schema = head.schema
        self.created: list[int] = []
        """Ids of documents that were created, in order."""
        self.owners: set[str] = set()
        """Whose documents and rows were written."""
        self.proves_tables = proves_tables
        """Whoever writes rows has not proved yet that their tables are what it takes them for."""

        self.keeps_jobs = keeps_jobs
        """It may write where jobs lie: it is a step of one, or of a source that was held to that."""

        self.keyed_as: CommitId | None = None
        """The id under which its caller asked for the commit, if it came with one."""

        self._last: dict[object, Callable[[Step, int], int]] = {}

    def read(self, key: Key[R]) -> R | None:
        """Return a record as it is after what was written so far. Raises Missing."""
        if key in self._written:
            return self._written[key]  # type: ignore[return-value]  # written as key.of
        return self.view.peek(key)

    def find(self, wanted: Range[R]) -> list[R]:
        """Return the records of a range as the store has them, without this commit's.

        Raises Missing, also if another commit on this very view has written there: a range that
        was loaded does not know of that, so this one is to be decided alone.
        """
        if any(lies_in(wanted, key) for key in self.view.written):
            raise Missing(Reads(ranges=(wanted,)))
        return self.view.find(wanted)

    def find_now(self, wanted: Range[R]) -> list[R]:
        """Return the records of a range after what was written so far, by sort key. Raises Missing.

        Those of the store are as many as the range may hold.
        """
        found: dict[str, R | None] = {each.key.sort: each for each in self.find(wanted)}
        for key, record in self._written.items():
            if lies_in(wanted, key):
                found[key.sort] = record  # type: ignore[assignment]  # written as the range's kind
        return [record for _, record in sorted(found.items()) if record is not None]

    def require(self, *keys: Key[Any]) -> None:
        """Ask for all of these at once. Raises Missing."""
        self.view.require(peeks=[key for key in keys if key not in self._written])

    def own(self, address: Address) -> None:
        """Note whose document is written. Raises InvalidValue for one where only jobs lie."""
        if address.namespace in places.OF_JOBS and not self.keeps_jobs:
            raise InvalidValue(
                expected="a namespace other than those of jobs", found=shown(address.namespace)
            )
        self.owners.add(address.owner)

    def written(self, key: Key[R]) -> R | None:
        """Return what this commit has written at a key."""
        return self._written.get(key)  # type: ignore[return-value]  # written as key.of

    def put(self, record: Record) -> None:
        self._written[record.key] = record

    def remove(self, key: Key[Any]) -> None:
        """Leave no record at a key that was read before, or written by this commit."""
        self._written[key] = None

    def take_back(self, key: Key[Any]) -> None:
        """Write nothing at a key of this commit's own that holds nothing yet."""
        self._written.pop(key, None)

    def finish_with(self, name: object, work: Callable[[Step, int], int]) -> None:
        """Have ``work`` done behind everything else, once for a name, in the room that is left then.

        It is told how many records the commit may still write, and returns how many it wrote.
        """
        self._last[name] = work

    def mint(self) -> int:
        """Give the next id. Raises IdsExhausted."""
        if self.next_id >= places.SAFE_INTEGER_MAX:
            raise exhausted()
        self.next_id += 1
        return self.next_id - 1

    def raise_to(self, id: int) -> None:
        """Let no id up to ``id`` be given any more."""
        self.next_id = raised(self.next_id, id)

    def tell(
        self,
        kind: str,
        told: Mapping[str, Any],
        content: bytes | None = None,
    ) -> None:
        """Put a write into the log as it was applied; ``content`` is spelled already."""
        fields = canonical({"w": kind, **told})
        if content is not None:
            fields = b'{"content":%s,%s' % (content, fields[1:])
        self._log.append(fields)

    def tell_row(self, kind: str, table: str, row: bytes) -> None:
        """Put a write of a whole row into the log; it is spelled already."""
        self._log.append(b'{"row":%s,%s' % (row, _beside_row(kind, table)))

    @property
    def told(self) -> bytes:
        """The writes of the commit as its log entry holds them."""
        return b"[%s]" % b",".join(self._log)

    def writes(self) -> tuple[Write, ...]:
        """Return what the commit writes beside head and log: what was there and is not is removed."""
        self._finish()
        gone = [key for key, each in self._written.items() if each is None]
        if gone:
            self.view.require(peeks=gone)
        found: list[Write] = []
        for key, record in self._written.items():
            if record is not None:
                found.append(record)
            elif self.view.peek(key) is not None:
                found.append(Removed(key))
        return tuple(found)

    def _finish(self) -> None:
        if not self._last:
            return
        named = sum(key not in self._written for key in self.view.named)
        room = COMMIT_ACTIONS_MAX - len(self._written) - named - BESIDE_STEP
        for work in self._last.values():
            room -= work(self, room)
        self._last.clear()


@lru_cache(maxsize=1_024)
def _beside_row(kind: str, table: str) -> bytes:
    """Spell what a log says of a row behind its values: keys stay sorted."""
    return canonical({"w": kind, "table": table})[1:]


def lies_in(wanted: Range[Any], key: Key[Any]) -> bool:
    """Say whether a record at ``key`` is one that a range asks for."""
    return key.partition == wanted.partition and wanted.first <= key.sort < wanted.last


def raised(next_id: int, id: int) -> int:
    """Return the next id to be given after ``id`` was taken: it saturates."""
    return max(next_id, min(id + 1, places.SAFE_INTEGER_MAX))


def exhausted() -> IdsExhausted:
    """Return the refusal of an id where none is left. "ID space is exhausted" is its tale."""
    return IdsExhausted(
        expected=f"an id below {places.SAFE_INTEGER_MAX}", found="ID space is exhausted"
    )
