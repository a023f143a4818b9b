"""What a model knows of a world on paper, beside what the paper says."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.worldly import World

from perdure.kernel import limits
from perdure.kernel.ids import Holder


class Told(World):
    """A world that is there already, or made by whoever says so."""

    def __post_init__(self) -> None:
        """Make nothing."""


@dataclass
class Life:
    """What the model knows of one world."""

    world: World
    private: bool = False
    status: str = "active"
    published: int = -1
    begins: int = -1
    """The last tick that an ancestor published."""

    sequences: dict[str, int] = field(default_factory=dict)
    """Of every command, inherited ones included, by name."""

    entities: set[int] = field(default_factory=set)
    fates: dict[str, object] = field(default_factory=dict)
    """What final statuses said when they were first seen."""

    sent: list = field(default_factory=list)
    epoch: int | None = None
    """Of whoever is closing it."""

    @property
    def holder(self):
        """Who alone may change a private world."""
        return Holder("ann") if self.private else None

    @property
    def ref(self):
        return self.world.ref

    @property
    def paper(self):
        return self.world.paper

    def status_of(self, command):
        return self.world.status(command)


def replaced_holder(request, holder):
    """Return an admission of whoever holds a private world."""
    return type(request)(request.ref, request.batch, None if holder is None else Holder(holder))


def item_bytes(record):
    return len(record.key.partition) + len(record.key.sort) + len(record.body()) + limits.ITEM_BYTES
