"""Appending once: rows enter a table under a batch id, and no answer is taken at its word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table

from perdure.kernel.errors import PerdureError
from perdure.kernel.refusals import unanswered
from perdure.lake.iceberg import Verdict, append, verdict

APPEND_ATTEMPTS_MAX: Final = 4
"""Times one table is tried before it is left to the next call."""


async def appended_once(
    opened: Callable[[], Table],
    batch: str,
    parent: int | None,
    *,
    rows: Callable[[], Awaitable[pa.Table]],
    is_there: Callable[[Table], bool],
) -> int:
    """Append ``rows`` under ``batch`` unless they are in the table already; count the files.

    After any exception the table is loaded again and looked at: no error of a commit proves
    that nothing happened. ``is_there`` looks for the rows themselves where the chain of
    snapshots back to ``parent`` is cut. Raises StoreUnavailable.
    """
    held: pa.Table | None = None
    failed: Exception | None = None
    table: Table | None = None
    for _ in range(APPEND_ATTEMPTS_MAX):
        table = await asyncio.to_thread(opened)
        seen = verdict(table, batch, parent)
        if seen is Verdict.UNTOLD:
            found = await asyncio.to_thread(is_there, table)
            seen = Verdict.LANDED if found else Verdict.NOT_LANDED
        if seen is Verdict.LANDED:
            return 0 if failed is None else 1
        if held is None:
            held = await rows()
        try:
            return await asyncio.to_thread(append, table, held, batch)
        except PerdureError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, the table is asked
            failed = error
    assert table is not None
    assert failed is not None
    raise unanswered(f"to append batch {batch} to table {table.name()[-1]}", failed) from failed
