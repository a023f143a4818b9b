"""Worlds kept warm: states that a process has published, so that the next tick need not read them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from perdure.kernel.ids import Partition
from perdure.runtime.rebuild import Warm

WARM_ENTITIES_MAX: Final = 2_000_000
"""Entities of all worlds that are kept. A million of a few numbers each take some fifty megabytes;
a function with Arrow has 1,769. The world that was ticked last is kept, however large."""

WARM_WORLDS_MAX: Final = 1_024
"""Worlds that are kept: an empty one takes some kilobytes too."""


class WarmWorlds:
    """States by world; those that were ticked longest ago go first."""

    def __init__(
        self, *, entities_max: int = WARM_ENTITIES_MAX, worlds_max: int = WARM_WORLDS_MAX
    ) -> None:
        self._entities_max = entities_max
        self._worlds_max = worlds_max
        self._entities = 0
        self._held: OrderedDict[Partition, tuple[Warm, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, world: Partition) -> Warm | None:
        held = self._held.get(world)
        return None if held is None else held[0]

    def forget(self, world: Partition) -> None:
        if world in self._held:
            self._entities -= self._held.pop(world)[1]

    def keep(self, world: Partition, warm: Warm) -> None:
        """Keep a world's state in the place of an older one, and let go what there is no room for."""
        self.forget(world)
        entities = warm.state.entities
        self._held[world] = warm, entities
        self._entities += entities
        while len(self._held) > 1 and self._is_full():
            self._entities -= self._held.popitem(last=False)[1][1]

    def _is_full(self) -> bool:
        return self._entities > self._entities_max or len(self._held) > self._worlds_max
