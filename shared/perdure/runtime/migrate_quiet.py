"""What keeps a storage from being moved: whatever is not at rest, and what can not go along."""

from __future__ import annotations

from typing import Final

from perdure.kernel.consumers import CheckConsumers
from perdure.kernel.errors import ConsumerBehind, NotQuiescent
from perdure.kernel.ids import Instant
from perdure.kernel.reading import FindWorld
from perdure.kernel.records import World
from perdure.kernel.stillness import FindOpenIntent, unquiet
from perdure.runtime.inventory import Side

APART_NAMED: Final = 5
"""Sessions, or document stores, that a refusal names."""


async def check_quiet(side: Side, now: Instant) -> None:
    """Refuse a source that is not at rest, before anything is touched. Raises NotQuiescent."""
    intent = await side.authority.execute(FindOpenIntent(side.storage))
    if intent is not None:
        raise NotQuiescent(expected="no open landing", found=f"open intent {intent}")
    await check_only_worlds(side)
    for world in await side.worlds():
        state = await side.authority.execute(FindWorld(side.ref(world)))
        refused = unquiet(world, state.head, state.landed, now)
        if refused is not None:
            raise refused
        if state.head.status == "active":
            await _check_read(side, world)


async def check_only_worlds(side: Side) -> None:
    """Refuse a source with sessions or document stores: they are not copied, and half a move is none.

    Perdure's own document store stays where it is: it holds the jobs of that storage, this move
    perhaps among them. Raises NotQuiescent, which names what is there.
    """
    apart = {"session": await side.sessions(), "document store": await side.stores()}
    for kind, found in apart.items():
        if found:
            named = ", ".join(map(repr, found[:APART_NAMED]))
            more = f" and {len(found) - APART_NAMED} more" if len(found) > APART_NAMED else ""
            raise NotQuiescent(
                expected=f"a source without {kind}s, which can not be moved yet",
                found=f"{kind} {named}{more}",
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
