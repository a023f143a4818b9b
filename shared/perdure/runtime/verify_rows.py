"""The rows of one tick, looked at in every place where they lie."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.errors import Corrupt, PerdureError
from perdure.kernel.ids import TableId
from perdure.kernel.records import Manifest, TableRows
from perdure.kernel.shown import text_of
from perdure.kernel.trim import Trim
from perdure.lake.state import Rows
from perdure.runtime.findings import Finding, Kind
from perdure.runtime.plan import Part
from perdure.runtime.recompute import difference_of
from perdure.runtime.stored import StoredRows


@dataclass(slots=True)
class CheckedRows:
    """A tick's rows by table, its checkpoint's if it can be read, and what is wrong with them."""

    tables: dict[TableId, pa.Table] = field(default_factory=dict)
    rows: list[Rows] = field(default_factory=list)
    is_whole: bool = True
    """All rows that the manifest names are here."""

    base: list[Rows] | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def checkpoint(self) -> dict[TableId, pa.Table] | None:
        if self.base is None:
            return None
        return {each.shape.table: each.table for each in self.base}


async def checked_rows(
    stored: StoredRows, part: Part, manifest: Manifest, trim: Trim
) -> CheckedRows:
    """Read all rows that a manifest names, and compare them with those that landed."""
    checked = CheckedRows()
    for held in manifest.tables:
        rows = await _rows(
            stored, part, manifest, held, checked, is_gone=_is_trimmed(manifest, trim)
        )
        if manifest.tick <= part.landed:
            rows = await _with_landed(stored, part, manifest, held, rows, checked)
        known = await stored.table(held.table)
        if rows is None or known is None:
            checked.is_whole = False
        elif held.rows:
            checked.tables[held.table] = rows
            checked.rows.append(Rows(known[1], rows))
    if manifest.tick <= part.landed:
        await _nothing_else(stored, part, manifest, checked)
    if manifest.checkpoint is not None:
        await _checkpoint(stored, part, manifest, checked, trim)
    return checked


def _is_trimmed(manifest: Manifest, trim: Trim) -> bool:
    return manifest.tick <= trim.segments_through


async def _rows(
    stored: StoredRows,
    part: Part,
    manifest: Manifest,
    held: TableRows,
    checked: CheckedRows,
    *,
    is_gone: bool,
    is_checkpoint: bool = False,
) -> pa.Table | None:
    kind: Kind = "checkpoint" if is_checkpoint else "segment"
    where = held.segment
    if where is None:
        where = f"inline rows of {'checkpoint' if is_checkpoint else 'tick'} {manifest.tick}"
        where, kind = f"{where}, table {held.table}", "inline"
    try:
        rows = await stored.held(part.world, manifest, held)
    except (Corrupt, pa.ArrowException) as error:
        if await stored.table(held.table) is not None:  # else the signature was named
            checked.findings.append(_said(kind, where, error))
        return None
    if rows is None and not is_gone:
        checked.findings.append(Finding(kind, where, f"{held.rows} rows", "no such object"))
    return rows


async def _with_landed(
    stored: StoredRows,
    part: Part,
    manifest: Manifest,
    held: TableRows,
    rows: pa.Table | None,
    checked: CheckedRows,
) -> pa.Table | None:
    """Compare rows with those in the Iceberg table, which alone are left in the end."""
    where = f"tick {manifest.tick} in Iceberg table {held.table}"
    try:
        landed = await stored.landed(part.world, held.table, manifest.tick, part.landed)
    except (OSError, PerdureError, pa.ArrowException) as error:
        checked.findings.append(_said("landed", where, error))
        return rows
    if landed is None:
        if held.rows and await stored.table(held.table) is not None:
            checked.findings.append(Finding("landed", where, f"{held.rows} rows", "no such table"))
        return rows
    foreign = landed.filter(pc.not_equal(landed.column("commit"), manifest.token))
    if foreign.num_rows or landed.num_rows != held.rows:
        found = f"{landed.num_rows}, {foreign.num_rows} of them of another attempt"
        expected = f"{held.rows} rows of attempt {manifest.token}"
        checked.findings.append(Finding("landed", where, expected, found))
        return rows
    difference = None if rows is None else difference_of(landed, rows)
    if difference is not None:
        checked.findings.append(Finding("landed", where, "the rows of its segment", difference[1]))
    return landed if rows is None else rows


async def _nothing_else(
    stored: StoredRows, part: Part, manifest: Manifest, checked: CheckedRows
) -> None:
    """Look for rows of the tick in tables that its manifest does not name."""
    named = {held.table for held in manifest.tables}
    for table in stored.known_tables():
        if table in named:
            continue
        try:
            landed = await stored.landed(part.world, table, manifest.tick, part.landed)
        except (OSError, PerdureError, pa.ArrowException):
            continue  # named where the table's own rows are looked for
        if landed is not None and landed.num_rows:
            where = f"tick {manifest.tick} in Iceberg table {table}"
            checked.findings.append(Finding("landed", where, "no rows", str(landed.num_rows)))


async def _checkpoint(
    stored: StoredRows, part: Part, manifest: Manifest, checked: CheckedRows, trim: Trim
) -> None:
    found: list[Rows] = []
    is_whole = True
    for held in manifest.checkpoint or ():
        is_shared = held.segment is not None and held in manifest.tables
        if is_shared and held.table in checked.tables:
            rows = checked.tables[held.table]
        elif is_shared:
            rows = None  # the very same object, and named already
        else:
            rows = await _rows(
                stored,
                part,
                manifest,
                held,
                checked,
                is_gone=trim.may_lack_checkpoint(manifest.tick),
                is_checkpoint=True,
            )
        known = await stored.table(held.table)
        if rows is None or known is None:
            is_whole = False
        else:
            found.append(Rows(known[1], rows))
    checked.base = found if is_whole else None


def _said(kind: Kind, where: str, error: Exception) -> Finding:
    if isinstance(error, PerdureError):
        return Finding(kind, where, error.expected, error.found)
    return Finding(kind, where, "readable rows", text_of(error).splitlines()[0])
