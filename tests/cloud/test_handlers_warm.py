"""Warm processes: what one keeps between two events is used only while it is still true."""

from __future__ import annotations

import pytest
from tests.runtime.harness import Place, harness

from perdure import Spawn
from perdure.kernel.errors import WorldDestroyed
from perdure.runtime import tick as ticking
from perdure.runtime.close import destroy
from perdure.runtime.rebuild import rebuild

pytestmark = pytest.mark.cloud


async def warmed(tmp_path, monkeypatch):
    """Return a storage with a world of one entity that ann has ticked once, and let go."""
    h = harness(tmp_path)
    h.rebuilt = []

    async def counted(*asked):
        h.rebuilt.append(asked[2].world)
        return await rebuild(*asked)

    monkeypatch.setattr(ticking, "rebuild", counted)
    await h.worlds.create("harbour", world_id="w")
    await h.worlds.submit("w", [Spawn(Place(x=0, y=0))])
    h.ann, h.bob = h.ticker("ann"), h.ticker("bob")
    await h.run("w", 0, h.ann)
    h.rebuilt.clear()
    return h


async def entities(h, world="w"):
    return (await h.worlds.describe(world)).entities


async def test_what_is_kept_is_used_when_nobody_else_came_between(tmp_path, monkeypatch):
    h = await warmed(tmp_path, monkeypatch)
    await h.run("w", 1, h.ann)
    await h.run("w", 2, h.ann)

    assert h.rebuilt == []


async def test_what_another_process_ticked_is_read_again(tmp_path, monkeypatch):
    h = await warmed(tmp_path, monkeypatch)
    await h.worlds.submit("w", [Spawn(Place(x=1, y=1))])
    await h.run("w", 1, h.bob)
    h.rebuilt.clear()

    await h.worlds.submit("w", [Spawn(Place(x=2, y=2))])
    ran = await h.run("w", 2, h.ann)

    assert h.rebuilt == ["w"]
    assert ran.entities == await entities(h) == 3


async def test_world_whose_fence_another_process_had_is_read_again_though_no_tick_was_published(
    tmp_path, monkeypatch
):
    h = await warmed(tmp_path, monkeypatch)
    ref = h.worlds.ref("w")
    await h.bob.release(ref, await h.bob.take(ref))
    h.rebuilt.clear()

    await h.run("w", 1, h.ann)
    await h.run("w", 2, h.ann)

    assert h.rebuilt == ["w"]


async def test_tick_that_another_process_published_and_died_over_is_read_again(
    tmp_path, monkeypatch
):
    h = await warmed(tmp_path, monkeypatch)
    ref = h.worlds.ref("w")
    await h.bob.tick(ref, await h.bob.take(ref), keep=True)
    h.clock.advance(120_000)
    h.rebuilt.clear()

    ran = await h.run("w", 2, h.ann)

    assert h.rebuilt == ["w"]
    assert ran.published_tick == 2


async def test_fork_that_another_process_made_and_ticked_is_another_world(tmp_path, monkeypatch):
    h = await warmed(tmp_path, monkeypatch)
    await h.worlds.fork("w", "fork", world_id="f")
    await h.worlds.submit("f", [Spawn(Place(x=1, y=1))])
    await h.run("f", 1, h.bob)

    await h.run("w", 1, h.ann)
    await h.run("f", 2, h.ann)

    assert (await entities(h), await entities(h, "f")) == (1, 2)


async def test_world_that_another_process_destroyed_is_ticked_no_more(tmp_path, monkeypatch):
    h = await warmed(tmp_path, monkeypatch)
    await destroy(h.bob.means, h.worlds.ref("w"), lease_ms=60_000)

    with pytest.raises(WorldDestroyed):
        await h.run("w", 1, h.ann)

    assert h.rebuilt == []
