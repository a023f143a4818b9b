"""Forks: the same world from here on, whoever writes to its source meanwhile."""

from __future__ import annotations

import pytest
from tests.support.forking import STORES, rig

pytestmark = pytest.mark.lifecycle


@pytest.mark.parametrize("store", STORES)
async def test_a_forks_next_tick_is_its_sources_next_tick(store, tmp_path, request):
    async with rig(store, tmp_path, request) as h:
        await h.harbour()

        info = await h.fork("w", "child")
        await h.run("w", 6)
        await h.run("child", 6)

        assert (info.parent_world_id, info.published_tick, info.next_tick) == ("w", 2, 3)
        assert (info.entities, info.pending_commands, info.kind) == (3, 4, "port")
        for tick in range(7):
            assert await h.rows("child", tick) == await h.rows("w", tick)
        assert len(await h.rows("child", 6)) == 6
        assert await h.state("late", "child") == "applied"
