"""What writers are told of their ticks, held against what was published."""

from __future__ import annotations

from typing import Any

from tests.simulator.records import expect
from tests.simulator.truth import Truth

from perdure.kernel.errors import OutcomeUnknown, PerdureError
from perdure.kernel.fence import Grip
from perdure.kernel.ids import Holder
from perdure.kernel.places import WorldRef
from perdure.runtime.report import TickReport
from perdure.runtime.tick import Means, Ticker


class CheckedTicker(Ticker):
    """A writer whose every tick is compared with what it is told of it."""

    def __init__(self, truth: Truth, means: Means, holder: Holder, **how: Any) -> None:
        super().__init__(means, holder, **how)
        self._truth = truth

    async def tick(self, ref: WorldRef, grip: Grip, **how: Any) -> tuple[TickReport, Grip]:
        place = (ref.partition.partition("/")[2], int(grip.tick), f"{self.holder}-")
        self._truth.not_published.discard(place)
        try:
            report, after = await super().tick(ref, grip, **how)
        except OutcomeUnknown:
            raise
        except PerdureError as error:
            self._truth.was_not_published(place, error.code)
            raise
        known = self._truth.worlds[place[0]].manifests.get(report.tick, {}).get("token")
        expect(
            known == report.token and report.token.startswith(place[2]),
            "I1",
            "{} is told of its tick {} under {}, published was {}",
            self.holder,
            report.tick,
            report.token,
            known,
        )
        return report, after
