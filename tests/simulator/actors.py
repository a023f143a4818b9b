"""Who acts in a play: clients that admit and cancel, and writers that tick."""

from __future__ import annotations

from typing import Any

from tests.simulator.harbour import FAILS, KILLS
from tests.simulator.records import Json
from tests.simulator.stage import Intention, Process

from perdure.kernel.errors import PerdureError, Refused
from perdure.kernel.ids import Instant
from perdure.kernel.operations import parsed_commands
from perdure.runtime.run import run_ticks

BATCH_MAX = 5
RUN_MS = 20_000


async def admitter(me: Process) -> None:
    """Send batches, send them again, send others under their ids, and cancel."""
    stage = me.stage
    while stage.is_storm:
        await me.rest(2.0)
        drawn = stage.chance.random()
        if drawn < 0.55 or not stage.notebook:
            intention = _intention(me)
            stage.notebook.append(intention)
            await _sent(me, intention)
        elif drawn < 0.75:
            await _sent(me, stage.pick(stage.notebook))
        elif drawn < 0.82:
            known = stage.pick(stage.notebook)
            await _sent(me, Intention(known.world, known.batch, _contents(me, known.world)))
        elif drawn < 0.95:
            await _cancels(me, stage.pick(stage.notebook))
        else:
            await _cancels_all(me)


async def _sent(me: Process, intention: Intention) -> None:
    stage, (world, batch) = me.stage, (intention.world, intention.batch)
    commands = parsed_commands(intention.contents)
    try:
        told = await me.worlds.submit(world, commands, batch_id=batch)
    except PerdureError as error:
        me.met(f"admission: {error.code}")
        me.note("is told of {}: {}", batch, error)
        if isinstance(error, Refused):
            stage.told.refused(world, batch, intention.contents, error.code)
        return
    me.met("admission: replayed" if told.replayed else "admission: admitted")
    me.note("is told that {} is admitted", batch)
    stage.told.receipts(world, batch, intention.contents, told.receipts)
    known = stage.entities[world]
    known += [each.entity_id for each in told.receipts if each.entity_id is not None]
    del known[:-20]


async def _cancels(me: Process, intention: Intention) -> None:
    index = int(me.stage.chance.random() * len(intention.contents))
    command = intention.contents[index].get("command_id") or f"{intention.batch}.{index}"
    try:
        await me.worlds.cancel(intention.world, command)
    except PerdureError as error:
        me.met(f"cancel: {error.code}")
        me.note("is told of cancelling {}: {}", command, error)
        if isinstance(error, Refused):
            me.stage.told.cancelled(intention.world, command, error.code)
        return
    me.met("cancel: cancelled")
    me.note("is told that {} is cancelled", command)
    me.stage.told.cancelled(intention.world, command, None)


async def _cancels_all(me: Process) -> None:
    stage = me.stage
    world = stage.pick(sorted(stage.entities))
    request = f"all{1 + int(stage.chance.random() * 8)}"
    try:
        told = await me.worlds.cancel_all(world, request)
    except PerdureError as error:
        me.met(f"cancel all: {error.code}")
        me.note("is told of {}: {}", request, error)
        return
    me.met("cancel all: done")
    me.note("is told that {} is done", request)
    stage.told.cancelled_all(world, request, told.cancelled_below)


def _intention(me: Process) -> Intention:
    stage = me.stage
    world = stage.pick(sorted(stage.entities))
    batch = f"b{next(stage.numbers)}"
    return Intention(world, batch, _contents(me, world))


def _contents(me: Process, world: str) -> list[Json]:
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
        operation = stage.pick(("despawn", "update", "update", "add_components", "remove_components"))
    content: Json = {"operation": operation}
    if operation != "spawn":
        content["entity_id"] = stage.pick(known)
    if operation == "remove_components":
        content["components"] = [stage.pick(("Place", "Speed", "Tag"))]
    elif operation != "despawn":
        content["components"] = _components(chance)
    if chance.random() < 0.3:
        content["tick"] = int(chance.random() * 12)
    if chance.random() < 0.2:
        content["priority"] = chance.randint(-1, 1)
    if chance.random() < 0.15:
        content["command_id"] = f"c{int(chance.random() * 200)}x"
    if chance.random() < 0.2:
        content["max_attempts"] = chance.randint(1, 4)
    return content


def _components(chance: Any) -> Json:
    drawn: Json = {}
    if chance.random() < 0.6:
        drawn["Place"] = {"x": chance.randint(0, 9), "y": chance.randint(0, 9)}
    if chance.random() < 0.3:
        drawn["Speed"] = {"x": chance.randint(-1, 1), "y": chance.randint(-1, 1)}
    if chance.random() < 0.1:
        drawn["Seed"] = {"left": chance.randint(1, 4)}
    if chance.random() < 0.15:
        drawn["Fickle"] = {"value": chance.choice((0, FAILS, FAILS, FAILS, KILLS))}
    if chance.random() < 0.2 or not drawn:
        drawn["Tag"] = {}
    return drawn


async def ticker(me: Process) -> None:
    """Tick worlds, a few ticks at a time, beside a rival who wants the same."""
    stage = me.stage
    chance = stage.chance
    writer = me.ticker(
        lease_ms=chance.choice((2_000, 10_000, 60_000)),
        on_failure=chance.choice(("stop", "continue")),
    )
    while stage.is_storm:
        await me.rest(3.0)
        world = stage.pick(sorted(stage.entities))
        request = f"run{next(stage.numbers)}"
        deadline = Instant(me.now() + RUN_MS)
        ticks = chance.randint(1, 3)
        try:
            ran = await run_ticks(
                writer, me.ref(world), ticks=ticks, deadline=deadline, request=request
            )
        except PerdureError as error:
            me.met(f"run: {error.code}")
            me.note("is told of its run in {}: {}", world, error)
            continue
        me.met("run: done" if ran.done else "run: out of time")
        me.note("has ticked {} to {}", world, ran.published_tick)


async def closer(me: Process) -> None:
    """When all is quiet: tick every world until nothing is open."""
    writer = me.ticker(lease_ms=60_000, on_failure="continue")
    for world in me.stage.truth.worlds.values():
        while world.status == "active" and world.ledger.open:
            latest = max(each.tick for each in world.ledger.open.values())
            target = max(latest, world.published + 1)
            deadline = Instant(me.now() + 3_600_000)
            me.stage.closing_ticks += 1
            try:
                await run_ticks(writer, me.ref(world.world), to_tick=target, deadline=deadline)
            except PerdureError as error:
                me.met(f"closing run: {error.code}")
                await me.means.pause(30.0)
    me.stage.is_over = True
