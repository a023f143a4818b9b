"""Clients: they admit, send again, cancel, fork, destroy and read, and remember what they were told."""

from __future__ import annotations

from tests.simulator.commanding import contents
from tests.simulator.reading import history_read, read_once
from tests.simulator.stage import Intention, Process

from perdure.kernel.errors import OutcomeUnknown, PerdureError, Refused
from perdure.kernel.operations import parsed_commands
from perdure.runtime.close import destroy

WORLDS_MAX = 5


async def admitter(me: Process) -> None:
    """Send batches, send them again, send others under their ids, and cancel."""
    stage = me.stage
    while await me.rested(2.0):
        drawn = stage.chance.random()
        if drawn < 0.55 or not stage.notebook:
            intention = _intention(me)
            stage.notebook.append(intention)
            await sent(me, intention)
        elif drawn < 0.75:
            await sent(me, stage.pick(stage.notebook))
        elif drawn < 0.82:
            known = stage.pick(stage.notebook)
            await sent(me, Intention(known.world, known.batch, contents(me, known.world)))
        elif drawn < 0.97:
            await _cancels(me, stage.pick(stage.notebook))
        else:
            await _cancels_all(me)


async def canceller(me: Process) -> None:
    """Cancel what was sent last, while it is on its way to be settled."""
    stage = me.stage
    while await me.rested(2.0):
        if stage.notebook:
            await _cancels(me, stage.pick(stage.notebook[-8:]))


async def sent(me: Process, intention: Intention) -> bool:
    """Send a batch; say whether what became of it is known for ever."""
    stage, (world, batch) = me.stage, (intention.world, intention.batch)
    commands = parsed_commands(intention.contents)
    sending = stage.told.sending(world, batch)
    try:
        told = await me.worlds.submit(world, commands, batch_id=batch)
    except PerdureError as error:
        me.met(f"admission: {error.code}")
        me.note("is told of {}: {}", batch, error)
        me.check("admission", error, world)
        if isinstance(error, Refused):
            stage.told.refused(world, batch, intention.contents, error.code)
        elif not isinstance(error, OutcomeUnknown):
            stage.told.not_admitted(world, batch, sending)
        if isinstance(error, Refused) and error.code != "conflict":
            stage.answered.add((world, batch))
        return isinstance(error, Refused)
    me.met("admission: replayed" if told.replayed else "admission: admitted")
    me.note("is told that {} is admitted", batch)
    stage.told.receipts(world, batch, intention.contents, told.receipts)
    stage.answered.add((world, batch))
    known = stage.entities.setdefault(world, [])
    known += [each.entity_id for each in told.receipts if each.entity_id is not None]
    del known[:-20]
    return True


async def _cancels(me: Process, intention: Intention) -> None:
    stage, world = me.stage, intention.world
    index = int(stage.chance.random() * len(intention.contents))
    command = own_name(me, intention, index)
    was_told = stage.told.knows(world, command)
    try:
        await me.worlds.cancel(world, command)
    except PerdureError as error:
        me.met(f"cancel: {error.code}")
        me.note("is told of cancelling {}: {}", command, error)
        me.check("cancel", error, world)
        stage.told.cancelled(world, command, error.code, was_told=was_told)
        return
    me.met("cancel: cancelled")
    me.note("is told that {} is cancelled", command)
    stage.told.cancelled(world, command, None, was_told=was_told)


def own_name(me: Process, intention: Intention, index: int) -> str:
    """Name a command by its place in the batch, or by its own id if it has one."""
    place = f"{intention.batch}.{index}"
    own: str = intention.contents[index].get("command_id", place)
    return own if me.stage.chance.random() < 0.5 else place


async def _cancels_all(me: Process) -> None:
    stage = me.stage
    world = stage.pick(sorted(stage.entities))
    request = f"all{1 + int(stage.chance.random() * 8)}"
    try:
        told = await me.worlds.cancel_all(world, request)
    except PerdureError as error:
        me.met(f"cancel all: {error.code}")
        me.note("is told of {}: {}", request, error)
        me.check("cancel all", error, world)
        return
    me.met("cancel all: done")
    me.note("is told that {} is done", request)
    stage.told.cancelled_all(world, request, told.cancelled_below)


def _intention(me: Process) -> Intention:
    stage = me.stage
    world = stage.pick(sorted(stage.entities))
    batch = f"b{next(stage.numbers)}"
    return Intention(world, batch, contents(me, world))


async def forker(me: Process) -> None:
    """Fork worlds, and ask again for forks that were made."""
    stage = me.stage
    while await me.rested(15.0):
        number = 1 + int(stage.chance.random() * WORLDS_MAX)
        child = f"f{number}"
        source = stage.forks.setdefault(child, stage.pick(sorted(stage.entities)))
        pending = "copy" if stage.chance.random() < 0.8 else "drop"
        try:
            await me.worlds.fork(
                source,
                f"name of {child}",
                world_id=child,
                pending=pending,  # type: ignore[arg-type]
            )
        except PerdureError as error:
            me.met(f"fork: {error.code}")
            me.note("is told of fork {}: {}", child, error)
            me.check("fork", error, source, child)
            continue
        me.met("fork: done")
        me.note("is told that {} is a fork of {}", child, source)
        stage.told.forked(child, source)
        stage.entities.setdefault(child, list(stage.entities[source]))


async def destroyer(me: Process) -> None:
    """Destroy a world now and then, and go on with what others began to destroy."""
    stage = me.stage
    while await me.rested(40.0):
        world = stage.pick([each for each in sorted(stage.entities) if each != "w1"])
        await destroyed(me, world)


async def destroyed(me: Process, world: str) -> None:
    """Ask for the end of a world."""
    try:
        await destroy(me.means, me.ref(world), lease_ms=me.lease_ms())
    except PerdureError as error:
        me.met(f"destroy: {error.code}")
        me.note("is told of destroying {}: {}", world, error)
        me.check("destroy", error, world)
        return
    me.met("destroy: done")
    me.note("is told that {} is destroyed", world)
    me.stage.told.destroyed(world)


async def reader(me: Process) -> None:
    """Read ticks that were published, and what happened to a command: neither ever changes."""
    stage = me.stage
    while await me.rested(3.0):
        if stage.notebook and stage.chance.random() < 0.15:
            intention = stage.pick(stage.notebook)
            await history_read(me, intention.world, own_name(me, intention, 0))
        else:
            await read_once(me, stage.pick(sorted(stage.entities)))
