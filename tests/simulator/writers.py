"""Writers: two rivals that tick on request and by schedule, and who tells them what is due."""

from __future__ import annotations

from tests.simulator.stage import Message, Process

from perdure.kernel.errors import PerdureError
from perdure.kernel.ids import Instant
from perdure.runtime.dispatch import Due, look
from perdure.runtime.run import run_ticks
from perdure.runtime.serve import serve
from perdure.runtime.tick import Ticker

EVERY_MS = {"w1": None, "w2": 1_500, "w3": None}
"""Worlds, and how often they tick by themselves."""

RUN_MS = 20_000
VISIBILITY_SECONDS = 60.0
TRIES_MAX = 6


async def ticker(me: Process) -> None:
    """Tick worlds, a few ticks at a time, beside a rival who wants the same."""
    stage = me.stage
    writer = me.ticker(lease_ms=me.lease_ms(), on_failure=stage.pick(("stop", "continue")))
    while await me.rested(3.0):
        message = _received(me)
        if message is not None:
            await served(me, writer, message)
        else:
            await _ran(me, writer, stage.pick(sorted(stage.entities)))


async def _ran(me: Process, writer: Ticker, world: str) -> None:
    request = f"run{next(me.stage.numbers)}"
    deadline = Instant(me.now() + RUN_MS)
    ticks = me.stage.chance.randint(1, 3)
    try:
        ran = await run_ticks(
            writer, me.ref(world), ticks=ticks, deadline=deadline, request=request
        )
    except PerdureError as error:
        me.met(f"run: {error.code}")
        me.note("is told of its run in {}: {}", world, error)
        me.check("run", error, world)
        return
    me.met("run: done" if ran.done else "run: out of time")
    me.note("has ticked {} to {}", world, ran.published_tick)


async def served(me: Process, writer: Ticker, message: Message) -> None:
    """Serve a schedule; its message goes when that is done."""
    due = message.due
    try:
        done = await serve(writer, due, deadline=Instant(me.now() + RUN_MS))
    except PerdureError as error:
        me.met(f"message: {error.code}")
        me.note("is told of its message for {}: {}", due.ref.world, error)
        me.check("message", error, due.ref.world)
        return
    if message in me.stage.queue:
        me.stage.queue.remove(message)
    me.met(f"message: {len(done.ticks)} ticks" if done.ticks else "message: nothing to do")
    me.note("has served {} with {} ticks", due.ref.world, len(done.ticks))


def _received(me: Process) -> Message | None:
    """Take a message that shows; it comes back unless its work is done."""
    stage = me.stage
    now = stage.loop.seconds
    shown = [each for each in stage.queue if each.visible_from <= now]
    if not shown:
        return None
    message: Message = stage.pick(shown)
    message.tries += 1
    message.visible_from = now + VISIBILITY_SECONDS * stage.faults.pace
    if message.tries > TRIES_MAX:
        stage.queue.remove(message)
        me.met("message: a dead letter")
        return None
    return message


async def dispatcher(me: Process) -> None:
    """Once a minute, look for worlds that are due, and tell the queue of each."""
    while await me.rested(4.0):
        await dispatched(me)
        if me.stage.faults.hits(
            "schedule fired twice", me.stage.faults.weather.messages.get("twice", 0.0)
        ):
            await dispatched(me)


async def dispatched(me: Process) -> bool:
    """Look once; say whether everything could be looked at."""
    stage = me.stage

    async def tell(found: list[Due]) -> None:
        for due in found:
            _send(me, due)

    try:
        found = await look(
            me.authority,
            stage.storage,
            now=me.now,
            go_on=lambda: True,
            tell=tell,  # type: ignore[arg-type]
        )
    except PerdureError as error:
        me.met(f"dispatch: {error.code}")
        me.note("is told of its look: {}", error)
        me.check("dispatch", error)
        return False
    me.met("dispatch: done")
    for _, error in found.failed:
        me.met(f"dispatch of one: {error.code}")
        me.check("dispatch of one", error)
    return not found.failed


def _send(me: Process, due: Due) -> None:
    stage = me.stage
    fault = stage.faults.drawn(stage.faults.weather.messages)
    me.note("sends a message for {} {}", due.ref.world, fault)
    now = stage.loop.seconds
    if fault == "message lost":
        return
    late = 300.0 * stage.chance.random() if fault == "message late" else 0.0
    stage.queue.append(Message(due, now + late))
    if fault == "message twice":
        stage.queue.append(Message(due, now + 20.0 * stage.chance.random()))
