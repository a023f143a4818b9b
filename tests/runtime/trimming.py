"""How the tests of trimming trim, plant records, and read all there is to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.runtime.keeping import STORAGE, Keeping

from perdure.kernel.ids import WorldId
from perdure.kernel.trim import TrimRequest
from perdure.kernel.view import Decision, Reads
from perdure.runtime.archive import ArchivedStore
from perdure.runtime.trim import Trimming

HOUR = 3_600_000


def archiving(store, objects):
    return ArchivedStore(store, lambda: objects)


def trimming(kept: Keeping, block: int = 5) -> Trimming:
    h = kept.harness
    return Trimming(h.authority, h.objects, STORAGE, h.clock, block_entries=block)


async def trim(kept: Keeping, *worlds: str, **options):
    trimmed, rest = await trimming(kept).trim(
        [WorldId(each) for each in worlds or ("w",)], grace_ms=HOUR, **options
    )
    assert rest is None
    return trimmed


async def everything(kept: Keeping, ticks: int, world: str = "w"):
    """Read all that can be read of a world."""
    worlds = kept.harness.worlds
    states = [
        await kept.rows(component, tick, world)
        for tick in range(ticks)
        for component in ("Place", "Fuel")
    ]
    log = await worlds.log(world, 0, 1_000)
    commands, after = await worlds.commands(world, limit=1_000)
    assert after is None
    status = [await worlds.command(world, command.command_id) for command in commands[-5:]]
    return states, log, commands, status


@dataclass(frozen=True)
class Plant(TrimRequest):
    """Write one record over whatever is there."""

    record: Any

    def reads(self):
        return Reads(keys=(self.record.key,))

    def decide(self, view, now):
        view.get(self.record.key)
        return Decision(None, (self.record,))


async def planted(kept: Keeping, record) -> None:
    await kept.harness.authority.execute(Plant(kept.harness.worlds.ref("w"), record))
