"""Commands drawn by lot: often such as cannot be applied, or fail for now."""

from __future__ import annotations

from typing import Any

from tests.simulator.harbour import FAILS, KILLS
from tests.simulator.records import Json
from tests.simulator.stage import Process

BATCH_MAX = 5
OPERATIONS = ("despawn", "update", "update", "add_components", "remove_components")


def contents(me: Process, world: str) -> list[Json]:
    """Draw the commands of a batch."""
    chance = me.stage.chance
    size = 1 if chance.random() < 0.5 else chance.randint(2, BATCH_MAX)
    return [_content(me, world) for _ in range(size)]


def _content(me: Process, world: str) -> Json:
    """Draw a command: often one that cannot be applied."""
    stage = me.stage
    chance = stage.chance
    known = stage.entities[world]
    operation = "spawn"
    if known and chance.random() < 0.6:
        operation = stage.pick(OPERATIONS)
    content: Json = {"operation": operation}
    if operation != "spawn":
        content["entity_id"] = stage.pick(known)
    if operation == "remove_components":
        content["components"] = [stage.pick(("Place", "Speed", "Tag"))]
    elif operation != "despawn":
        content["components"] = _components(chance, stage.fickle)
    if chance.random() < 0.3:
        content["tick"] = int(chance.random() * 12)
    if chance.random() < 0.2:
        content["priority"] = chance.randint(-1, 1)
    if chance.random() < 0.15:
        content["command_id"] = f"c{int(chance.random() * 200)}x"
    if chance.random() < (0.6 if "Fickle" in content.get("components", ()) else 0.1):
        content["max_attempts"] = chance.randint(1, 3)
    return content


def _components(chance: Any, fickle: float) -> Json:
    drawn: Json = {}
    if chance.random() < 0.6:
        drawn["Place"] = {"x": chance.randint(0, 9), "y": chance.randint(0, 9)}
    if chance.random() < 0.3:
        drawn["Speed"] = {"x": chance.randint(-1, 1), "y": chance.randint(-1, 1)}
    if chance.random() < 0.1:
        drawn["Seed"] = {"left": chance.randint(1, 4)}
    if chance.random() < fickle:
        drawn["Fickle"] = {"value": chance.choice((0, FAILS, FAILS, KILLS))}
    if chance.random() < 0.2 or not drawn:
        drawn["Tag"] = {}
    return drawn
