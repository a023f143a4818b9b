"""Resuming: what is checked of a world before any writer of this process touches its fence."""

from __future__ import annotations

import re
from typing import Final

from perdure.kernel.errors import MissingRun
from perdure.kernel.ids import Holder
from perdure.kernel.reading import WorldState
from perdure.kernel.shown import shown
from perdure.kernel.wake import check_active
from perdure.kernel.writers import check_app, check_mode, check_writer

_UUID_7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def check_resumable(state: WorldState, *, app: str, holder: Holder) -> None:
    """Refuse a world that this writer must not, or cannot, go on with.

    Raises: WorldClosing, WorldDestroyed, WorldMoving, WorldMoved, UnknownWriterMode,
    NotResumable, MissingRun, WrongApp; the first that holds, in this order.
    """
    world, head = state.world, state.head
    check_active(head, world.ref)
    check_mode(world.writer_mode)
    check_writer(head, world.ref, holder)
    if not _UUID_7.fullmatch(world.run):
        raise MissingRun(
            expected=f"a run of world {world.world!r} that is a UUID of version 7",
            found=shown(world.run) if world.run else "none",
        )
    check_app(world, app)
