"""Reservations: ids that are durably somebody's before anything is written under them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from perdure.kernel.documents import places
from perdure.kernel.documents.step import StagedWrite, Step, exhausted
from perdure.kernel.documents.writes import CopyDocument, CreateDocument
from perdure.kernel.errors import Conflict, OutOfRange
from perdure.kernel.ids import Partition
from perdure.kernel.shown import shown
from perdure.kernel.view import Reads

RESERVED_MAX: Final = 1_000_000
"""Ids of one reservation: whoever hands them out asks again before they are gone."""


@dataclass(frozen=True, slots=True)
class ReserveIds:
    """Let nobody else be given the next ``count`` ids, from this commit on.

    An id that is minted and not committed may be given again after a death; one that leaves for an
    outside caller is reserved first.
    """

    count: int

    def checked(self) -> ReserveIds:
        """Return self if so many can be reserved at once. Raises OutOfRange."""
        if type(self.count) is not int or not 1 <= self.count <= RESERVED_MAX:
            raise OutOfRange(expected=f"1 to {RESERVED_MAX} ids", found=shown(self.count))
        return self

    @property
    def owner(self) -> None:
        return None

    @property
    def names_id(self) -> int:
        return 0

    def reads(self, store: Partition) -> Reads:
        return Reads()

    def apply(self, step: Step) -> None:
        reserve(step, step.next_id, self.count)


def reserve(step: Step, first: int, count: int) -> None:
    """Let nobody be given ids from ``first`` on. Raises IdsExhausted; Conflict if one was."""
    if first < step.next_id:
        raise Conflict(expected=f"ids from {step.next_id} on", found=str(first))
    if first + count > places.SAFE_INTEGER_MAX:
        raise exhausted()
    step.next_id = first + count
    step.tell("ids.reserve", {"first": first, "count": count})


def ids_taken(staged: Iterable[StagedWrite]) -> int:
    """Return how many ids writes take that name none."""
    count = 0
    for each in staged:
        match each:
            case ReserveIds():
                count += each.count
            case CreateDocument(id=None) | CopyDocument(id=None):
                count += 1
            case _:
                pass
    return count
