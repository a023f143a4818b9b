"""Loads and commits with bodies as the kernel knows them; stores see only packed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from perdure.authority import packing
from perdure.authority.store import Store
from perdure.kernel import limits
from perdure.kernel.commit import Action, Commit, Put
from perdure.kernel.errors import Corrupt, TooLarge
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Reads, Stored, View

Placed = dict[bytes, packing.Pointer]
"""Large bodies that lie in chunks already, so that deciding again need not put them again."""


_AS_IT_IS_BYTES: Final = min(limits.DEFLATE_ABOVE_BYTES, limits.BODY_INLINE_BYTES_MAX - 1)
"""Bodies of so many bytes are neither deflated nor put in chunks."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A commit ready for a store, and the large bodies that must be put before it."""

    commit: Commit
    placed: Placed
    unplaced: tuple[bytes, ...]


def packed(commit: Commit, placed: Placed, new_token: Callable[[], Token]) -> Packed:
    """Pack every body, with pointers in place of large ones. Raises TooLarge."""
    pointers = dict(placed)
    unplaced: list[bytes] = []
    actions: list[Action] = []
    for action in commit.actions:
        if not isinstance(action, Put):
            actions.append(action)
            continue
        if len(action.body) <= _AS_IT_IS_BYTES:
            actions.append(Put(action.key, action.seen, packing.RAW + action.body))
            continue
        _check_length(action.key, action.body, "a", limits.BODY_BYTES_MAX)
        body = packing.packed(action.body)
        if len(body) > limits.BODY_INLINE_BYTES_MAX:
            if body not in pointers:
                _check_length(action.key, body, "a packed", limits.BODY_PACKED_BYTES_MAX)
                pointers[body] = packing.Pointer.to(body, new_token())
                unplaced.append(body)
            body = pointers[body].spelled()
        actions.append(Put(action.key, action.seen, body))
    return Packed(Commit(commit.token, tuple(actions)), pointers, tuple(unplaced))


async def place(
    ready: Packed, commit: Callable[[Commit], Awaitable[None]], new_token: Callable[[], Token]
) -> None:
    """Put the large bodies of a commit, each chunk only where there is none.

    Raises: whatever ``commit`` raises; the chunks put until then are never pointed at.
    """
    sent = [
        commit(Commit(new_token(), (Put(key, None, chunk),)))
        for body in ready.unplaced
        for key, chunk in zip(ready.placed[body].keys, packing.chunks(body), strict=True)
    ]
    for outcome in await asyncio.gather(*sent, return_exceptions=True):
        if outcome is not None:
            raise outcome


async def loaded(store: Store, reads: Reads) -> View:
    """Load ``reads`` and unpack what they find. Raises Corrupt, StoreUnavailable."""
    view = await store.load(reads)
    large: dict[Key[Any], packing.Pointer] = {}
    for key, stored in view.stored.items():
        if stored is None:
            continue
        body = packing.unpacked(stored.body)
        if isinstance(body, packing.Pointer):
            large[key] = body
        else:
            view.stored[key] = Stored(stored.version, body)
    if large:
        await _fetch(store, view, large)
    return view


async def _fetch(store: Store, view: View, large: dict[Key[Any], packing.Pointer]) -> None:
    peeks = tuple(key for pointer in large.values() for key in pointer.keys)
    chunks = (await store.load(Reads(peeks=peeks))).stored
    for key, pointer in large.items():
        body = packing.unpacked(pointer.joined([_chunk(chunks, part) for part in pointer.keys]))
        stored = view.stored[key]
        assert stored is not None, "a pointer was read from it"
        if isinstance(body, packing.Pointer):
            raise Corrupt(expected=f"a body behind {pointer.name}", found="another pointer")
        view.stored[key] = Stored(stored.version, body)


def _chunk(chunks: dict[Key[Any], Stored | None], key: Key[Any]) -> bytes:
    stored = chunks.get(key)
    if stored is None:
        raise Corrupt(expected=f"a chunk at {key.partition} {key.sort}", found="none")
    return stored.body


def _check_length(key: Key[Any], body: bytes, what: str, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise TooLarge(
            expected=f"{what} body of at most {bytes_max} bytes",
            found=f"{len(body)} bytes for {key.partition} {key.sort}",
        )
