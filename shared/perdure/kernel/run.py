"""Runs: a number of ticks asked for once, however often it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.errors import Conflict, Invalid
from perdure.kernel.ids import Instant, Tick, checked_id
from perdure.kernel.records import RequestKey, head_key, request_key
from perdure.kernel.request import WorldRequest
from perdure.kernel.view import Decision, Reads, View
from perdure.kernel.wake import active_head

RUN_TICKS_MAX: Final = 1_000_000
"""Ticks of one run: a run is asked for again until it is done, so this only stops slips."""


@dataclass(frozen=True, slots=True)
class StartRun(WorldRequest):
    """Fix the tick that a run of ``ticks`` leads to; the same key leads to the same tick."""

    request: str
    ticks: int

    def checked(self) -> StartRun:
        """Return self if well formed. Raises Invalid kinds."""
        checked_id(self.request, what="an idempotency key")
        if not 1 <= self.ticks <= RUN_TICKS_MAX:
            raise Invalid(expected=f"1 to {RUN_TICKS_MAX} ticks", found=str(self.ticks))
        return self

    def reads(self) -> Reads:
        world = self.ref.partition
        return Reads(keys=(head_key(world), request_key(world, self.request)))

    def decide(self, view: View, now: Instant) -> Decision[Tick]:
        world = self.ref.partition
        content = digest("perdure.run.v1", self.ref.world.encode(), canonical(self.ticks))
        known = view.get(request_key(world, self.request))
        if known is not None:
            if known.digest != content:
                raise Conflict(
                    expected=f"request {self.request!r} as it was before", found="another request"
                )
            return Decision(Tick(known.reply["to_tick"]))
        head = active_head(view, self.ref)
        to_tick = Tick(head.published + self.ticks)
        key = RequestKey(
            partition=world, request=self.request, digest=content, reply={"to_tick": to_tick}
        )
        return Decision(to_tick, (key,))
