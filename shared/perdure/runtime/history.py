"""History: what happened in a world, event by event, read from the audit table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from pyiceberg.table import Table

from perdure.kernel import limits
from perdure.kernel.audit import FindAudited, FindAuditTable
from perdure.kernel.errors import Corrupt, Invalid, PerdureError
from perdure.kernel.events import KINDS
from perdure.kernel.ids import StorageId, WorldId, checked_id
from perdure.kernel.places import WorldRef
from perdure.kernel.records import World
from perdure.kernel.refusals import unanswered
from perdure.kernel.shown import shown
from perdure.lake import audit
from perdure.lake.audit import EventFilter, Stretch
from perdure.lake.iceberg import Lake
from perdure.runtime.ports import Executes

T = TypeVar("T")

EVENTS_MAX: Final = 10_000
"""Events of one page."""

WINDOW_FIRST: Final = 1_000
"""Log entries whose events are looked through first; then ever more, until a page is full."""

WINDOW_GROWTH: Final = 8


EVERYTHING: Final = EventFilter()


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Events in the order of the log, and where to go on.

    ``through_seq`` is the last log entry that the audit table has, ``head_seq`` the last there
    is: what lies between is not in any page yet.
    """

    events: tuple[dict[str, Any], ...]
    through_seq: int
    head_seq: int
    next: tuple[int, int] | None
    """The (seq, index) behind which to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAsked:
    """Which events of a world, bounds included, and from which (seq, index) on."""

    wanted: EventFilter = EVERYTHING
    from_seq: int = 1
    to_seq: int | None = None
    after: tuple[int, int] = (0, -1)
    limit: int = 1_000

    def checked(self) -> HistoryAsked:
        """Return self if it can be asked. Raises Invalid."""
        if not 1 <= self.limit <= EVENTS_MAX:
            raise Invalid(expected=f"a limit of 1 to {EVENTS_MAX}", found=shown(self.limit))
        unknown = next((each for each in self.wanted.kinds or () if each not in KINDS), None)
        if unknown is not None:
            raise Invalid(expected=f"kinds of {', '.join(KINDS)}", found=shown(unknown))
        wanted, bounds = self.wanted, (self.from_seq, self.to_seq, *self.after, self.limit)
        _check_numbers(wanted.entity_id, wanted.from_tick, wanted.to_tick, *bounds)
        _check_numbers(wanted.from_at, wanted.to_at)
        for text in (wanted.command_id, wanted.actor):
            if text is not None and not isinstance(text, str):
                raise Invalid(expected="a command id or an actor as text", found=shown(text))
        return self


def _check_numbers(*numbers: int | None) -> None:
    """Refuse what no column holds: the tables would fail on it, and seem to be away."""
    for each in numbers:
        if each is None:
            continue
        if type(each) is not int or abs(each) > limits.INTEGER_MAX:
            raise Invalid(expected="whole numbers of 64 bits", found=shown(each))


@dataclass(frozen=True, slots=True)
class History:
    """Reads the audit table of one storage. It never makes one."""

    authority: Executes
    lake: Lake
    storage: StorageId

    async def read(self, world: str, asked: HistoryAsked) -> HistoryPage:
        """Return a page of a world's events; also of a destroyed one.

        Raises: NotFound; Invalid; StoreUnavailable rather than an empty page when the
        tables do not answer; Corrupt if the table was lost.
        """
        asked.checked()
        ref = WorldRef(self.storage, WorldId(checked_id(world, what="a world id")))
        # The watermark first: the table, opened after it, has at least what it says.
        audited = await self.authority.execute(FindAudited(ref))
        through, head = audited.through, audited.head.seq
        table = await self._opened() if through else None
        first = max(asked.from_seq, asked.after[0])
        last = min(through, through if asked.to_seq is None else asked.to_seq)
        events: list[dict[str, Any]] = []
        if table is not None:
            events = await self._found(table, audited.world, asked, first, last)
        more = len(events) > asked.limit
        page = tuple(events[: asked.limit])
        following = (page[-1]["seq"], page[-1]["index"]) if more else None
        return HistoryPage(page, through, head, following)

    async def _found(
        self, table: Table, world: World, asked: HistoryAsked, first: int, last: int
    ) -> list[dict[str, Any]]:
        """Look through ever larger stretches of the log until there is one event too many."""
        found: list[dict[str, Any]] = []
        width = WINDOW_FIRST
        while first <= last and len(found) <= asked.limit:
            end = min(last, first + width - 1)
            stretch = Stretch(first, end, asked.after, asked.limit + 1 - len(found))
            found += await _answered(
                partial(audit.world_events, table, world.world, world.run, stretch, asked.wanted)
            )
            first, width = end + 1, width * WINDOW_GROWTH
        return found

    async def _opened(self) -> Table | None:
        table = await _answered(lambda: self.lake.opened_as(audit.AUDIT))
        if table is None:
            find = FindAuditTable(self.storage, audit.AUDIT_TABLE)
            appended = await self.authority.execute(find)
            if appended is not None:
                raise Corrupt(
                    expected=f"an audit table with {appended.rows} events", found="no such table"
                )
        return table


async def _answered(ask: Callable[[], T]) -> T:
    """Ask the tables, off the loop. What they do not answer is unavailable, never nothing."""
    try:
        return await asyncio.to_thread(ask)
    except PerdureError:
        raise
    except Exception as error:
        raise unanswered("an answer from the audit table", error) from error
