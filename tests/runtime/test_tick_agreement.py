"""A tick publishes the very same, whether large batches are read by columns or one by one."""

from __future__ import annotations

import pytest
from tests.runtime.harness import Fuel, Place, Speed, fresh_app, harness

from perdure import AddComponents, Despawn, Spawn, Update
from perdure.kernel.ids import Tick
from perdure.lake import staging
from perdure.runtime import apply
from perdure.runtime.manifests import manifests_of

pytestmark = pytest.mark.proof

MANY = apply.SPELLED_MIN

SPAWNS = [Spawn(Place(x=n / 7, y=-0.0), Speed(x=n + 0.5, y=1.5)) for n in range(MANY)]
MOVES = [Update(Place(x=n / 3, y=0.5), entity_id=n) for n in range(1, MANY + 1)]


STORIES = {
    "spawns, then moves, in one tick": [[SPAWNS, MOVES]],
    "spawns, then moves, in two": [[SPAWNS], [MOVES]],
    "few before many": [[SPAWNS[:3], SPAWNS, MOVES[:5], SPAWNS]],
    "some that cannot be": [[SPAWNS], [[*MOVES[1:], Update(Place(x=0, y=0), entity_id=9_999)]]],
    "whole batches, one of which is late": [[SPAWNS], [[Despawn(entity_id=5)], MOVES, SPAWNS]],
    "two kinds in a batch": [[[*SPAWNS, *(Spawn(Fuel(litres=n)) for n in range(MANY))]]],
    "spawns that gain": [
        [SPAWNS, [AddComponents(Fuel(litres=n), entity_id=n) for n in range(1, MANY)]]
    ],
    "integers": [[[Spawn(Fuel(litres=n - 300)) for n in range(MANY)]]],
}


async def manifests(root, story):
    root.mkdir()
    h = harness(root, app=fresh_app())
    await h.worlds.create("harbour", world_id="w")
    ticker = h.ticker()
    for tick, batches in enumerate(story):
        for number, commands in enumerate(batches):
            await h.worlds.submit("w", commands, batch_id=f"{tick}-{number}")
        await h.run("w", tick, ticker)
    found = await manifests_of(
        h.authority, h.worlds.ref("w").partition, Tick(0), Tick(len(story) - 1)
    )
    return [each.body() for each in found]


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_manifests_and_segments_are_the_same_however_commands_were_read(
    tmp_path, monkeypatch, story
):
    found = [await manifests(tmp_path / "columns", story)]
    monkeypatch.setattr(apply, "SPELLED_MIN", 10**9)
    found.append(await manifests(tmp_path / "alike", story))
    monkeypatch.setattr(staging, "ALIKE_MIN", 10**9)
    found.append(await manifests(tmp_path / "singles", story))

    assert found[0] == found[1] == found[2]
