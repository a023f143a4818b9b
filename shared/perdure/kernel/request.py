"""Requests to one world: what all of them have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.kernel.ids import Partition
from perdure.kernel.places import WorldRef


@dataclass(frozen=True, slots=True)
class WorldRequest:
    """Base of the requests that the head of one world orders."""

    ref: WorldRef

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.partition
