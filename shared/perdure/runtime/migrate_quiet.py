"""What keeps a storage from being moved: whatever is not at rest, and what can not go along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perdure.kernel.consumers import CheckConsumers
from perdure.kernel.errors import ConsumerBehind, NotQuiescent
from perdure.kernel.ids import Instant
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import World
from perdure.kernel.stillness import FindOpenIntent, unquiet
from perdure.runtime.inventory import Side
from perdure.runtime.migrate_stores import StoresMoved
from perdure.runtime.session.ports import Pause

SESSIONS_NAMED: Final = 5
"""Sessions that a refusal names."""


async def check_quiet(side: Side, now: Instant, pause: Pause) -> None:
    """Refuse a source that is not at rest, before anything is touched. Raises NotQuiescent."""
    intent = await side.authority.execute(FindOpenIntent(side.storage))
    if intent is not None:
        raise NotQuiescent(expected="no open landing", found=f"open intent {intent}")
    held = await side.streams()
    check_no_session(held.sessions)
    for world in held.worlds:
        state = await side.authority.execute(FindWorld(side.ref(world)))
        refused = unquiet(world, state.head, state.landed, now)
        if refused is not None:
            raise refused
        if state.head.status == "active":
            await _check_read(side, world)
    await StoresMoved(side, held.stores, pause).check_quiet(now)


def check_no_session(found: Sequence[str]) -> None:
    """Refuse a source with sessions: they are not copied, and half a move is none.

    Raises NotQuiescent, which names what is there.
    """
    if found:
        named = ", ".join(map(repr, found[:SESSIONS_NAMED]))
        more = f" and {len(found) - SESSIONS_NAMED} more" if len(found) > SESSIONS_NAMED else ""
        raise NotQuiescent(
            expected="a source without sessions, which can not be moved yet",
            found=f"session {named}{more}",
        )


async def _check_read(side: Side, world: World) -> None:
    """Refuse a world whose required consumers are behind: nobody could resume it over there."""
    try:
        await side.authority.execute(CheckConsumers(side.ref(world)))
    except ConsumerBehind as error:
        raise NotQuiescent(
            expected="every world of the source at rest",
            found=f"world {world.world!r}, of whose log this was asked: {error}",
        ) from error
