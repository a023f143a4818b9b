"""What is seen in part: what a running commit may hide is looked at again, as of one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.kernel import limits
from perdure.kernel.errors import NotFound, PerdureError
from perdure.kernel.places import WorldRef
from perdure.kernel.records import Head, World, head_key, world_key
from perdure.kernel.view import Key, Missing, Reads, View


class SeenInPart(Missing):
    """A decision lacks what a commit must have written, of which it saw another part.

    DynamoDB shows a commit record by record. Load ``reads``, all of one moment, and decide again
    on them: if the same is lacking even then, no commit hides it, and ``error`` is the answer.
    """

    def __init__(self, keys: Iterable[Key[Any]], error: PerdureError) -> None:
        super().__init__(Reads(peeks=tuple(keys)[: limits.LOAD_KEYS_MAX], snapshot=True))
        self.error = error


def seen_world(view: View, ref: WorldRef) -> tuple[World, Head]:
    """Return catalog record and head of a world, conditioning on neither.

    Raises: NotFound, Missing; SeenInPart if only one of the two is there.
    """
    keys = (world_key(ref), head_key(ref.partition))
    world, head = view.peek(keys[0]), view.peek(keys[1])
    if world is not None and head is not None:
        return world, head
    unknown = NotFound(expected="a world that exists", found=f"no world {ref.world!r}")
    if world is None and head is None:
        raise unknown
    raise SeenInPart(keys, unknown)
