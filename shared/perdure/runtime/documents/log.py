"""Reading the log of a document store to its end, and trimming it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from perdure.kernel.documents.log import (
    LOG_PAGE_ENTRIES,
    LogPage,
    LogPlace,
    ProveLogGap,
    ReadLog,
    TrimLog,
    Trimmed,
)
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Logged
from perdure.kernel.errors import Contended
from perdure.kernel.ids import Seq
from perdure.runtime.ports import Executes
from perdure.runtime.session.ports import Pause
from perdure.runtime.steady import steadily

READ_TRIES: Final = 8
"""Times a reading that met a running commit is taken again."""


async def read_log(
    authority: Executes,
    ref: DocumentStoreRef,
    place: LogPlace,
    *,
    pause: Pause,
    limit: int = LOG_PAGE_ENTRIES,
) -> LogPage:
    """Return the next commits behind a place; none if there are none.

    Raises: as ReadLog; Corrupt for an entry that is lost.
    """
    request = ReadLog(ref, place, limit).checked()
    try:
        return await steadily(authority, request, tries=READ_TRIES, pause=pause)
    except Contended:
        await authority.execute(ProveLogGap(ref, place.seq))
        raise


async def entries_behind(
    authority: Executes,
    ref: DocumentStoreRef,
    place: LogPlace,
    *,
    pause: Pause,
    limit: int = LOG_PAGE_ENTRIES,
) -> AsyncIterator[Logged]:
    """Yield every commit behind a place, up to the head as it is when that is reached."""
    while True:
        page = await read_log(authority, ref, place, pause=pause, limit=limit)
        for entry in page.entries:
            yield entry
        if page.is_last:
            return
        place = page.end


async def trim_log(authority: Executes, ref: DocumentStoreRef, through: Seq) -> Trimmed:
    """Remove the entries of the log up to ``through``, but for those that no trim removes.

    Whoever stops in between leaves a shorter log that is whole.
    """
    removed = 0
    while True:
        trimmed = await authority.execute(TrimLog(ref, through))
        removed += trimmed.removed
        if trimmed.is_done:
            return Trimmed(trimmed.log_from, removed, is_done=True)
