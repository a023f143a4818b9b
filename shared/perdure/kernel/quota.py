"""Quotas: what an actor spends is written in the very commit that it pays for.

Windows are aligned to multiples of their length and only move on, so clocks that disagree a
little agree on what was spent: the fastest begins a window, and no slower one begins the last
one again. A window further ahead than one length was written by a wrong clock; it is brought
back, and what was spent in it still counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from perdure.kernel.admit import Admit
from perdure.kernel.caller import LOCAL, Allowance, Caller
from perdure.kernel.errors import QuotaExceeded, TooLarge
from perdure.kernel.ids import Instant, Partition, StorageId
from perdure.kernel.places import catalog_partition, quota_partition
from perdure.kernel.record import Record
from perdure.kernel.view import Decision, Key, Reads, Request, View

T = TypeVar("T")
"""What a request answers."""

SORT: Final = "quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Record):
    """What one actor has spent since a moment: one record for ever, whatever the window."""

    actor: str
    window_start: Instant
    spent: int

    @property
    def key(self) -> Key[Quota]:
        return Key(self.partition, SORT, Quota)


def quota_key(stream: Partition, actor: str) -> Key[Quota]:
    """Name the record of what an actor has spent in the storage that a stream is of."""
    return Key(quota_partition(stream, actor), SORT, Quota)


@dataclass(frozen=True, slots=True)
class Bill:
    """Who pays how much, out of what."""

    stream: Partition
    """Any of the storage."""

    actor: str
    allowance: Allowance
    count: int = 1
    """Things asked for: commands of a batch, or the one request."""

    @property
    def key(self) -> Key[Quota]:
        return quota_key(self.stream, self.actor)

    def paid(self, held: Quota | None, now: Instant) -> Quota:
        """Return the record with this bill paid. Raises TooLarge, QuotaExceeded."""
        units, cost = self.allowance.units, self.count * self.allowance.cost
        if cost > units:
            raise TooLarge(
                expected=f"a request within the whole quota of {units} units",
                found=f"one that costs {cost}",
            )
        start, spent = self._window(held, now)
        if spent + cost > units:
            raise self._exceeded(start, spent, cost, now)
        return Quota(
            partition=self.key.partition,
            actor=self.actor,
            window_start=start,
            spent=spent + cost,
        )

    def _window(self, held: Quota | None, now: Instant) -> tuple[Instant, int]:
        """Return where the window of ``now`` began, and what was spent in it."""
        length = self.allowance.window_ms
        begun = Instant(now - now % length)
        if held is None or held.window_start < begun:
            return begun, 0
        ahead = held.window_start - begun
        return (held.window_start if ahead <= length else begun), held.spent

    def _exceeded(self, start: Instant, spent: int, cost: int, now: Instant) -> QuotaExceeded:
        length = self.allowance.window_ms
        wait_ms = (max(start, now) // length + 1) * length - now
        error = QuotaExceeded(
            expected=f"at most {self.allowance.units} units in {length} ms from {self.actor!r}",
            found=f"{spent} spent and {cost} more asked for, {wait_ms} ms before the next window",
        )
        error.retry_after_ms = wait_ms
        return error


@dataclass(frozen=True, slots=True)
class Metered(Generic[T]):
    """A request that is decided only if its caller may spend what it costs.

    Who is refused, or told again what was done before, spends nothing: only what writes is
    paid for, once, in its own commit.
    """

    request: Request[T]
    bill: Bill

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.request.stream

    def reads(self) -> Reads:
        return Reads.union(self.request.reads(), Reads(keys=(self.bill.key,)))

    def decide(self, view: View, now: Instant) -> Decision[T]:
        decision = self.request.decide(view, now)
        if not decision.writes:
            return decision
        paid = self.bill.paid(view.get(self.bill.key), now)
        return Decision(decision.reply, (*decision.writes, paid))


@dataclass(frozen=True, slots=True)
class Spend:
    """Pay for work that is no single commit, before it begins."""

    bill: Bill

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.bill.key.partition

    def reads(self) -> Reads:
        return Reads(keys=(self.bill.key,))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        return Decision(None, (self.bill.paid(view.get(self.bill.key), now),))


def metered(request: Request[T]) -> Request[T]:
    """Return ``request`` with its bill, if whoever asks has a quota.

    A request says by its field ``by`` who asks.
    """
    by = getattr(request, "by", LOCAL)
    # Other requests may mean something else by that word.
    if not isinstance(by, Caller) or by.allowance is None or by.actor is None:
        return request
    assert not request.once, "what may not be decided again is paid for before it begins"
    count = request.batch.size if isinstance(request, Admit) else 1
    return Metered(request, Bill(request.stream, by.actor, by.allowance, count))


def payment(storage: StorageId, by: Caller) -> Spend | None:
    """Return what must be paid before work that is no single commit, if anything."""
    if by.allowance is None or by.actor is None:
        return None
    return Spend(Bill(catalog_partition(storage), by.actor, by.allowance))
