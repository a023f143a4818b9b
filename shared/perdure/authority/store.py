"""What a store must do. Two methods; everything else is the kernel's."""

from __future__ import annotations

from typing import Any, Protocol

from perdure.kernel.commit import Commit
from perdure.kernel.view import Key, Reads, View


class RevisionConflict(Exception):
    """Something the commit is conditioned on has changed; nothing was written.

    ``keys`` name some of what has changed, and nothing that has not, where the store is told.
    """

    def __init__(self, *keys: Key[Any]) -> None:
        super().__init__(*keys)
        self.keys = keys


class Store(Protocol):
    """Records by key, their versions, and one atomic conditional write of many of them.

    A store knows no command and no world.
    """

    async def load(self, reads: Reads) -> View:
        """Return everything asked for, read after every commit acknowledged before the call.

        Named records are read before ranges. If all was read between the same two commits, the
        view may say so (``is_snapshot``): a store says it of every load, or of snapshots of named
        records alone. Raises StoreUnavailable; StoreRefused.
        """
        ...

    async def commit(self, commit: Commit) -> None:
        """Make all of ``commit`` durable if every condition holds, else nothing.

        Sending the same commit again after an unknown outcome is safe: it never happens
        twice, and if it had happened and a record still carries its token, the second call
        returns as the first would have. If rivals have written over all of it, the second
        call is a conflict: what must be known then needs a record of its own.
        Raises: RevisionConflict, nothing happened; OutcomeUnknown, no answer came back;
        StoreUnavailable, nothing happened and the store is busy or gone; StoreRefused, nothing
        happened and it lets this process do nothing.
        """
        ...

    async def close(self) -> None:
        """Release files and connections. Idempotent."""
        ...
