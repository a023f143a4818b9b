"""Evidence at work: the private world that holds what a run did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perdure.kernel.ids import Epoch, Instant, WorldId, short_hash
from perdure.kernel.later import Later
from perdure.kernel.operations import Command, Spawn
from perdure.kernel.session.records import SessionRef
from perdure.runtime.app import App
from perdure.runtime.session.evidence import COMPONENTS, RunFacts, rows_of
from perdure.runtime.worlds import Worlds

if TYPE_CHECKING:
    from perdure.runtime import private, run
    from perdure.runtime.session.tool_world import Lakeside
else:  # what a process without Arrow never asks for
    private = Later("perdure.runtime.private")
    run = Later("perdure.runtime.run")

KIND: Final = "evidence"

SLICE_MS: Final = 60_000
"""Time that ticks are given at once; then they are asked for again."""

_APP: Final = App()
for _component in COMPONENTS:
    _APP.component(_component)


@dataclass(frozen=True, slots=True)
class WorldEvidence:
    """Writes what runs did into private worlds."""

    worlds: Worlds
    lakeside: Callable[[], Awaitable[Lakeside]]

    async def write(self, ref: SessionRef, run_facts: RunFacts, epoch: Epoch) -> WorldId:
        """Write a run as a private world of its own, and return its id.

        The epoch is part of the id: what a writer before left half-written is another world,
        and the sweeper's. Raises as a private world does.
        """
        ticker = (await self.lakeside()).ticker
        # No application's: whichever one sweeps may retire it.
        worlds = self.worlds.of_app(_APP.registry)
        means = replace(ticker.means, app=_APP)
        name = f"evidence-{short_hash(run_facts.lineage, run_facts.started.run_id)}-{epoch}"
        rows = rows_of(ref, run_facts)
        commands: list[Command] = [
            Spawn(components={type(row).__name__: row}, tick=tick) for tick, row in rows
        ]
        held = private.private_world(
            means, worlds, name, world_id=name, kind=KIND, lease_ms=ticker.lease_ms
        )
        async with held as grip:
            await worlds.submit_many(name, commands, batch_prefix=KIND, holder=grip.holder)
            done = False
            while not done:
                deadline = Instant(means.now() + SLICE_MS)
                ran = await run.run_ticks(
                    grip.ticker, worlds.ref(name), to_tick=rows[-1][0], deadline=deadline
                )
                done = ran.done
        return grip.world_id
