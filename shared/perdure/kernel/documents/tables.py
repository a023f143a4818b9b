"""Tables: what an owner declares of its rows, and what the store keeps of that."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from perdure.kernel.canonical import canonical, digest
from perdure.kernel.documents import places
from perdure.kernel.documents.places import Part
from perdure.kernel.errors import Invalid, InvalidId, MissingField, UnknownField, WrongType
from perdure.kernel.ids import Partition
from perdure.kernel.record import Record
from perdure.kernel.shown import shown
from perdure.kernel.view import Key

ColumnType = Literal["int", "str", "bool", "float", "json"]

COLUMN_TYPES: Final[tuple[ColumnType, ...]] = get_args(ColumnType)

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "float": (int, float),
}
_IN_KEYS: Final = ("int", "str", "bool")
_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}\Z")


def checked_name(name: str, *, what: str) -> str:
    """Return ``name`` if an owner, a table, a column or an index may be called so."""
    if not _NAME.match(name):
        raise InvalidId(expected=f"{what} of 1 to 64 letters, digits and '_.@-'", found=shown(name))
    return name


@dataclass(frozen=True, slots=True)
class Table:
    """An owner's table as the code declares it. Check it once with :meth:`checked`."""

    owner: str
    name: str
    columns: Mapping[str, ColumnType]
    key: tuple[str, ...]
    indexes: Mapping[str, tuple[str, ...]]
    """Columns by index; a row in which one of them is None, False, 0 or "" is not in it."""

    version: int = 1

    @property
    def full_name(self) -> str:
        """Name of the table in its store: two parts."""
        return f"{self.owner}:{self.name}"

    @property
    def fingerprint(self) -> str:
        """Digest of all that its rows and indexes are made by."""
        shape = [dict(self.columns), list(self.key), {k: list(v) for k, v in self.indexes.items()}]
        return digest("perdure.table.v1", canonical(shape))

    def checked(self) -> Table:
        """Return self if a store can keep it. Raises Invalid kinds."""
        for what, names in (
            ("an owner", (self.owner,)),
            ("a table's name", (self.name,)),
            ("a column's name", self.columns),
            ("an index's name", self.indexes),
        ):
            for name in names:
                checked_name(name, what=what)
        for used in (self.key, *self.indexes.values()):
            wrong = [each for each in used if self.columns.get(each) not in _IN_KEYS]
            if not used or wrong:
                raise Invalid(
                    expected=f"keys and indexes of {self.full_name} of int, str and bool columns",
                    found=shown(wrong or used),
                )
        if self.version < 1:
            raise Invalid(expected="a version of 1 or more", found=str(self.version))
        return self

    def key_of(self, row: Mapping[str, Any]) -> tuple[Part, ...]:
        """Return the key of a checked row."""
        return tuple(row[name] for name in self.key)

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Refuse a row that does not have just these columns, each of its type.

        Columns of neither key nor index may be None. Raises InvalidValue kinds.
        """
        for name in row:
            if name not in self.columns:
                raise UnknownField(expected=f"a column of {self.full_name}", found=shown(name))
        for name, kind in self.columns.items():
            if name not in row:
                raise MissingField(expected=f"{name} in a row of {self.full_name}", found="none")
            self._check_value(name, kind, row[name])

    def _check_value(self, name: str, kind: ColumnType, value: Any) -> None:
        if kind == "json" or (value is None and name not in self.key):
            return
        fits = isinstance(value, _KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))
        if fits and kind == "int":
            fits = -places.SAFE_INTEGER_MAX <= value <= places.SAFE_INTEGER_MAX
        if not fits or (kind == "float" and not math.isfinite(value)):
            raise WrongType(expected=f"{kind} as {name} of {self.full_name}", found=shown(value))

    def index_sorts(self, row: Mapping[str, Any]) -> list[str]:
        """Spell where a row stands in each index that it is in."""
        key = places.spelled_key(self.key_of(row))
        found = []
        for index, columns in self.indexes.items():
            values = [row[name] for name in columns]
            if all(values):
                found.append(places.index_prefix(self.full_name, index, values) + key)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable(Record):
    """What a store keeps of a table: its version, and how far it is on its way to another."""

    name: str
    version: int
    fingerprint: str
    columns: dict[str, str]
    key_columns: tuple[str, ...]
    indexes: dict[str, tuple[str, ...]]
    moving_to: int | None = None
    """Version that its rows are being brought to; until then nobody else writes to it."""

    moved_behind: tuple[Part, ...] | None = None
    """Key of the last row that was brought there."""

    @property
    def key(self) -> Key[StoredTable]:
        return stored_table_key(self.partition, self.name)


def stored_table_key(store: Partition, name: str) -> Key[StoredTable]:
    return Key(store, places.table_sort(name), StoredTable)


def stored_as(store: Partition, table: Table) -> StoredTable:
    """Return what a store keeps of a table that is at its declared version."""
    return StoredTable(
        partition=store,
        name=table.full_name,
        version=table.version,
        fingerprint=table.fingerprint,
        columns=dict(table.columns),
        key_columns=tuple(table.key),
        indexes={name: tuple(columns) for name, columns in table.indexes.items()},
    )


def declared_by(stored: StoredTable) -> Table:
    """Return the table that a store's own record describes."""
    owner, _, name = stored.name.partition(":")
    return Table(
        owner=owner,
        name=name,
        columns=stored.columns,  # type: ignore[arg-type]  # written from a declaration
        key=stored.key_columns,
        indexes=stored.indexes,
        version=stored.version,
    )
