"""History: manifests in order, and what the tables they name hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from perdure.kernel.errors import Corrupt, NotFound
from perdure.kernel.ids import Instant, Partition, TableId, Tick
from perdure.kernel.places import WorldRef, number
from perdure.kernel.records import (
    Manifest,
    Signature,
    World,
    manifest_key,
    signature_key,
    world_key,
)
from perdure.kernel.view import Decision, Range, Reads, View

MANIFESTS_MAX: Final = 200
"""Manifests of one answer: about 1 MB of them."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """Read the manifests of ticks ``first`` to ``last``, at most MANIFESTS_MAX, up to a gap."""

    ref: WorldRef
    first: Tick
    last: Tick

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.partition

    def _range(self) -> Range[Manifest]:
        return Range(
            self.ref.partition,
            manifest_key(self.ref.partition, self.first).sort,
            f"manifest/{number(self.last + 1)}",
            Manifest,
            limit=MANIFESTS_MAX,
        )

    def reads(self) -> Reads:
        return Reads(ranges=(self._range(),))

    def decide(self, view: View, now: Instant) -> Decision[tuple[Manifest, ...]]:
        found: list[Manifest] = []
        for manifest in view.find(self._range()):
            if manifest.tick != self.first + len(found):
                break
            found.append(manifest)
        return Decision(tuple(found))


@dataclass(frozen=True, slots=True)
class Signatures:
    """Read what tables hold. Raises Corrupt if one is named and unknown."""

    catalog: Partition
    tables: tuple[TableId, ...]

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.catalog

    def reads(self) -> Reads:
        return Reads(peeks=tuple(signature_key(self.catalog, table) for table in self.tables))

    def decide(self, view: View, now: Instant) -> Decision[dict[TableId, Signature]]:
        found: dict[TableId, Signature] = {}
        for table in self.tables:
            signature = view.peek(signature_key(self.catalog, table))
            if signature is None:
                raise Corrupt(expected=f"a signature of table {table}", found="none")
            found[table] = signature
        return Decision(found)


@dataclass(frozen=True, slots=True)
class ReadWorld:
    """Read a world's catalog record. Raises NotFound."""

    ref: WorldRef

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return self.ref.catalog

    def reads(self) -> Reads:
        return Reads(peeks=(world_key(self.ref),))

    def decide(self, view: View, now: Instant) -> Decision[World]:
        world = view.peek(world_key(self.ref))
        if world is None:
            raise NotFound(expected="a world that exists", found=f"no world {self.ref.world!r}")
        return Decision(world)
