"""Copying Iceberg tables row by row into another catalog, and telling whether two hold the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

from perdure.kernel.errors import PerdureError, StoreUnavailable
from perdure.kernel.refusals import unanswered
from perdure.lake.iceberg import SORTED_BY, Lake, Verdict, append, verdict

BATCH_ROWS: Final = 500_000
"""Rows of one snapshot; a single file with more still goes, alone."""

ATTEMPTS_MAX: Final = 4

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Content:
    """What a table holds: how many rows, and a digest that their order does not change."""

    rows: int
    digest: str


def content(table: Table | None) -> Content:
    """Return what lies in a table; of none, what lies in an empty one."""
    rows, sums = 0, (0, 0)
    if table is not None:
        for batch in batches(table):
            part = _read(table, batch)
            rows += part.num_rows
            sums = _added(sums, _sums(part))
    return Content(rows, _spelled(sums))


def rows_content(rows: pa.Table) -> Content:
    """Return the same of rows in memory."""
    return Content(rows.num_rows, _spelled(_sums(rows)))


def batches(table: Table) -> Iterator[list[FileScanTask]]:
    """Cut a table's current snapshot into groups of files, the same ones however often."""
    files = sorted(table.scan().plan_files(), key=lambda task: task.file.file_path)
    group: list[FileScanTask] = []
    held = 0
    for task in files:
        if group and held + task.file.record_count > BATCH_ROWS:
            yield group
            group, held = [], 0
        group.append(task)
        held += task.file.record_count
    if group:
        yield group


def copied(
    source: Lake, destination: Lake, name: str, batch: str, step: Callable[[], None]
) -> None:
    """Copy the rows of a table that nobody appends to, each batch of them exactly once.

    ``batch`` and a number go into each snapshot's summary: whoever comes after a death sees
    which are there. ``step`` is called after each. Raises StoreUnavailable.
    """
    table = source.table(name)
    if table is None:
        raise StoreUnavailable(expected=f"Iceberg table {name} of the source", found="none")
    destination.like(name, table)
    for number, group in enumerate(batches(table)):
        _append(destination, table, group, name, f"{batch}/{number:06d}")
        step()


def _append(
    destination: Lake, table: Table, group: list[FileScanTask], name: str, batch: str
) -> None:
    failed: Exception | None = None
    for _ in range(ATTEMPTS_MAX):
        target = destination.like(name, table)
        if verdict(target, batch, None) is Verdict.LANDED:
            return
        try:
            append(target, _sorted(_read(table, group)), batch)
        except PerdureError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, the table is asked
            failed = error
        else:
            return
    assert failed is not None
    raise unanswered(f"to append batch {batch} to table {name}", failed) from failed


def _read(table: Table, group: list[FileScanTask]) -> pa.Table:
    schema = table.schema()
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    return scan.to_table(group).cast(schema.as_arrow())


def _sorted(rows: pa.Table) -> pa.Table:
    names = [name for name in SORTED_BY if name in rows.schema.names]
    return rows.sort_by([(name, "ascending") for name in names]) if names else rows


_SEEDS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_NOTHING: Final = np.uint64(0x165667B19E3779F9)
"""Stands for a value that is not there."""


def _sums(rows: pa.Table) -> tuple[int, int]:
    """Return two sums over a digest of each row, which the order of rows does not change."""
    columns = [(name, _words(rows.column(name))) for name in rows.schema.names]
    found = []
    for seed in _SEEDS:
        mixed = np.full(rows.num_rows, seed, dtype=np.uint64)
        for name, words in columns:
            mixed = _mixed(mixed ^ _mixed(words + np.uint64(_word(name))))
        found.append(int(np.sum(mixed, dtype=np.uint64)))
    return found[0], found[1]


def _words(column: pa.ChunkedArray) -> Words:
    """Return 64 bits for every value of a column."""
    kind = column.type
    absent = column.is_null().to_numpy()
    if pt.is_integer(kind) or pt.is_boolean(kind):
        words = column.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64)
    elif pt.is_floating(kind):
        words = column.cast(pa.float64()).fill_null(0.0).to_numpy().view(np.uint64)
    else:
        texts = column.combine_chunks().dictionary_encode()
        encoded = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        named = [_word(str(value)) for value in encoded.dictionary.to_pylist()]
        known = np.array([*named, 0], dtype=np.uint64)
        words = known[encoded.indices.fill_null(len(named)).to_numpy(zero_copy_only=False)]
    return np.where(absent, _NOTHING, words)


def _word(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _mixed(words: Words) -> Words:
    """Spread every bit over all of them. Source: the finalizer of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _added(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return (left[0] + right[0]) % 2**64, (left[1] + right[1]) % 2**64


def _spelled(sums: tuple[int, int]) -> str:
    return f"{sums[0]:016x}{sums[1]:016x}"
