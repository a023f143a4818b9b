"""Worlds over a real authority in memory, and a writer that needs no rows."""

from __future__ import annotations

import asyncio
from itertools import count

from tests.support.worldly import REGISTRY

from perdure.authority.engine import Authority, Patience
from perdure.authority.memory import MemoryStore
from perdure.kernel.component import Component
from perdure.kernel.drain import DrainDue
from perdure.kernel.fence import TakeFence
from perdure.kernel.ids import Holder, Instant, RunId, Seq, StorageId, Token
from perdure.kernel.publish import Publish
from perdure.kernel.settle import settlement
from perdure.runtime.worlds import Worlds


class Text(Component):
    text: str


async def no_pause(_seconds):
    await asyncio.sleep(0)


class Harbour:
    """One storage on one memory store, and a writer without rows."""

    def __init__(self, store=None, registry=REGISTRY, **patience):
        self.store = MemoryStore() if store is None else store
        self.now = Instant(1_000_000)
        self.drained_seq = Seq(0)
        numbers = count(1)
        self.authority = Authority(
            self.store,
            lambda: self.now,
            lambda: Token(f"token-{next(numbers)}"),
            chance=lambda: 0.5,
            pause=no_pause,
            patience=Patience(**patience),
        )
        self.storage = StorageId("storage")
        self.worlds = Worlds(
            self.authority,
            self.storage,
            registry,
            new_token=lambda: Token(f"drawn-{next(numbers)}"),
            new_run=lambda: RunId(f"run-{next(numbers)}"),
            pause=no_pause,
        )

    async def tick(self, world):
        ref = self.worlds.ref(world)
        grip = await self.authority.execute(TakeFence(ref, Holder("ann"), 60_000))
        drained = await self.authority.execute(DrainDue(ref, grip.tick, self.drained_seq))
        self.drained_seq = drained.head.seq
        applied = [each.sequence for each in drained.commands]
        settled = settlement(drained, grip.tick, applied=applied, rejected=(), charged=())
        await self.authority.execute(
            Publish(
                ref=ref,
                tick=grip.tick,
                token=Token(f"tick-{grip.tick}"),
                epoch=grip.epoch,
                holder=grip.holder,
                drained_seq=drained.head.seq,
                drained=settled.drained,
                entities=len(applied),
            )
        )

    @property
    def records(self):
        return dict(self.store._records)


def played(story, **options):
    """Run a story on a fresh harbour with the world "w"."""
    harbour = Harbour(**options)

    async def whole():
        await harbour.worlds.create("harbour", world_id="w")
        result = await story(harbour)
        await harbour.authority.close()
        return result

    return asyncio.run(whole())
