"""Hints, listed for whoever looks for work: one partition a shard, one minute after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from perdure.kernel.ids import Instant, Partition
from perdure.kernel.places import MINUTE_MS, number
from perdure.kernel.record import Record
from perdure.kernel.view import Range, Reads, View

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class HintsDue(Generic[R]):
    """Base of the listings of one shard's hints that are due by ``through``, earliest first."""

    shard: int
    through: Instant
    limit: int = 500
    beyond: str = ""
    """Only hints behind this one."""

    once: ClassVar[bool] = False
    of: ClassVar[type[Any]]

    @property
    def stream(self) -> Partition:
        """The partition in which the hints of the shard lie."""
        raise NotImplementedError

    def reads(self) -> Reads:
        return Reads(ranges=(self._range,))

    def found(self, view: View) -> tuple[R, ...]:
        """Return what a view shows of them. Raises Missing."""
        return tuple(view.find(self._range))

    @property
    def _range(self) -> Range[R]:
        last = f"{number(self.through // MINUTE_MS + 1)}/"
        first = f"{self.beyond}/" if self.beyond else ""
        return Range(self.stream, first, last, self.of, limit=self.limit)
