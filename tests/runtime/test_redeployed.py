"""An application redeployed with a stricter class while commands wait: the others are applied all the same."""

from __future__ import annotations

from collections import Counter

import pytest
from pydantic import model_validator

import perdure
from perdure import App, Component, Spawn, Update
from perdure.lake.alike import Alike

pytestmark = pytest.mark.proof

SHIPS = 100
LATE = [Update(components={"Berth": {"x": 5.0}}, entity_id=each) for each in range(1, SHIPS + 1)]
TOO_FAR = Update(components={"Berth": {"x": 2_000.0}}, entity_id=SHIPS + 1)


def loose():
    class Berth(Component):
        x: float

    app = App("berths")
    app.component(Berth)
    return app


def strict():
    class Berth(Component):
        x: float

        @model_validator(mode="after")
        def inside(self):
            if self.x > 1_000:
                raise ValueError("outside of the harbour")
            return self

    app = App("berths")
    app.component(Berth)
    return app


async def redeployed(root):
    """Let commands wait while the class becomes stricter; return what became of them."""
    async with perdure.open(root.as_uri(), app=loose()) as storage:
        world = await storage.create_world("w", world_id="w")
        await world.submit([Spawn(components={"Berth": {"x": 0.0}})] * (SHIPS + 1))
        await world.run(ticks=1)
        await world.submit(LATE)
        await world.submit([TOO_FAR])
    async with perdure.open(root.as_uri(), app=strict()) as storage:
        world = await storage.world("w")
        await world.run(ticks=1)
        rows = await world.query("Berth")
        told, _ = await storage.worlds.commands("w", limit=1_000)
        findings = (await world.verify()).findings
    return (
        Counter(rows.column("berth__x").to_pylist()),
        Counter(each.status for each in told),
        findings,
    )


async def test_what_waited_is_applied_but_for_what_the_new_rule_forbids(tmp_path):
    rows, statuses, findings = await redeployed(tmp_path)

    assert rows == {5.0: SHIPS, 0.0: 1}
    assert statuses == {"applied": 2 * SHIPS + 1, "rejected": 1}
    assert findings == ()


async def test_a_tick_that_lost_what_it_applied_by_columns_is_found_by_who_applies_one_by_one(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(Alike, "fresh", lambda alike, before: iter(()))

    async with perdure.open(tmp_path.as_uri(), app=loose()) as storage:
        world = await storage.create_world("w", world_id="w")
        await world.submit([Spawn(components={"Berth": {"x": 0.0}})] * SHIPS)
        await world.run(ticks=1)
        findings = (await world.verify()).findings

    assert findings
