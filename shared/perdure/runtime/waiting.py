"""Waiting: which worlds have something to copy, found in their hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant, StorageId
from perdure.kernel.places import WorldRef
from perdure.kernel.wake import UNREAD_MS
from perdure.runtime.hints import pages, seen
from perdure.runtime.ports import Executes


@dataclass(frozen=True, slots=True)
class Waiting:
    """The worlds that wait, in the order in which they were found."""

    unlanded: list[WorldRef] = field(default_factory=list)
    """With rows to land."""

    unread: list[WorldRef] = field(default_factory=list)
    """With a log to project."""

    due: list[WorldRef] = field(default_factory=list)
    """With a tick that is due: a consumer may be what holds them."""

    failed: list[tuple[WorldRef, PerdureError]] = field(default_factory=list)
    """That could not be looked at."""

    @property
    def behind(self) -> list[WorldRef]:
        """Those with anything to copy, each once."""
        return list(dict.fromkeys([*self.unlanded, *self.unread]))

    @property
    def awake(self) -> list[WorldRef]:
        """Those that wait for anything, each once."""
        return list(dict.fromkeys([*self.behind, *self.due]))


async def waiting(
    authority: Executes,
    storage: StorageId,
    *,
    now: Callable[[], Instant],
    go_on: Callable[[], bool] = lambda: True,
) -> Waiting:
    """Find what waits in the worlds of a storage. Hints stay where they are.

    When time runs out, it is left to the next look, which begins elsewhere.
    """
    found, known = Waiting(), set[WorldRef]()
    # A hint of a world with something to copy lies at most so far ahead.
    async for hints in pages(authority, lambda: Instant(now() + UNREAD_MS)):
        if not go_on():
            break
        for each in await seen(authority, storage, hints):
            if each.ref in known:
                continue
            known.add(each.ref)
            if isinstance(each.agenda, PerdureError):
                found.failed.append((each.ref, each.agenda))
                continue
            found.unlanded.extend([each.ref] if each.agenda.unlanded else [])
            found.unread.extend([each.ref] if each.agenda.unread else [])
            found.due.extend([each.ref] if each.agenda.tick_due is not None else [])
    return found
