"""Closing: a world's end, taken step by step, each of which any process can go on from."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.create import Describe, WorldInfo
from perdure.kernel.destroy import (
    BeginClosing,
    CheckClosingRead,
    Close,
    FinishDestroy,
    LeaveClosing,
    MarkTold,
)
from perdure.kernel.errors import Unavailable
from perdure.kernel.ids import Holder, RunId, WorldId
from perdure.kernel.places import WorldRef
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import World
from perdure.kernel.writers import check_app
from perdure.runtime.choice import hooks_in_use
from perdure.runtime.compute import HookFailure, tell
from perdure.runtime.configure import found_capabilities
from perdure.runtime.steady import steadily

if TYPE_CHECKING:
    from perdure.runtime.tick import Means


BEGIN_TRIES: Final = 8
"""Times a closing that lost too many races is asked for again."""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """What an `OnDestroy` hook is told: the world that ends."""

    world_id: WorldId
    run_id: RunId
    name: str


@dataclass(frozen=True, slots=True)
class Destroyed:
    """The world as it is after the call, and which hooks failed while they were told."""

    info: WorldInfo
    hook_failures: tuple[HookFailure, ...] = ()


async def destroy(
    means: Means,
    ref: WorldRef,
    *,
    lease_ms: int,
    spares_held: bool = False,
    by: Caller = LOCAL,
) -> Destroyed:
    """Destroy a world, or go on with its destruction; what is destroyed stays as it is.

    No entry, row or name goes: the world can be read for ever. A live writer is overtaken,
    unless it is to be spared. Any failure leaves the world closing, and the same call, by
    whomever, goes on: hooks that were told are not told again.
    Raises: NotFound, WrongApp, WorldMoving, WorldMoved, FenceHeld while another is closing it,
    ConsumerBehind, Unavailable kinds.
    """
    execute = means.authority.execute
    found = await execute(FindWorld(ref))
    if found.head.status == "destroyed":
        return Destroyed(await execute(Describe(ref)))
    # Its hooks would not be told by another application.
    check_app(found.world, means.app.name)
    # A holder of its own: two calls of one process must not tell the hooks twice either.
    holder = Holder(means.new_token())
    begin = BeginClosing(ref, holder, lease_ms, spares_held=spares_held, by=by)
    # Beside clients that admit without a pause it may lose a dozen races; it is worth waiting for.
    close = await steadily(means.authority, begin.checked(), tries=BEGIN_TRIES, pause=means.pause)
    if close.is_over:
        return Destroyed(await execute(Describe(ref)))
    try:
        failures = await _ended(means, ref, found.world, close, by)
    except BaseException as error:
        try:
            await execute(LeaveClosing(ref, close.epoch))
        except Unavailable as kept:
            error.add_note(f"Its fence runs out by itself: {kept}")
        raise
    return Destroyed(await execute(Describe(ref)), failures)


async def _ended(
    means: Means, ref: WorldRef, world: World, close: Close, by: Caller
) -> tuple[HookFailure, ...]:
    """Bring a closing world to its end, and return which of its hooks failed."""
    execute = means.authority.execute
    await execute(CheckClosingRead(ref))
    failures: tuple[HookFailure, ...] = ()
    if not close.told:
        ending = Ending(world.world, world.run, world.name)
        chosen = await found_capabilities(means.authority, ref, pause=means.pause)
        hooks = hooks_in_use(means.app, chosen.capabilities, "OnDestroy")
        failures = await tell(hooks, ending)
        for each in failures:
            _LOGGER.warning("hook %s failed at the end of %s: %s", each.hook, ref.world, each.code)
        await execute(MarkTold(ref, close.epoch))
    await execute(FinishDestroy(ref, close.epoch, by.paid))
    return failures
