"""A store beside a commit under way: what it has written of some records does not show yet."""

from __future__ import annotations

from typing import Any

from perdure.authority.memory import MemoryStore
from perdure.kernel.view import Key, Reads, Stored, View


class HalfShown(MemoryStore):
    """Shows records as they were until a snapshot names them, as DynamoDB may for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.instead: dict[Key[Any], Stored | None] = {}
        """What is seen in the place of a record."""

        self.looks = 0
        """Looks that met one of these."""

    def hide(self, *keys: Key[Any]) -> None:
        """Let records be seen as if they were not written yet."""
        for key in keys:
            assert key in self._records, f"nothing at {key}"
            self.instead[key] = None

    def hold(self, *keys: Key[Any]) -> None:
        """Let records be seen, from now on, as they are now."""
        for key in keys:
            self.instead[key] = self._records.get(key)

    def lose(self, *keys: Key[Any]) -> None:
        """Damage the store: nothing is at ``keys`` any more."""
        for key in keys:
            del self._records[key]
            self._sorts[key.partition].remove(key.sort)

    async def load(self, reads: Reads) -> View:
        if reads.snapshot:  # it waits for what is in the midst of a commit: from then on that shows
            for key in (*reads.keys, *reads.peeks):
                self.instead.pop(key, None)
        view = await super().load(reads)
        view.is_snapshot = reads.snapshot and not reads.ranges
        met = [key for key in view.stored if key in self.instead]
        if reads.snapshot or not met:
            return view
        self.looks += 1
        gone = {key for key in met if self.instead[key] is None}
        found = {
            each: [key for key in view.keys_of(each) if key not in gone] for each in reads.ranges
        }
        return View(view.stored | {key: self.instead[key] for key in met}, found, view.named)
