"""What a warm tick asks of its store: counted, and the same on every store."""

from __future__ import annotations

import pytest
from tests.runtime.harness import Place, harness

from perdure import Spawn, Update
from perdure.authority.memory import MemoryStore


class Counting(MemoryStore):
    """A memory store that counts what it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def load(self, reads):
        self.asked.append("load")
        return await super().load(reads)

    async def commit(self, commit):
        self.asked.append("commit")
        await super().commit(commit)


@pytest.mark.parametrize("commands", [[], [Update(Place(x=1, y=1), entity_id=1)]])
async def test_a_warm_tick_costs_one_load_and_one_commit(tmp_path, commands):
    store = Counting()
    h = harness(tmp_path, store=store)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    ref, ticker = h.worlds.ref("w"), h.ticker()
    _, grip = await ticker.tick(ref, await ticker.take(ref), keep=True)
    if commands:
        await h.worlds.submit("w", commands)
    store.asked.clear()

    report, _ = await ticker.tick(ref, grip, keep=True)

    assert report.applied == len(commands)
    assert store.asked == ["load", "commit"]
