"""Worlds kept warm: states that a process has published, so that the next tick need not read them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from perdure.kernel.ids import Partition
from perdure.runtime.rebuild import Warm

WARM_BYTES_MAX: Final = 256_000_000
"""Bytes of rows of all worlds that are kept: a part of the 1,769 MB that a function with Arrow has.
The world that was ticked last is kept, however large."""

WARM_WORLDS_MAX: Final = 1_024
"""Worlds that are kept: an empty one takes some kilobytes too."""


class WarmWorlds:
    """States by world; those that were ticked longest ago go first."""

    def __init__(
        self, *, bytes_max: int = WARM_BYTES_MAX, worlds_max: int = WARM_WORLDS_MAX
    ) -> None:
        self._bytes_max = bytes_max
        self._worlds_max = worlds_max
        self._bytes = 0
        self._held: OrderedDict[Partition, tuple[Warm, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, world: Partition) -> Warm | None:
        held = self._held.get(world)
        return None if held is None else held[0]

    def forget(self, world: Partition) -> None:
        if world in self._held:
            self._bytes -= self._held.pop(world)[1]

    def keep(self, world: Partition, warm: Warm) -> None:
        """Keep a world's state in the place of an older one, and let go what there is no room for."""
        self.forget(world)
        size = warm.state.nbytes
        self._held[world] = warm, size
        self._bytes += size
        while len(self._held) > 1 and self._is_full():
            self._bytes -= self._held.popitem(last=False)[1][1]

    def _is_full(self) -> bool:
        return self._bytes > self._bytes_max or len(self._held) > self._worlds_max
