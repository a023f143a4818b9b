"""The floor of a catalog: what every version must understand of it, and whether it is on the move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from perdure.kernel.errors import Conflict, NewerSchema, PerdureError, WorldMoved, WorldMoving
from perdure.kernel.ids import Instant, Partition, StorageId
from perdure.kernel.places import catalog_partition
from perdure.kernel.record import Record
from perdure.kernel.session.features import FEATURES as JOURNAL_FEATURES
from perdure.kernel.view import Decision, Key, Reads, View

FEATURES: Final = JOURNAL_FEATURES
"""What this version understands of a catalog, and of the journals in it, beyond their first form."""

FloorState = Literal["open", "staged", "moving", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor(Record):
    """What holds for a whole catalog; where there is none, it is open and needs nothing new.

    ``staged``: a migration fills it, and nobody else may look. ``moving`` and ``moved``: its
    worlds are on their way to another storage, or there; no world may be added.
    """

    features: tuple[str, ...] = ()
    """Features without which a reader would misread the catalog."""

    state: FloorState = "open"
    migration: str | None = None
    """Id of the migration that last changed ``state``."""

    @property
    def key(self) -> Key[Floor]:
        return floor_key(self.partition)


def floor_key(catalog: Partition) -> Key[Floor]:
    return Key(catalog, "floor", Floor)


def check_floor(view: View, catalog: Partition) -> None:
    """Hold a new world to a catalog that takes worlds: its floor is named.

    Raises: NewerSchema, WorldMoving, WorldMoved.
    """
    floor = view.get(floor_key(catalog))
    if floor is None:
        return
    check_features(floor)
    if floor.state != "open":
        raise _elsewhere(floor)


def check_features(floor: Floor) -> None:
    """Refuse a catalog that a newer version wrote. Raises NewerSchema."""
    unknown = sorted(set(floor.features) - FEATURES)
    if unknown:
        raise NewerSchema(
            expected="a catalog without features that this version does not know",
            found=", ".join(unknown),
        )


def check_run_by(view: View, catalog: Partition, state: FloorState, migration: str) -> None:
    """Hold a step of a migration to its still being the one that runs. Raises Conflict."""
    floor = view.get(floor_key(catalog))
    found = ("open", None) if floor is None else (floor.state, floor.migration)
    if found != (state, migration):
        raise Conflict(
            expected=f"a storage that is {state} by migration {migration}",
            found=f"one that is {found[0]} by {found[1]}",
        )


def check_unclaimed(floor: Floor) -> None:
    """Refuse a storage that a migration has. Raises Conflict."""
    if floor.state != "open":
        raise Conflict(
            expected="a storage that no other migration has",
            found=f"one that is {floor.state} by migration {floor.migration}",
        )


def _elsewhere(floor: Floor) -> PerdureError:
    kind = WorldMoved if floor.state == "moved" else WorldMoving
    told = {"staged": "being filled", "moving": "moving", "moved": "moved"}[floor.state]
    return kind(
        expected="a storage that is open",
        found=f"one that is {told} by migration {floor.migration}",
    )


@dataclass(frozen=True, slots=True)
class EnterCatalog:
    """Ask, before anything else, whether this version may look into a catalog.

    Raises: NewerSchema; WorldMoving while a migration fills it.
    """

    storage: StorageId

    once: ClassVar[bool] = False

    @property
    def stream(self) -> Partition:
        return Partition(f"{catalog_partition(self.storage)}#read")

    def reads(self) -> Reads:
        return Reads(peeks=(floor_key(catalog_partition(self.storage)),))

    def decide(self, view: View, now: Instant) -> Decision[None]:
        floor = view.peek(floor_key(catalog_partition(self.storage)))
        if floor is not None:
            check_features(floor)
            if floor.state == "staged":
                raise _elsewhere(floor)
        return Decision(None)
