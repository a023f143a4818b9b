"""Places of a document store: its partition, and how the sort keys of its records are spelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.errors import InvalidValue, TooLarge
from perdure.kernel.ids import (
    DocumentId,
    DocumentStoreId,
    Partition,
    Seq,
    StorageId,
    short_hash,
)
from perdure.kernel.kept import kept
from perdure.kernel.places import WAKE_SHARDS, after, catalog_partition, number
from perdure.kernel.shown import shown

KEY_TEXT_BYTES_MAX: Final = 256
"""Bytes of one text in the key of a row, as it is spelled there. Source: SORT_BYTES_MAX."""

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Greatest id, and greatest number in a key. Source: numbers of JSON that every reader keeps."""

_INTEGER_SHIFT: Final = 2**53

SYSTEM_PREFIX: Final = "perdure."
"""Ids of document stores, and names of jobs, that begin so are Perdure's own."""

JOBS: Final = "jobs"
STATES: Final = "job-states"
ENDS: Final = "job-ends"
"""Namespaces of an owner's documents: its jobs, their states, and what they came to."""

OF_JOBS: Final = frozenset({JOBS, STATES, ENDS})

Part = int | str | bool
"""One value of a row's key, or of an index."""


@dataclass(frozen=True)
class DocumentStoreRef:
    """Which document store: its storage and its id."""

    storage: StorageId
    store: DocumentStoreId

    @kept
    def partition(self) -> Partition:
        return Partition(f"d/{short_hash(self.storage)}/{short_hash(self.store)}")

    @property
    def catalog(self) -> Partition:
        return catalog_partition(self.storage)

    @property
    def wake(self) -> Partition:
        """The partition that may hold hints of this store's jobs."""
        shard = int.from_bytes(short_hash(self.storage, self.store).encode()[:4]) % WAKE_SHARDS
        return job_wake_partition(shard)


def job_wake_partition(shard: int) -> Partition:
    """Return one of the WAKE_SHARDS partitions of hints for jobs."""
    return Partition(f"wake/d{shard}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a document lives: its owner, a namespace of the owner's, a kind, and maybe a key."""

    owner: str
    namespace: str
    kind: str
    key: str | None = None

    @property
    def hash(self) -> str:
        """Spell the address in 22 characters, whatever it is made of."""
        return _hash(["address", self.owner, self.namespace, self.kind, self.key])


def scope_hash(owner: str, namespace: str) -> str:
    """Spell an owner's namespace in 22 characters."""
    return _hash(["scope", owner, namespace])


def _hash(parts: list[Any]) -> str:
    # Canonical JSON is ASCII: a lone half of a pair, which no encoding takes, is a name too.
    return short_hash(canonical(parts).decode("ascii"))


def log_sort(seq: Seq) -> str:
    return f"log/{number(seq)}"


def document_sort(id: DocumentId) -> str:
    return f"doc/{number(id)}"


def revisions_prefix(id: DocumentId) -> str:
    return f"rev/{number(id)}/"


def revision_sort(id: DocumentId, seq: Seq) -> str:
    return f"{revisions_prefix(id)}{number(seq)}"


LEFTOVERS: Final = "left/"
LEFTOVERS_END: Final = after(LEFTOVERS)


def leftover_sort(id: DocumentId) -> str:
    return f"{LEFTOVERS}{number(id)}"


def lives_prefix(address_hash: str) -> str:
    return f"addr/{address_hash}/"


def scope_prefix(scope: str) -> str:
    return f"scope/{scope}/"


def table_sort(table: str) -> str:
    return f"table/{table}"


def rows_prefix(table: str) -> str:
    return f"row/{table}/"


def row_sort(table: str, key: Sequence[Part]) -> str:
    return f"row/{table}/{spelled_key(key)}"


def index_prefix(table: str, index: str, values: Sequence[Part]) -> str:
    """Spell what the index rows of these values begin with."""
    return f"index/{table}/{index}/" + "".join(f"{_spelled_value(each)}/" for each in values)


def table_named(sort: str) -> str | None:
    """Return the table of which a row, or a place in an index, has this sort key, if it is one's."""
    kind, _, rest = sort.partition("/")
    return rest.partition("/")[0] if kind in ("row", "index") else None


def spelled_key(key: Sequence[Part]) -> str:
    """Spell a key: each part closed by a slash, numbers sorted as numbers.

    Raises: InvalidValue, TooLarge.
    """
    return "".join(
        [
            f"{each + _INTEGER_SHIFT:017d}/"  # most are numbers
            if type(each) is int and -SAFE_INTEGER_MAX <= each <= SAFE_INTEGER_MAX
            else f"{_spelled_part(each)}/"
            for each in key
        ]
    )


def _spelled_part(part: Part) -> str:
    if type(part) is int and -SAFE_INTEGER_MAX <= part <= SAFE_INTEGER_MAX:
        return f"{part + _INTEGER_SHIFT:017d}"
    if isinstance(part, bool):
        return "1" if part else "0"
    if isinstance(part, int):
        raise InvalidValue(expected=f"a number within ±{SAFE_INTEGER_MAX}", found=shown(part))
    text = canonical(part).decode("ascii")[1:-1].replace("/", "\\u002f")
    if len(text) > KEY_TEXT_BYTES_MAX:
        raise TooLarge(
            expected=f"a text of a key of at most {KEY_TEXT_BYTES_MAX} bytes, as it is spelled",
            found=f"{len(text)}",
        )
    return text


def _spelled_value(value: Part) -> str:
    # Indexes are asked for equal values alone: a text of any length has a place.
    return _hashed_text(value) if isinstance(value, str) else _spelled_part(value)


@lru_cache(maxsize=256)
def _hashed_text(value: str) -> str:
    # Most rows of a table share a few texts: states, kinds.
    return _hash(["value", value])
